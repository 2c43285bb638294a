"""Taps as another room would make them, by their names alone, in a real worker."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from falaj.runtimes.engine import Array


class Writing:
    """Writes what it saw into the plane's own folder, a file for each worker."""

    share = 10_000

    def __init__(self, folder: Path) -> None:
        self._file = folder / f"{os.getpid()}.jsonl"

    def see(self, endpoint: str, revision: int, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        line = [endpoint, revision, [array.tolist() for array in inputs], [array.tolist() for array in outputs]]
        self._write(line)

    def close(self) -> None:
        self._write("closed")

    def _write(self, line: object) -> None:
        with open(self._file, "a") as file:
            file.write(json.dumps(line) + "\n")


class Raising(Writing):
    def see(self, endpoint: str, revision: int, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        raise RuntimeError("a bug")


class Sleeping(Writing):
    def see(self, endpoint: str, revision: int, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        time.sleep(3600)


class Spinning(Writing):
    def see(self, endpoint: str, revision: int, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass


def unmakeable(folder: Path) -> Writing:
    raise RuntimeError("another bug")
