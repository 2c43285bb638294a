"""What the next training of a script asks its queue for, by what earlier ones told of themselves. Pure: `falaj.client.shapes`
looks those up, and how much of it the queue takes."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from falaj.base.values import value
from falaj.training.profiling.changes import Changes
from falaj.training.profiling.names import ASK
from falaj.training.profiling.verdicts import BOUNDS as OF_A_START
from falaj.training.profiling.verdicts import Setting, Verdict

# What a profile may ask for. Whoever may write a run's tags wrote the numbers.
BOUNDS: Final[Mapping[str, tuple[int, int]]] = {"gpus": (0, 1), "cpus": (1, 1024)}
_NEAR: Final = 0.95  # of another's rate: from here on it is the same
# Changes that hold for another job. Threads do not: a job is given as many as CPUs.
_ANYWHERE: Final = ("loader_workers",)
_ON_THE_SAME: Final = ("micro_batch", "pin_memory")


@value
class Shape:
    """Of each task of a job."""

    cpus: float = 1.0
    gpus: float = 0.0

    def but(self, **numbers: float) -> "Shape":
        changed: Any = numbers
        return replace(self, **changed)

    def __str__(self) -> str:
        return _counted("cpus", self.cpus) + (f" and {_counted('gpus', self.gpus)}" if self.gpus else "")


@value
class Ask:
    """For `number` of what `option` names, for the reason that a profile gave: such as that `workers` loader processes, for
    `had` now, find room."""

    option: str
    number: int
    why: str
    had: int = 0
    workers: int = 0

    def workers_on(self, cpus: float, before: float) -> int:
        """As many as `cpus` have room for, where the number asked for could not be had."""
        share = min(1.0, (cpus - before) / (self.number - before)) if self.number > before else 0.0
        return self.had + int((self.workers - self.had) * share + 1e-9)

    def __str__(self) -> str:
        return _counted(self.option, self.number)


@value
class Earlier:
    """A training that is over. `rate` is in rows a second, to be compared where `work`, files and command, is the same."""

    run: str
    shape: Shape
    work: tuple[str, ...]
    rate: float
    asks: tuple[Ask, ...] = ()
    changes: Changes = Changes()

    def slower_than(self, other: "Earlier") -> bool:
        return self._compares(other) and self.rate < _NEAR * other.rate

    def gained_little_on(self, other: "Earlier") -> bool:
        return self._compares(other) and _NEAR * self.rate <= other.rate

    def _compares(self, other: "Earlier") -> bool:
        return self.work == other.work and self.shape != other.shape and self.rate > 0 < other.rate


@value
class Decision:
    """By the profile of `model`, one of `earlier`: `shape` to begin with, and what to ask for otherwise."""

    earlier: tuple[Earlier, ...]
    model: Earlier
    shape: Shape
    asks: tuple[Ask, ...]
    sentences: tuple[str, ...]

    def against(self, ask: Ask, shape: Shape) -> str:
        """Why `shape`, which it would be with it, is not asked for again; empty where nobody tried."""
        more = ask.number > getattr(self.model.shape, ask.option)
        for one in self.earlier:
            if one.shape == shape and one.slower_than(self.model):
                return f"{ask} made it slower in run {one.run}: not asked for again."
            if one.shape == shape and more and one.gained_little_on(self.model):
                return f"{ask} made it no faster in run {one.run}: not asked for again."
        return ""

    def changes_on(self, shape: Shape) -> Changes:
        """What the first start does by itself, on what could be had."""
        model = self.model
        same_device = bool(shape.gpus) == bool(model.shape.gpus)
        changes = model.changes.only(*(_ANYWHERE + _ON_THE_SAME if same_device else _ANYWHERE))
        for ask in model.asks:
            workers = ask.workers_on(shape.cpus, model.shape.cpus) if ask.option == "cpus" else 0
            if workers > max(ask.had, changes.wanted.get("loader_workers", 0)) and "loader_workers" not in changes.refused:
                changes = replace(changes, wanted={**changes.wanted, "loader_workers": workers}, rate=model.rate)
        return changes


def asks_by(verdict: Verdict, setting: Setting) -> Iterator[Ask]:
    for option, number in verdict.ask.items():
        had = (setting.workers or 0) if verdict.workers else 0
        yield Ask(option=option, number=number, why=verdict.says, had=had, workers=verdict.workers)


def asks_told(asks: Iterable[Ask]) -> dict[str, str]:
    """As tags of a run, which an earlier start may have left others in; what matters most comes first, and counts."""
    first = {one.option: f"{one.number}\n{one.why}\n{one.had} {one.workers}" for one in reversed(list(asks))}
    return {ASK + option: first.get(option, "") for option in BOUNDS}


def asks_of(tags: Mapping[str, str]) -> tuple[Ask, ...]:
    """As a run's tags have them; what is no number within its bounds counts for nothing."""
    found = []
    for option, bounds in BOUNDS.items():
        said, why, workers, *_ = (*tags.get(ASK + option, "").split("\n"), "", "", "")
        had, needed = (_within(one, OF_A_START["loader_workers"]) or 0 for one in workers.partition(" ")[::2])
        if (number := _within(said, bounds)) is not None:
            found.append(Ask(option=option, number=number, why=why, had=had, workers=max(had, needed)))
    return tuple(found)


def decide(earlier: Sequence[Earlier], given: Shape, fixed: Collection[str]) -> Decision:
    """From the newest of `earlier`, or the fastest of those that did the same; options that are `fixed` stay as given."""
    last = earlier[0]
    model = max((one for one in earlier if last.slower_than(one)), key=lambda one: one.rate, default=last)
    shape = model.shape.but(**{option: getattr(given, option) for option in fixed})
    sentences = [f"By the profile of run {model.run}, which had {model.shape}."]
    if model is not last:
        sentences.append(f"Run {last.run} had {last.shape} and made {last.rate:,.0f} rows/s, this one {model.rate:,.0f}.")
    if shape != given:
        sentences.append(f"Begins with its {shape} instead of {given}.")
    asks = []
    for ask in model.asks:
        if getattr(shape, ask.option) == ask.number:
            continue
        if ask.option in fixed:
            sentences.append(f"It asks for {ask}, but --{ask.option} was given: {ask.why}.")
        else:
            asks.append(ask)
    return Decision(earlier=tuple(earlier), model=model, shape=shape, asks=tuple(asks), sentences=tuple(sentences))


def _within(text: str, bounds: tuple[int, int]) -> int | None:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else -1
    return number if bounds[0] <= number <= bounds[1] else None


def _counted(option: str, number: float) -> str:
    name = option.removesuffix("s").upper()
    return f"{number:g} {name}" if number == 1 else f"{number:g} {name}s"
