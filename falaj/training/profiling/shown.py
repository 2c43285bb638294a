"""What a training told of itself, read back from its run for people: the console's page and the command line show the same."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from falaj.base.values import value
from falaj.training.profiling.asking import asks_of
from falaj.training.profiling.names import FIGURES, NEXT, PHASES, RECIPE, TOO_FEW, VERDICT, WORDS

_MOST: Final = 1e18  # of anything; who says more, measured nothing
_NEXT: Final = re.compile(rf"(The next start takes(, with --apply-profile,)?|{TOO_FEW}:) [a-z0-9 ,]{{1,200}}\.", re.ASCII)
_LEAST: Final = 0.0005  # of a step; less is not worth a word


@value
class Choice:
    name: str
    value: str
    why: str


@value
class Shown:
    """`verdicts` what costs most first; `shares` of a step by phase, where there is any; `facts` as names and texts. Whoever
    may write the run's tags wrote them: `commands`, which people copy, are made here of numbers within their bounds."""

    verdicts: list[str]
    next: list[str]
    commands: list[str]
    shares: Mapping[str, float]
    facts: list[tuple[str, str]]
    choices: list[Choice]

    @property
    def fine(self) -> bool:
        return bool(self.verdicts) and self.verdicts[0].startswith("compute-bound")


def is_told(tag: str) -> bool:
    return tag.startswith(WORDS)


def shown(tags: Mapping[str, str], metrics: Mapping[str, float]) -> Shown | None:
    """None of a run that told nothing of the kind."""
    if not any(map(is_told, tags)):
        return None
    measured = {name.removeprefix(FIGURES): number for name, number in metrics.items() if name.startswith(FIGURES)}
    shares = {phase: measured.get(f"{phase}_share", 0.0) for phase in PHASES}
    return Shown(
        verdicts=tags.get(VERDICT, "").splitlines(),
        next=[line for line in tags.get(NEXT, "").splitlines() if _NEXT.fullmatch(line)],
        commands=[f"falaj train … --{one.option} {one.number}" for one in asks_of(tags)],
        shares={phase: min(1.0, share) for phase, share in shares.items() if share >= _LEAST},
        facts=[(name, text(measured[key])) for key, (name, text) in _FACTS.items() if 0 <= measured.get(key, -1) < _MOST],
        choices=[_choice(name, tags[name]) for name in sorted(tags) if name.startswith(RECIPE)],
    )


def percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


def _choice(tag: str, text: str) -> Choice:
    chosen, _, why = text.partition("\n")
    name = tag.removeprefix(RECIPE).replace("_", " ")
    plainer = {"True": "yes", "False": "no"} | ({"0": "whole batches"} if name == "micro batch" else {})
    return Choice(name=name, value=plainer.get(chosen, chosen), why=why)


def _duration(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def _rate(number: float) -> str:
    return f"{number:,.0f}/s" if number >= 10 else f"{number:.2g}/s"


# In the order of what one wants to know first.
_FACTS: Final[Mapping[str, tuple[str, Callable[[float], str]]]] = {
    "step_seconds": ("A step", _duration),
    "rows_per_second": ("Rows", _rate),
    "tokens_per_second": ("Tokens", _rate),
    "share_of_peak": ("Of the peak", percent),
    "gpu_busy": ("GPU busy", percent),
    "gpu_memory": ("GPU memory", percent),
    "gpu_watts": ("GPU power", lambda watts: f"{watts:,.0f} W"),
    "cpus_busy": ("CPUs busy", lambda cpus: f"{cpus:.1f}"),
    "memory_bytes": ("Memory", lambda count: f"{count / (1 << 30):.1f} GiB"),
}
