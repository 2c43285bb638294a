"""What an import has finished, so that one that was cut off goes on where it was.

Losing the file costs time and nothing else: every step can be done again without doing anything twice.
"""

import dataclasses
import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.cli.places import login_file

VERSION = 1


@value
class Done:
    """One thing that was brought over: what it looked like then, its id here, how much was in it.

    `beyond` is where its artifacts lie, where those could not be read.
    """

    mark: str
    id: str
    counts: Mapping[str, int]
    beyond: str = ""


class Journal:
    """JSON lines, each written before the next step. A line that a crash cut off is not read. Thread-safe."""

    def __init__(self, file: Path, about: Mapping[str, str], *, fresh: bool = False) -> None:
        self.file = file
        self._done: dict[tuple[str, str], Done] = {}
        self._lock = threading.Lock()
        file.parent.mkdir(parents=True, exist_ok=True)
        head, entries = ({}, []) if fresh or not file.exists() else _read(file)
        if head and head != {"version": VERSION, **about}:
            raise Invalid(f"{file} belongs to another import ({_told(head)}); name another file with --state.")
        for entry in entries:
            self._done[(entry["kind"], entry["key"])] = Done(**entry["done"])
        self._descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if not head:
            os.ftruncate(self._descriptor, 0)
            self._write({"version": VERSION, **about})

    def close(self) -> None:
        os.close(self._descriptor)

    def get(self, kind: str, key: str) -> Done | None:
        return self._done.get((kind, key))

    def add(self, kind: str, key: str, done: Done) -> None:
        with self._lock:
            self._done[(kind, key)] = done
            self._write({"kind": kind, "key": key, "done": dataclasses.asdict(done)})

    def _write(self, document: Mapping[str, Any]) -> None:
        # The newline in front ends a line that a crash may have cut off.
        os.write(self._descriptor, f"\n{json.dumps(document, separators=(',', ':'))}\n".encode())


def default_file(about: Mapping[str, str]) -> Path:
    """Beside the sign-ins, one for each source, platform and project."""
    name = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
    return login_file().parent / "imports" / f"{name}.jsonl"


def _read(file: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    found = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            document = json.loads(line) if line.strip() else None
        except ValueError:
            continue  # cut off by a crash
        if isinstance(document, dict):
            found.append(document)
    if found and "version" not in found[0]:
        raise Invalid(f"{file} is not a state of an import; name another file with --state.")
    return (found[0], found[1:]) if found else ({}, [])


def _told(head: Mapping[str, Any]) -> str:
    return f"from {head.get('source')} to project {head.get('project')} at {head.get('target')}"
