"""How many jobs that had to wait started inside the interval that was forecast when they came (four chances in five).

Traces are played; at sampled submissions the forecast is made from what the platform would know then: who waits and runs, what
came and what ended of late. How long a job takes is not known but for what was declared, which is wrong as people are, or
learned from others like it. The guesses were tuned on other virtual clusters of Philly and on Muri's trace 3: on none of these.
"""

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from scheduler_traces import MURI_NODES, gpu_nodes, muri, philly, philly_nodes, philly_queues

from falaj.base.clock import DAY, Moment
from falaj.jobs.metering import decayed
from falaj.jobs.scheduler.facts import Facts, Past, Recent, Took
from falaj.jobs.scheduler.forecasting import THOROUGH, Effort, Expected, forecast
from falaj.jobs.scheduler.playing import Arrival, Happening, Play
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import CARD, GPU, Cohort, Node, Plan, Queue, Rules

RECENT: Final = 1000  # jobs that came, and that ended, as the platform remembers them
LIKE: Final = 9  # of each kin
WARM_UP: Final = 0.2  # of the jobs, before anything is forecast


class Piece(NamedTuple):
    """A part of a trace on some hosts."""

    name: str
    nodes: list[Node]
    queues: list[Queue]
    cohorts: list[Cohort]
    arrivals: list[Arrival]
    kin: dict[str, str]


class Sample(NamedTuple):
    expected: Expected
    submitted: Moment
    seconds: float  # that the forecast took
    waiting: int


class Covered(NamedTuple):
    name: str
    samples: int
    inside: int
    early: int  # started before the interval
    late: int
    mean_seconds: float
    mean_width: float  # of the interval over the wait that came true, median


def pieces(limit: int | None = None) -> list[Piece]:
    """Durations unknown on two parts of Philly; declared ones, and learned ones, on Muri."""
    made = []
    for clusters in (("b436b2", "2869ce"), ("0e4a51", "e13805", "103959")):
        queues, cohorts = philly_queues(clusters)
        nodes = gpu_nodes(sum(map(philly_nodes, clusters)))
        made.append(Piece(f"Philly {'+'.join(clusters)}", nodes, queues, cohorts, philly(clusters)[:limit], {}))
    chance = random.Random(7)
    read = muri("trace1", known=False, limit=limit)
    declared = [_declaring(one, chance) for one in read.arrivals]
    fifo, shortest = (Queue(name="muri", quotas={}, order=order) for order in ("fifo", "shortest"))
    made.append(Piece("Muri 1, declared, shortest first", gpu_nodes(MURI_NODES), [shortest], [], declared, {}))
    kin = {one.job.id: f"{read.model[one.job.id]} {one.job.count * one.job.shape.gpus}" for one in read.arrivals}
    made.append(Piece("Muri 1, learned, first in", gpu_nodes(MURI_NODES), [fifo], [], read.arrivals, kin))
    return made


def _declaring(arrival: Arrival, chance: random.Random) -> Arrival:
    """People say more than it takes, mostly, and are far off now and then."""
    said = round(arrival.takes * chance.lognormvariate(0.4, 0.6))
    return replace(arrival, job=replace(arrival.job, duration=max(1, said)))


