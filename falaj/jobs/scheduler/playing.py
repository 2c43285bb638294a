"""The scheduler with made time: told how long jobs take, it plays a trace, a past or a future through the same decisions."""

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count
from typing import Final

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import Job, Placement, Plan, Running

_MOST_ROUNDS: Final = 1000  # of deciding at one moment: more would mean that nothing is being settled


@value
class Arrival:
    """A job and how long it still takes with all its tasks."""

    job: Job
    takes: int


@value
class Happening:
    """What became of one job. `ended` is None where the play was over before it was."""

    job: str
    queue: str
    submitted: Moment
    started: Moment | None
    ended: Moment | None
    waited: int  # all the time it did not run, between its submission and its end or that of the play
    stopped: int  # so many times it gave back


class _Life:
    """A job while the play goes on. `left` is the work still to do, in microseconds with all its tasks; `setup` what must
    first be spent on starting, with any."""

    __slots__ = ("began", "ended", "job", "left", "number", "setup", "since", "started", "stopped", "tasks", "waited", "where")

    def __init__(self, job: Job, left: int) -> None:
        self.job, self.left = job, left
        self.setup = 0
        self.number = 0  # of its present start: an end that belongs to an earlier one is stale
        self.where: Placement = ()
        self.tasks = 0  # 0 while it waits
        self.began = Moment(0)  # running, this time
        self.since = job.submitted  # when it last came, or its work was last counted
        self.waited = 0
        self.started: Moment | None = None
        self.ended: Moment | None = None
        self.stopped = 0


