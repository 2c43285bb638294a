"""How far an import is: a bar for each kind of thing on a terminal, nothing in a pipe."""

import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TimeElapsedColumn


class Bars:
    """Thread-safe. `found` says that there is more of a kind, `brought` that it has come over or was here already."""

    def __init__(self) -> None:
        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        console = Console(stderr=True, markup=False)
        self._progress = Progress(*columns, console=console, transient=True, disable=not sys.stderr.isatty())
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._progress.stop()

    def found(self, kind: str, count: int = 1) -> None:
        if kind not in self._tasks:
            self._tasks[kind] = self._progress.add_task(kind, total=0)
        task = self._tasks[kind]
        self._progress.update(task, total=(self._progress.tasks[task].total or 0) + count)

    def brought(self, kind: str, count: int = 1) -> None:
        self._progress.advance(self._tasks[kind], count)
