"""Taps as another room would make them, by their names alone, in a real worker."""

import json
import os
import time
from pathlib import Path

from falaj.serving.plane.core.taps import Seen, Tap


class Writing(Tap):
    """Writes what it saw into the plane's own folder, a file for each worker."""

    share = 10_000

    def __init__(self, folder: Path) -> None:
        self._file = folder / f"{os.getpid()}.jsonl"

    def see(self, seen: Seen) -> None:
        arrays = [[array.tolist() for array in some] for some in (seen.inputs, seen.outputs)]
        self._write([seen.endpoint, seen.revision, *arrays])

    def close(self) -> None:
        self._write("closed")

    def _write(self, line: object) -> None:
        with open(self._file, "a") as file:
            file.write(json.dumps(line) + "\n")


class Raising(Writing):
    def see(self, seen: Seen) -> None:
        raise RuntimeError("a bug")


class Sleeping(Writing):
    def see(self, seen: Seen) -> None:
        time.sleep(3600)


class Spinning(Writing):
    def see(self, seen: Seen) -> None:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass


def unmakeable(folder: Path) -> Writing:
    raise RuntimeError("another bug")
