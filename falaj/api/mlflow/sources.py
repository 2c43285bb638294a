"""Where a registered version's files come from, read out of the many ways in which clients write it.

What names a run or a logged model is taken from there; `models:/NAME/VERSION` is another version; all else is text that is
written down and never opened. Which project is meant is never in a source, so nothing of another project can be named.
"""

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.tracking.operations.artifacts import ARTIFACT_PATTERN

SERVED_AT: Final = "/api/2.0/mlflow-artifacts/artifacts/"
_HEX: Final = r"[0-9a-f]{32}"
_NAME: Final = re.compile(ARTIFACT_PATTERN)
_RUN_FILES: Final = re.compile(rf"[0-9]+/({_HEX})/artifacts(?:/(.*))?")
_MODEL_FILES: Final = re.compile(rf"[0-9]+/models/(m-{_HEX})/artifacts(?:/(.*))?")
_RUN: Final = re.compile(rf"({_HEX})(?:/(.*))?")
_LOGGED_MODEL: Final = re.compile(rf"(m-{_HEX})(?:/(.*))?")
_VERSION: Final = re.compile(r"([^/:@]+)/([0-9]{1,10})")


@value
class Files:
    """The files below a folder of a run or a logged model."""

    holder: str
    folder: str


@value
class Registered:
    """The files of another version."""

    model: str
    version: int


@value
class External:
    """Files that are not in Falaj."""


def source_of(text: str, host: str) -> Files | Registered | External:
    """`host` is what this server was called by: an address of our own is a way to write an artifact's location."""
    _refuse_leaving(text)
    try:
        parts = urlsplit(text)
    except ValueError:
        raise Invalid(f"The source {text[:200]!r} is not an address.") from None
    path = parts.path.lstrip("/")
    match parts.scheme:
        case "runs" if not parts.netloc:
            return _files(_RUN, path, text)
        case "models" if not parts.netloc:
            if version := _VERSION.fullmatch(path):
                return Registered(model=unquote(version[1]), version=int(version[2]))
            return _files(_LOGGED_MODEL, path, text)
        case "mlflow-artifacts" if parts.netloc in ("", host):
            return _location(path, text)
        case "http" | "https" if parts.netloc == host and SERVED_AT in parts.path:
            return _location(parts.path.partition(SERVED_AT)[2], text)
    return External()


def host_shown_the_token(source: str) -> str:
    """The host to which MLflow's clients send their own token where they are told to fetch from there; empty where to none."""
    try:
        parts = urlsplit(source)
    except ValueError:
        return ""
    return parts.netloc if parts.scheme in ("http", "https", "mlflow-artifacts") else ""


def _location(path: str, text: str) -> Files | External:
    pattern = _MODEL_FILES if _MODEL_FILES.fullmatch(path) else _RUN_FILES
    return _files(pattern, path, text)


def _files(pattern: re.Pattern[str], path: str, text: str) -> Files:
    found = pattern.fullmatch(path)
    folder = "" if found is None else (found[2] or "").strip("/")
    if found is None or (folder and not _NAME.fullmatch(folder)):
        raise Invalid(
            f"The source {text[:200]!r} names no artifacts: "
            "write runs:/RUN_ID/FOLDER, models:/MODEL_ID or models:/NAME/VERSION."
        )
    return Files(holder=found[1], folder=folder)


def _refuse_leaving(text: str) -> None:
    """However often it is encoded: a source never climbs."""
    plain = text
    for _ in range(10):
        if "\x00" in plain or ".." in re.split(r"[/\\]", plain):
            raise Invalid(f"The source {text[:200]!r} must not climb out of its folder with '..'.")
        if (decoded := unquote(plain)) == plain:
            return
        plain = decoded
    raise Invalid("The source is encoded too many times over.")