class Play:
    """`start_cost` is what a job loses each time it starts; `gives_back_after` how long one takes that is told to stop (at
    once where nothing is said); `keeps` how much of its work it has when it starts again, given what it did this time. `watch`
    is told every plan when it has been carried out. With `coarse`, a part of the time since the play began, what happens within
    that time is decided on at once: the further away, the less a moment matters."""

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        start_cost: Callable[[Job], int] = lambda job: 0,
        gives_back_after: Callable[[Job], int] = lambda job: 0,
        keeps: Callable[[Job, int], int] = lambda job, done: done,
        watch: Callable[[Moment, Plan], None] | None = None,
        coarse: float = 0.0,
    ) -> None:
        self.rounds = 0  # of deciding
        self.moves = 0  # jobs that came or started
        self._scheduler = scheduler
        self._start_cost = start_cost
        self._gives_back_after = gives_back_after
        self._keeps = keeps
        self._watch = watch
        self._coarse = coarse
        self._lives: dict[str, _Life] = {}
        self._present: dict[str, _Life] = {}  # those that came and are not over
        self._events: list[tuple[int, int, Callable[[Moment], None]]] = []
        self._order = count()
        self._now = Moment(0)
        self._early = 0  # what starts in a coarse round would have started so much sooner, by and large

    # Before it begins

    def going(self, running: Running, left: int, now: Moment) -> None:
        """One that runs when the play begins, at `now`; the scheduler knows of it already. One that is being stopped gives
        back in time."""
        life = self._enter(_Life(running.job, left))
        life.started = life.began = running.started
        life.where, life.tasks, life.since = running.placement, len(running.placement), now
        self._schedule_end(life, now)
        if running.stopping is not None:
            self._stop_at(max(now, running.stopping), life)

    def standing(self, arrivals: Iterable[Arrival], now: Moment) -> None:
        """Those that wait when the play begins, at `now`; the scheduler knows of them already."""
        for arrival in arrivals:
            self._enter(_Life(arrival.job, arrival.takes))
        self._at(now, lambda _: None)

    def coming(self, arrivals: Iterable[Arrival]) -> None:
        """Those still to be submitted, in the order in which they are; there may be no end of them."""
        self._await(iter(arrivals))

    # While it goes on

    def run(self, *, until: Moment | None = None, done: Callable[[], bool] = lambda: False) -> Moment:
        """Play until nothing is left to happen, or `until`, or `done`; the last moment."""
        began = self._events[0][0] if self._events else 0
        while self._events and not done():
            first = self._events[0][0]
            if until is not None and first > until:
                break
            last = first + int((first - began) * self._coarse)
            while self._events and self._events[0][0] <= last:
                when, _, what = heapq.heappop(self._events)
                self._now = Moment(when)
                what(self._now)
            self._early = (self._now - first) // 2
            self._settle(self._now)
        return self._now

    @property
    def now(self) -> Moment:
        return self._now

    @property
    def is_over(self) -> bool:
        """Nothing is left to happen."""
        return not self._events

    def started(self, job: str) -> Moment | None:
        return self._lives[job].started

    def waiting(self) -> list[Job]:
        return [life.job for life in self._present.values() if not life.tasks]

    def running(self) -> list[Running]:
        """Those that hold seats, as a scheduler that takes over would be told."""
        return [
            Running(job=life.job, placement=life.where, started=life.began) for life in self._present.values() if life.tasks
        ]

    def happenings(self) -> list[Happening]:
        return [
            Happening(
                job=id,
                queue=life.job.queue,
                submitted=life.job.submitted,
                started=life.started,
                ended=life.ended,
                waited=life.waited + (self._now - life.since if life.ended is None and not life.tasks else 0),
                stopped=life.stopped,
            )
            for id, life in self._lives.items()
        ]

    # Steps

    def _at(self, when: int, what: Callable[[Moment], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), what))

    def _enter(self, life: _Life) -> _Life:
        self._lives[life.job.id] = self._present[life.job.id] = life
        return life

    def _await(self, arrivals: Iterator[Arrival]) -> None:
        arrival = next(arrivals, None)
        if arrival is None:
            return

        def come(now: Moment) -> None:
            self.moves += 1
            self._scheduler.submitted(self._enter(_Life(arrival.job, arrival.takes)).job)
            self._await(arrivals)

        self._at(arrival.job.submitted, come)

    def _settle(self, now: Moment) -> None:
        """Decide until this moment holds nothing more to decide: what is given back at once is given away again at once."""
        for _ in range(_MOST_ROUNDS):
            plan = self._scheduler.decide(now)
            self.rounds += 1
            again = self._carry_out(plan, now)
            if self._watch is not None:
                self._watch(now, plan)
            if not again:
                if plan.next is not None and plan.next > now:
                    self._at(plan.next, lambda _: None)
                return
        raise RuntimeError(f"at {now} the scheduler starts and stops without end")

    def _carry_out(self, plan: Plan, now: Moment) -> bool:
        """Whether something was given back at once."""
        for start in plan.starts:
            self._start(self._lives[start.job], start.placement, now)
        for resize in plan.resizes:
            self._resize(self._lives[resize.job], resize.placement, now)
        again = False
        for stop in plan.stops:
            life = self._lives[stop.job]
            after = self._gives_back_after(life.job)
            if after:
                self._stop_at(now + after, life)
            else:
                self._stop(life, life.number, now)
                again = True
        return again

    def _start(self, life: _Life, where: Placement, now: Moment) -> None:
        self.moves += 1
        at = Moment(max(life.since, now - self._early))
        life.waited += at - life.since
        life.started = at if life.started is None else life.started
        life.began = at
        self._seat(life, where, at)

    def _resize(self, life: _Life, where: Placement, now: Moment) -> None:
        """It goes on elsewhere, which takes a start."""
        self._count(life, now)
        self._seat(life, where, now)

    def _seat(self, life: _Life, where: Placement, now: Moment) -> None:
        life.number += 1
        life.where, life.tasks, life.since = where, len(where), now
        life.setup = self._start_cost(life.job)
        self._schedule_end(life, now)

    def _schedule_end(self, life: _Life, now: Moment) -> None:
        number, takes = life.number, -(-life.left * life.job.count // life.tasks)
        self._at(now + max(1, life.setup + takes), lambda then: self._end(life, number, then))

    def _stop_at(self, when: int, life: _Life) -> None:
        number = life.number
        self._at(when, lambda then: self._stop(life, number, then))

    def _stop(self, life: _Life, number: int, now: Moment) -> None:
        """It gives back and stands in line again, with what it keeps of its work."""
        if life.number != number or not life.tasks:
            return
        before = life.left
        self._count(life, now)
        kept = self._keeps(life.job, before - life.left)
        life.left, life.setup = before - kept, 0
        life.number += 1
        life.tasks, life.where = 0, ()
        life.stopped += 1
        self._scheduler.ended(life.job.id, now)
        life.job = replace(life.job, served=life.job.served + kept)
        self._scheduler.submitted(life.job)

    def _end(self, life: _Life, number: int, now: Moment) -> None:
        if life.number != number or not life.tasks:
            return
        life.tasks, life.where, life.left, life.ended = 0, (), 0, now
        del self._present[life.job.id]
        self._scheduler.ended(life.job.id, now)

    def _count(self, life: _Life, now: Moment) -> None:
        """What it did since it was last looked at; starting comes first and is no work."""
        spent = now - life.since
        on_setup = min(life.setup, spent)
        life.setup -= on_setup
        life.left = max(0, life.left - (spent - on_setup) * life.tasks // life.job.count)
        life.since = now
