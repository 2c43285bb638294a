"""What stands out about jobs that run: cards that do nothing, memory that is nearly used up, and use or time that is far from
what others of their kind took. It is said to their owner as an event, and shown for as long as it holds."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median_low
from typing import Final

import msgspec

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.jobs.engines.engine import Used
from falaj.jobs.learning import Durations
from falaj.jobs.outcomes import span_text
from falaj.jobs.present import LiveAttempt, Present
from falaj.jobs.store import metering
from falaj.jobs.turns import Turn

KIND: Final = "odd"  # of the event
IDLE: Final = 10 * MINUTE
SETTLED: Final = 5 * MINUTE  # what ran for less says little
NEARLY: Final = 0.95  # of the memory it asked for
FAR: Final = 4.0  # times what is usual, or a part of it
LONG: Final = 3.0  # times what is usual
_NOTABLE: Final = 0.5  # cores or cards; what differs by less is no matter
_LEAST, _LAST = 3, 9  # others of its kind that must be known, and that are looked at


@value
class Usual:
    """What others of its kind kept busy and took: cores, cards, microseconds."""

    cpus: float
    gpus: float
    took: int


def anomalies(attempt: LiveAttempt, idle: int, usual: Usual | None, now: Moment) -> Iterable[tuple[str, str]]:
    """Kind and sentence of each; `idle` is for how long its cards have done nothing."""
    used, shape, ran = attempt.used, attempt.job.order.shape, now - (attempt.started or now)
    if idle >= IDLE:
        yield "idle", f"Its GPUs have done nothing for {_span(idle)}."
    asked = shape.memory_mib * len(attempt.seats)
    if used.memory_mib_peak >= NEARLY * asked:
        yield "memory", f"It took {used.memory_mib_peak} of the {asked} MiB of memory it asked for; beyond them it is ended."
    if usual is None or ran < SETTLED:
        return
    yield from _unlike(used, ran / SECOND, usual)
    if attempt.job.served + ran > LONG * usual.took + SETTLED:
        yield "long", f"It has run for {_span(attempt.job.served + ran)}; others of its kind took {_span(usual.took)}."


def _unlike(used: Used, seconds: float, usual: Usual) -> Iterable[tuple[str, str]]:
    for kind, name, mine, theirs in (
        ("cpu", "CPUs", used.cpu_seconds / seconds, usual.cpus),
        ("gpu", "GPUs", used.gpu_busy_seconds / seconds, usual.gpus),
    ):
        if abs(mine - theirs) >= _NOTABLE and not theirs / FAR <= mine <= theirs * FAR:
            yield kind, f"It keeps {mine:.1f} {name} busy; others of its kind kept {theirs:.1f}."


def _span(microseconds: float) -> str:
    return span_text(microseconds / SECOND)


class Anomalies:
    """Belongs to the controller's thread."""

    def __init__(self, present: Present, durations: Durations, idle_for: Callable[[LiveAttempt], int]) -> None:
        self._present = present
        self._durations = durations
        self._idle_for = idle_for
        self._usual: dict[str, Usual | None] = {}  # by kind, of those that run

    def look(self, work: UnitOfWork, turn: Turn) -> None:
        """Once a minute or so."""
        running = [one for one in self._present.attempts.values() if one.started is not None and not one.stop_for]
        self._read(work, {one.job.kin for one in running if one.job.kin and turn.now - (one.started or 0) >= SETTLED})
        for attempt in running:
            found = dict(anomalies(attempt, self._idle_for(attempt), self._usual.get(attempt.job.kin), turn.now))
            if found == attempt.odd:
                continue
            for kind in found.keys() - attempt.odd.keys():
                turn.tell(attempt.job.id, attempt.job.project, KIND, found[kind], attempt.number)
            attempt.odd = found
            turn.odd.append({"attempt": attempt.id, "odd": msgspec.json.encode(found).decode()})

    def _read(self, work: UnitOfWork, kins: set[str]) -> None:
        """What is usual is read once for each kind, when the first of it has run for a while."""
        self._usual = {kin: self._usual[kin] for kin in kins & self._usual.keys()}
        unknown = sorted(kins - self._usual.keys())[:500]
        if not unknown:
            return
        self._durations.read(work, unknown)
        known = metering.usual(work, unknown, _LAST)
        self._usual |= {kin: self._made(kin, known) for kin in unknown}

    def _made(self, kin: str, known: Mapping[str, Sequence[tuple[float, float]]]) -> Usual | None:
        others = known.get(kin, ())
        if len(others) < _LEAST:
            return None
        return Usual(
            cpus=median_low(cpus for cpus, _ in others),
            gpus=median_low(gpus for _, gpus in others),
            took=self._durations.expected(kin),
        )
