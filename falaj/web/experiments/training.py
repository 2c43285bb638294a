"""How a run trained, as its page draws it; what the training told is read in `falaj.training.profiling.shown`."""

from collections.abc import Mapping
from typing import Final

from markupsafe import Markup

from falaj.base.values import value
from falaj.training.profiling.names import TABLE, TRACE
from falaj.training.profiling.shown import Shown, percent, shown
from falaj.web.drawing.shares import Part, bar

_SERIES: Final = {"data": 1, "transfer": 4, "compute": 0, "communication": 5, "optimiser": 2, "other": 9}
_FILES: Final = {TRACE: "Trace", TABLE: "Table of operations"}


@value
class Spent:
    """One phase of the steps."""

    phase: str
    share: str
    series: int


@value
class Training:
    told: Shown
    split: list[Spent]
    bar: Markup
    files: list[tuple[str, str]]


def training_of(tags: Mapping[str, str], metrics: Mapping[str, float], files: set[str]) -> Training | None:
    """None of a run that told nothing of the kind."""
    if (told := shown(tags, metrics)) is None:
        return None
    parts = [Part(size=share, series=_SERIES[phase], words=f"{phase} {percent(share)}") for phase, share in told.shares.items()]
    return Training(
        told=told,
        split=[Spent(phase=phase, share=percent(share), series=_SERIES[phase]) for phase, share in told.shares.items()],
        bar=bar(parts, width=1000),
        files=[(name, words) for name, words in _FILES.items() if name in files],
    )
