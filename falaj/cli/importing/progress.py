"""How far an import is: a bar for each kind of thing on a terminal, nothing in a pipe."""

import sys
from collections import Counter
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn


class Bars:
    """Thread-safe. `expected` says how much of a kind there will be, `found` that there is more of it than was known,
    `brought` that it has come over or was here already."""

    def __init__(self) -> None:
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        console = Console(stderr=True, markup=False)
        self._progress = Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty())
        self._tasks: dict[str, TaskID] = {}
        self._expected: Counter[str] = Counter()
        self._found: Counter[str] = Counter()

    @property
    def are_shown(self) -> bool:
        return not self._progress.disable

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def expected(self, kind: str, count: int) -> None:
        self._expected[kind] = count
        self._set_total(kind)

    def found(self, kind: str, count: int = 1) -> None:
        self._found[kind] += count
        self._set_total(kind)

    def brought(self, kind: str, count: int = 1) -> None:
        """Of a kind that was neither expected nor found there is no bar."""
        if kind in self._tasks:
            self._progress.advance(self._tasks[kind], count)

    def total(self, kind: str) -> int:
        """Something new may have come after the counting."""
        return max(self._expected[kind], self._found[kind])

    def _set_total(self, kind: str) -> None:
        if kind not in self._tasks:
            self._tasks[kind] = self._progress.add_task(kind, total=0)
        self._progress.update(self._tasks[kind], total=self.total(kind))
