"""What is counted: what attempts used and cost, how full and busy nodes were, what queues used in the past, and the points
of each job's charts."""

from collections import defaultdict
from typing import Any, Final

import msgspec

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.jobs.cards import Cards
from falaj.jobs.engines.engine import Used
from falaj.jobs.operations.words import Usage
from falaj.jobs.present import NOTHING, LiveAttempt, Present
from falaj.jobs.pricing import Pricer, cost
from falaj.jobs.turns import Turn

# By queue, project, user and resource: how much, decayed to when.
PastUse = dict[tuple[str, str, str, str], tuple[float, int]]
FIRST_POINTS: Final = 10 * SECOND  # apart; later ones are a twentieth of the job's age apart, so 200 last a week


def metering_rows(
    present: Present, attempt: LiveAttempt, began: Moment | None, end: Moment, pricer: Pricer
) -> list[dict[str, Any]]:
    """A row for each node it was on, at the prices now in force. One that never ran used nothing."""
    if began is None:
        return []
    job, used, span = attempt.job, attempt.used, max(0, end - began)
    shape, seconds = job.order.shape, span / SECOND
    prices: dict[str, int] = defaultdict(int)
    tasks: dict[str, int] = defaultdict(int)
    for seat in attempt.seats:
        models = present.models_at(attempt, seat) if seat.cards else {}
        prices[seat.node] += pricer.per_hour(shape, models, job.zone)
        tasks[seat.node] += 1
    return [
        {
            "attempt": attempt.id,
            "node": node,
            "job": job.id,
            "project": job.project,
            "user": job.user,
            "queue": job.queue,
            "started": int(began),
            "ended": int(end),
            "cpu_seconds_asked": shape.cpu_milli * count * seconds / 1000,
            "cpu_seconds": used.cpu_seconds * (part := count / len(attempt.seats)),
            "memory_mib_seconds_asked": shape.memory_mib * count * seconds,
            "memory_mib_seconds": used.memory_mib_seconds * part,
            "gpu_seconds": shape.gpus * shape.gpu_milli * count * seconds / 1000,
            "gpu_busy_seconds": used.gpu_busy_seconds * part,
            "energy_joules": used.energy_joules * part,
            "price": prices[node],
            "cost": cost(prices[node], span),
        }
        for node, count in tasks.items()
    ]


def usage_of(used: Used, metered: list[dict[str, Any]]) -> Usage:
    return Usage(
        cpu_seconds=used.cpu_seconds,
        cpu_seconds_asked=sum(row["cpu_seconds_asked"] for row in metered),
        memory_mib_peak=used.memory_mib_peak,
        memory_mib_seconds_asked=sum(row["memory_mib_seconds_asked"] for row in metered),
        memory_mib_seconds=used.memory_mib_seconds,
        gpu_seconds=sum(row["gpu_seconds"] for row in metered),
        gpu_busy_seconds=used.gpu_busy_seconds,
        energy_joules=used.energy_joules,
        cost=sum(row["cost"] for row in metered),
    )


def _so_far(attempt: LiveAttempt, ran: int) -> Usage:
    """Of one that goes on; what it costs is known when it is over."""
    used, shape, seconds = attempt.used, attempt.job.order.shape, ran / SECOND * len(attempt.seats)
    return Usage(
        cpu_seconds=used.cpu_seconds,
        cpu_seconds_asked=shape.cpu_milli / 1000 * seconds,
        memory_mib_peak=used.memory_mib_peak,
        memory_mib_seconds_asked=shape.memory_mib * seconds,
        memory_mib_seconds=used.memory_mib_seconds,
        gpu_seconds=shape.gpus * shape.gpu_milli / 1000 * seconds,
        gpu_busy_seconds=used.gpu_busy_seconds,
        energy_joules=used.energy_joules,
    )


def decayed(amount: float, at: int, now: Moment, half_life: int) -> float:
    return amount * float(0.5 ** (max(now - at, 0) / half_life))