class Forecaster:
    """Watches a play, and forecasts for sampled jobs that did not start when they came."""

    def __init__(self, piece: Piece, samples: int, effort: Effort = THOROUGH) -> None:
        self.samples: dict[str, Sample] = {}
        self.play: Play
        self._piece = piece
        self._effort = effort
        self._rules = Rules()
        self._jobs = {one.job.id: one for one in piece.arrivals}
        first = int(len(piece.arrivals) * WARM_UP)
        stretch = max(1, (len(piece.arrivals) - first) // samples)
        # Of each stretch of the trace, the first job that has to wait: bursts count no more than quiet weeks.
        self._stretch_of = {
            one.job.submitted: (place // stretch, one.job.id) for place, one in enumerate(piece.arrivals[first:])
        }
        self._sampled: set[int] = set()

    def watch(self, now: Moment, plan: Plan) -> None:
        stretch, id = self._stretch_of.get(now, (-1, ""))
        if not id or stretch in self._sampled or id in self.samples or plan.stops or self.play.started(id) is not None:
            return
        self._sampled.add(stretch)
        facts = self._facts(now)
        began = time.perf_counter()
        expected = forecast(facts, id, now, self._rules, effort=self._effort)
        self.samples[id] = Sample(expected, now, time.perf_counter() - began, len(facts.waiting))

    def _facts(self, now: Moment) -> Facts:
        happened = self.play.happenings()
        ended = sorted((one for one in happened if one.ended is not None), key=lambda one: one.ended or 0)
        came = [self._jobs[one.job].job for one in happened][-RECENT:]
        return Facts(
            nodes=tuple(self._piece.nodes),
            queues=tuple(self._piece.queues),
            cohorts=tuple(self._piece.cohorts),
            past=tuple(self._past(ended, now)),
            waiting=tuple(self.play.waiting()),
            running=tuple(self.play.running()),
            recent=Recent(
                since=came[0].submitted,
                came=tuple(came),
                took=tuple(self._took(one) for one in ended[-RECENT:]),
                kin=self._piece.kin,
                learned=self._learned(ended),
            ),
        )

    def _took(self, one: Happening) -> Took:
        arrival = self._jobs[one.job]
        job = arrival.job
        return Took(queue=job.queue, cards=job.count * job.shape.gpus, expected=job.duration, took=arrival.takes)

    def _learned(self, ended: Sequence[Happening]) -> dict[str, tuple[int, ...]]:
        learned: dict[str, tuple[int, ...]] = {}
        for one in ended:
            kin = self._piece.kin.get(one.job)
            if kin is not None:
                learned[kin] = (*learned.get(kin, ()), self._jobs[one.job].takes)[-LIKE:]
        return learned

    def _past(self, ended: Sequence[Happening], now: Moment) -> list[Past]:
        used: dict[tuple[str, str, str], float] = {}
        for one in reversed(ended):
            assert one.ended is not None
            if now - one.ended > 7 * DAY:
                break
            job = self._jobs[one.job].job
            cards = job.count * job.shape.gpus * CARD
            account = (job.queue, job.project, job.user)
            amount = decayed(cards * self._jobs[one.job].takes, one.ended, now, self._rules.half_life)
            used[account] = used.get(account, 0.0) + amount
        return [
            Past(queue=queue, used={GPU: int(amount)}, at=now, project=project, user=user)
            for (queue, project, user), amount in used.items()
        ]


def replay(
    piece: Piece, samples: int, effort: Effort = THOROUGH, told: Callable[[str, Sample, Moment], None] = lambda *_: None
) -> Covered:
    forecaster = Forecaster(piece, samples, effort)
    scheduler = Scheduler(Rules(), nodes=piece.nodes, queues=piece.queues, cohorts=piece.cohorts)
    play = forecaster.play = Play(scheduler, watch=forecaster.watch)
    play.coming(piece.arrivals)
    last = piece.arrivals[-1].job.submitted
    play.run(done=lambda: play.now > last and all(play.started(id) for id in forecaster.samples))
    inside = early = late = 0
    widths = []
    for id, sample in forecaster.samples.items():
        started, expected = play.started(id), sample.expected
        assert started is not None
        told(id, sample, started)
        if expected.earliest is None or started < expected.earliest:
            early += 1
        elif expected.latest is not None and started > expected.latest:
            late += 1
        else:
            inside += 1
        if expected.latest is not None and expected.earliest is not None:
            widths.append((expected.latest - expected.earliest) / max(1, started - sample.submitted))
    count = max(1, len(forecaster.samples))
    seconds = sum(sample.seconds for sample in forecaster.samples.values()) / count
    width = sorted(widths)[len(widths) // 2] if widths else 0.0
    return Covered(piece.name, len(forecaster.samples), inside, early, late, seconds, width)
