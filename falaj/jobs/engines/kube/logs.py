"""Logs of pods, copied into folders of our own as they grow: a cluster gives the end of a log at best, and nothing of one
whose pod is gone. What was read is known by the time that stands before each line."""

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from falaj.jobs.engines.kube.api import Api
from falaj.jobs.engines.kube.manifests import TASK
from falaj.jobs.engines.kube.pods import has_written, is_running, rank
from falaj.jobs.running import log

_CURSORS: Final = "cursors"
_LOCK: Final = "lock"
_ROTATED: Final = b"falaj: lines are missing here: the node threw its log away before they were read\n"


class FollowedLogs:
    """Thread-safe, also between processes. Copying again changes nothing."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def follow(self, api: Api, attempt: str, pods: Sequence[dict[str, Any]], mib: int) -> None:
        """Copy what is new. Of a command that still runs, whole lines only."""
        written = [pod for pod in pods if has_written(pod)]
        if not written:
            return
        folder = self._directory / attempt
        folder.mkdir(mode=0o700, exist_ok=True)
        with _held(folder / _LOCK):
            cursors = _read(folder / _CURSORS)
            kept = log.Log(folder, mib)
            try:
                for pod in sorted(written, key=rank):
                    name = pod["metadata"]["name"]
                    new, cursors[name] = _new_of(api, name, cursors.get(name, ""), is_over=not is_running(pod))
                    kept.write(new)
            finally:
                kept.close()
                _write(folder / _CURSORS, cursors)

    def read(self, attempt: str, offset: int, limit: int) -> tuple[bytes, int]:
        return log.read(self._directory / attempt, offset, limit)

    def remove(self, attempt: str) -> None:
        shutil.rmtree(self._directory / attempt, ignore_errors=True)


def _new_of(api: Api, pod: str, last: str, *, is_over: bool) -> tuple[bytes, str]:
    """What a pod wrote after the line of the time `last`, and the time of the last line that this is."""
    params = {"container": TASK, "timestamps": "true"}
    if last:
        params["sinceTime"] = f"{last[:19]}Z"  # whole seconds are all that it takes
    with api.lines(f"{api.inside('', 'pods')}/{pod}/log", params) as chunks:
        whole = b"".join(chunks)
    lines = whole.splitlines(keepends=True)
    if lines and not is_over and not lines[-1].endswith(b"\n"):
        lines.pop()
    stamped = [(stamp.decode(errors="replace"), text) for stamp, _, text in (line.partition(b" ") for line in lines)]
    stamps = [stamp for stamp, _ in stamped]
    missing = b""
    if last in stamps:
        stamped = stamped[len(stamps) - stamps[::-1].index(last) :]
    elif last and stamped:
        missing, stamped = _ROTATED, [one for one in stamped if one[0] > last]
    if not stamped:
        return b"", last
    return missing + b"".join(text for _, text in stamped), stamped[-1][0]


@contextmanager
def _held(file: Path) -> Iterator[None]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(file: Path) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found


def _write(file: Path, cursors: dict[str, str]) -> None:
    new = file.with_suffix(".new")
    new.write_text(json.dumps(cursors))
    new.replace(file)