class Meter:
    """Counts while time goes by. Belongs to the controller's thread; what it has not written is lost with it."""

    def __init__(self, present: Present, half_life: int, now: Moment, past: PastUse) -> None:
        self._present = present
        self._half_life = half_life
        self._minute = now // MINUTE
        self._since = now
        self._past = dict(past)
        self._busy: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._busy_of: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        self._used_of_late: set[tuple[str, str, str, str]] = set()
        self._shown: set[str] = set()
        self.cards = Cards(present.cards_held)

    def count(self, attempt: LiveAttempt) -> None:
        """What it used since it was last counted was used on its nodes."""
        used, before = attempt.used, attempt.counted
        if used is before:
            return
        attempt.counted = used
        cpu, gpu = used.cpu_seconds - before.cpu_seconds, used.gpu_busy_seconds - before.gpu_busy_seconds
        for node in attempt.nodes:
            busy = self._busy[node]
            busy[0] += max(cpu, 0.0) / len(attempt.seats)
            busy[1] += max(gpu, 0.0) / len(attempt.seats)
        for owner in (("queue", attempt.job.queue), ("project", attempt.job.project)):
            busy = self._busy_of[owner]
            busy[0] += max(cpu, 0.0)
            busy[1] += max(gpu, 0.0)

    def end(self, attempt: LiveAttempt, ran: int, now: Moment) -> None:
        """What it had, it had used: fairness remembers it, less and less."""
        self.count(attempt)
        job = attempt.job
        for resource, amount in attempt.share.items():
            key = (job.queue, job.project, job.user, resource)
            self._past[key] = (self._decayed(key, now) + amount * ran, now)
            self._used_of_late.add(key)

    def _decayed(self, key: tuple[str, str, str, str], now: Moment) -> float:
        amount, at = self._past.get(key, (0.0, now))
        return decayed(amount, at, now, self._half_life)

    def sample(self, attempt: LiveAttempt, turn: Turn) -> None:
        """A point of its chart, where it is time for one."""
        now, began = turn.now, attempt.started
        if began is None or now - (attempt.sampled_at or began) < max(FIRST_POINTS, (now - began) // 20):
            return
        seconds = (now - (attempt.sampled_at or began)) / SECOND
        used, before = attempt.used, attempt.sampled
        attempt.sampled, attempt.sampled_at = used, now
        if used == NOTHING:
            return  # this engine does not measure, or has not yet
        turn.samples.append(
            {
                "job": attempt.job.id,
                "at": int(now),
                "cpus": max(used.cpu_seconds - before.cpu_seconds, 0.0) / seconds,
                "memory_mib": int(max(used.memory_mib_seconds - before.memory_mib_seconds, 0.0) / seconds),
                "gpu_busy": max(used.gpu_busy_seconds - before.gpu_busy_seconds, 0.0) / seconds,
                "gpu_memory_mib": used.gpu_memory_mib,
            }
        )
        turn.used.append({"attempt": attempt.id, "usage": msgspec.json.encode(_so_far(attempt, now - began)).decode()})

    def tick(self, turn: Turn) -> bool:
        """Write down what ended, and the minute that went by where one did; whether one did."""
        for key in self._used_of_late:
            amount, at = self._past[key]
            turn.past_use.append(
                dict(zip(("queue", "project", "user", "resource"), key, strict=True), amount=amount, at=int(at))
            )
        self._used_of_late.clear()
        minute = turn.now // MINUTE
        if minute == self._minute:
            return False
        for attempt in self._present.attempts.values():
            self.count(attempt)
        self._write_utilisation(turn, max(turn.now - self._since, 1) / SECOND)
        self._minute, self._since = minute, turn.now
        return True

    def _write_utilisation(self, turn: Turn, seconds: float) -> None:
        present, at = self._present, turn.now // MINUTE * MINUTE
        total = [0.0] * 6
        rows, shown = [], set()
        for name, node in present.nodes.items():
            held, busy = present.held_on.get(name, (0, 0)), self._busy.get(name, (0.0, 0.0))
            figures = [
                node.cpu_milli / 1000,
                held[0] / 1000,
                busy[0] / seconds,
                float(len(node.cards)),
                held[1] / 1000,
                busy[1] / seconds,
            ]
            total = [one + other for one, other in zip(total, figures, strict=True)]
            if any(held) or any(busy):
                shown.add(name)
            if name in shown or name in self._shown:  # the first minute of rest is written, the others are not
                rows.append(_utilisation_row(at, name, figures, 0))
        rows.append(_utilisation_row(at, "", total, present.waiting))
        turn.utilisation += rows
        turn.cards += self.cards.rows(at, present.nodes)
        turn.owners += self._owner_rows(at, seconds)
        self._shown = shown
        self._busy.clear()
        self._busy_of.clear()

    def _owner_rows(self, at: int, seconds: float) -> list[dict[str, Any]]:
        """Of queues and projects; one without any job has no row."""
        held: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
        waiting: dict[tuple[str, str], int] = defaultdict(int)
        for job in self._present.jobs.values():
            shape, tasks = job.order.shape, len(job.attempt.seats) if job.attempt is not None else 0
            for owner in (("queue", job.queue), ("project", job.project)):
                waiting[owner] += job.attempt is None
                held[owner][0] += shape.cpu_milli * tasks / 1000
                held[owner][1] += shape.gpus * shape.gpu_milli * tasks / 1000
        return [
            {
                "at": at,
                "kind": owner[0],
                "name": owner[1],
                "cpus_held": held[owner][0],
                "cpus_busy": self._busy_of[owner][0] / seconds,
                "gpus_held": held[owner][1],
                "gpus_busy": self._busy_of[owner][1] / seconds,
                "waiting": waiting[owner],
            }
            for owner in held.keys() | self._busy_of.keys()
        ]


def _utilisation_row(at: int, node: str, figures: list[float], waiting: int) -> dict[str, Any]:
    names = ("cpus", "cpus_held", "cpus_busy", "gpus", "gpus_held", "gpus_busy")
    return {"at": at, "node": node, **dict(zip(names, figures, strict=True)), "waiting": waiting}
