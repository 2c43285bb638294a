"""What runs have in common and what differed: rows for a table, axes for a drawing, and a sentence."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal

from falaj.base.values import value
from falaj.web.drawing.parallel import Axis
from falaj.web.experiments.columns import Column, is_own_tag, is_system
from falaj.web.experiments.numbers import number_text

MOST_RUNS: Final = 20
MOST_AXES: Final = 8
NAMED_AT_MOST: Final = 4
_KINDS: Final = ("params", "metrics", "tags")


@value
class Comparison:
    """One row: what each run has under this name, None where it has nothing."""

    kind: Literal["params", "metrics", "tags"]
    name: str
    cells: tuple[Any, ...]
    best: int | None = None

    @property
    def differs(self) -> bool:
        return len({repr(cell) for cell in self.cells}) > 1

    @property
    def texts(self) -> tuple[str | None, ...]:
        return tuple(number_text(cell) if isinstance(cell, float) else cell for cell in self.cells)


def rows(runs: Sequence[Any]) -> list[Comparison]:
    """Those that differ come first within their kind, in the order of their names."""
    compared = [
        *_rows("params", runs, lambda run: {param.key: param.value for param in run.params}),
        *_rows("metrics", runs, lambda run: {metric.key: metric.value for metric in run.metrics}),
        *_rows("tags", runs, lambda run: {tag.key: tag.value for tag in run.tags if not is_own_tag(tag.key)}),
    ]
    return sorted(compared, key=lambda row: (_KINDS.index(row.kind), not row.differs, is_system(row.name)))


def _rows(kind: Any, runs: Sequence[Any], read: Callable[[Any], dict[str, Any]]) -> list[Comparison]:
    known = [read(run) for run in runs]
    made = []
    for name in sorted({name for one in known for name in one}):
        cells = tuple(one.get(name) for one in known)
        made.append(Comparison(kind=kind, name=name, cells=cells, best=_best(name, cells) if kind == "metrics" else None))
    return made


def _best(name: str, cells: Sequence[float | None]) -> int | None:
    """The run that did best, where one did better than another."""
    finite = [(cell, index) for index, cell in enumerate(cells) if cell is not None and math.isfinite(cell)]
    if is_system(name) or len({cell for cell, _ in finite}) < 2:
        return None
    choose = min if Column(kind="metrics", name=name).less_is_better else max
    return choose(finite, key=lambda pair: pair[0])[1]


def axes(compared: Sequence[Comparison]) -> list[Axis]:
    """What differed, parameters first: a drawing of what led to what."""
    differing = [row for row in compared if row.differs and not is_system(row.name)]
    metrics = [row for row in differing if row.kind == "metrics"]
    params = [row for row in differing if row.kind == "params"][: MOST_AXES - min(len(metrics), 3)]
    return [Axis(name=row.name, cells=row.cells) for row in (*params, *metrics[: MOST_AXES - len(params)])]


def sentence(names: Sequence[str], compared: Sequence[Comparison]) -> str:
    """What differed, for somebody who has ten seconds."""
    params = [row for row in compared if row.kind == "params"]
    differing = [row for row in params if row.differs]
    if not params:
        said = f"These {len(names)} runs logged no parameters"
    elif not differing:
        said = f"These {len(names)} runs have the same {_counted(len(params), 'parameter')}"
    else:
        said = f"These {len(names)} runs differ in {_named(differing)}"
        if same := len(params) - len(differing):
            said += f"; {_counted(same, 'parameter')} {'is' if same == 1 else 'are'} the same"
    return f"{said}.{_winner(names, compared)}"


def _named(differing: Sequence[Comparison]) -> str:
    named = ", ".join(f"{row.name} ({_listed(row.texts)})" for row in differing[:NAMED_AT_MOST])
    rest = len(differing) - NAMED_AT_MOST
    return f"{named} and {rest} more" if rest > 0 else named


def _winner(names: Sequence[str], compared: Sequence[Comparison]) -> str:
    decided = [row for row in compared if row.best is not None]
    if not decided:
        return ""
    wins = [sum(row.best == index for row in decided) for index in range(len(names))]
    winner = wins.index(max(wins))
    if wins[winner] < len(decided):
        return f" {names[winner]} did best in {wins[winner]} of {len(decided)} metrics."
    return f" {names[winner]} did best in {decided[0].name if len(decided) == 1 else f'all {len(decided)} metrics'}."


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _listed(texts: Iterable[str | None]) -> str:
    distinct = list(dict.fromkeys("not set" if text is None else text for text in texts))
    shown = ", ".join(text if len(text) <= 24 else f"{text[:23]}…" for text in distinct[:NAMED_AT_MOST])
    return shown if len(distinct) <= NAMED_AT_MOST else f"{shown}, …"
