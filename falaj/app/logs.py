"""Structured logs: one JSON object a line, with request ids, and with anything that looks like a secret struck out."""

import json
import logging
import re
from logging.handlers import RotatingFileHandler
from pathlib import Path

from falaj.base.clock import Moment

SECRETS = re.compile(
    r"falaj_[\w-]{20,}"  # opaque tokens
    r"|eyJ[\w-]+\.[\w-]+\.[\w-]*"  # signed tokens
    r"|(?i:bearer)\s+\S+"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"  # user:password in a URL
)


def redacted(text: str) -> str:
    return SECRETS.sub("[redacted]", text)


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": str(Moment(int(record.created * 1_000_000))),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        if record.exc_info:
            entry["error"] = redacted(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)


def log_to(file: Path, level: int = logging.INFO) -> None:
    """Send every log to the file, rotated so that it cannot fill the disk."""
    handler = RotatingFileHandler(file, maxBytes=10_000_000, backupCount=5, delay=True)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("httpx").setLevel(logging.WARNING)
