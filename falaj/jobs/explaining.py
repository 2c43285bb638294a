"""Why a job waits and when it will start, from how things stand and through the scheduler's own decisions.

All of it is worked out before any transaction: playing the future takes longer than reading the past.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.jobs.drains import Drains, starts_as_others_end
from falaj.jobs.hinting import hints_for
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Forecast, Planned, ShareView, Why
from falaj.jobs.operations.words import Place
from falaj.jobs.pools.outlook import PoolOutlook
from falaj.jobs.pricing import cost
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.forecasting import QUICK, THOROUGH, Effort, forecast
from falaj.jobs.scheduler.ordering import service
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import CPU, GPU, IO, MEMORY, Job, Plan, Rules, Wait, gpu_of
from falaj.jobs.scheduler.wording import sentence
from falaj.jobs.silences import Silences
from falaj.jobs.standing import Standing, job_of
from falaj.jobs.store.jobs import OVER_STATES
from falaj.jobs.store.tables import Found
from falaj.jobs.views import required_job

MANY: Final = 1000  # waiting jobs, above which only the first of those that are alike are decided on
_ALIKE: Final = 10
_NO_WALL: Final = "Sharing a GPU by time isolates nothing: jobs of the project on that card can slow and starve each other."
_REMEMBERED: Final = 500  # outlooks
_AHEAD: Final = 20  # ids that are shown
_NO_HINTS: Final = ("retry", "starting", "engine")  # rules by which asking for something else does not help


class Explainer:
    """Also the outlook that submissions are shown. Thread-safe."""

    def __init__(self, database: Database, standing: Standing, rules: Rules, pools: PoolOutlook | None = None) -> None:
        self._database = database
        self._standing = standing
        self._rules = rules
        self._pools = pools or PoolOutlook(database, ())
        self._silences = Silences(database)
        self._drains = Drains(database)
        self._lock = threading.Lock()
        self._outlooks: OrderedDict[Job, tuple[float, Planned]] = OrderedDict()

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.EXPLAIN_JOB, self.why, lambda context, request, found: found),
            bind_prepared(declared.FORECAST_JOB, self.eta, lambda context, request, found: found),
        ]

    def planned(self, job: Job, now: Moment) -> Planned:
        """What was found for one just like it holds for a while: ten times as long as it took to find."""
        likeness = replace(job, id="", submitted=Moment(0))
        began = time.monotonic()
        with self._lock:
            until, known = self._outlooks.get(likeness, (0.0, None))
        if known is not None and began < until:
            return known
        found = self._plan(job, now)
        ended = time.monotonic()
        with self._lock:
            self._outlooks[likeness] = (ended + 10 * (ended - began), found)
            while len(self._outlooks) > _REMEMBERED:
                self._outlooks.popitem(last=False)
        return found

    def eta(self, context: Context, request: declared.OneJob) -> Forecast:
        row = self._row(context, request)
        if row.state != "waiting":
            at = None if row.started is None else Moment(row.started)
            told = f"It is over: {row.state}." if row.state in OVER_STATES else f"It is {row.state}."
            return Forecast(earliest=at, expected=at, latest=at, reason=told)
        facts = _with(self._standing.facts(), row)
        scheduler, plan = self._decided(facts, row.id, context.now)
        _, reason = self._told(facts, scheduler, plan, row, context.now)
        return self._forecast(facts, row.id, context.now, reason, THOROUGH)

    def why(self, context: Context, request: declared.OneJob) -> Why:
        row = self._row(context, request)
        if row.state != "waiting":
            told = sentence(row.words or f"it is {row.state}")
            return Why(job=row.id, state=row.state, rule=row.cause, sentence=told, before=0, ahead=(), shares=())
        facts = _with(self._standing.facts(), row)
        job = next(one for one in facts.waiting if one.id == row.id)
        scheduler, plan = self._decided(facts, row.id, context.now)
        wait = scheduler.why(row.id)
        before = [one for one in facts.waiting if _goes_before(one, job, facts)]
        rule, told = self._told(facts, scheduler, plan, row, context.now)
        return Why(
            job=row.id,
            state=row.state,
            rule=rule,
            sentence=told,
            before=wait.behind if wait is not None and len(facts.waiting) <= MANY else len(before),
            ahead=tuple(one.id for one in before if one.project == job.project)[:_AHEAD],
            shares=_shares(scheduler, job),
            hints=() if rule in _NO_HINTS or wait is None else tuple(self._hints(facts, job, wait, context.now)),
        )

    # Steps

    def _row(self, context: Context, request: declared.OneJob) -> Found:
        return self._database.read(lambda work: required_job(replace(context, work=work), request.job))

    def _decided(self, facts: Facts, job: str, now: Moment) -> tuple[Scheduler, Plan]:
        if len(facts.waiting) > MANY:
            facts = facts.heads(_ALIKE, job)
        scheduler = facts.scheduler(self._rules)
        return scheduler, scheduler.decide(now)

    def _plan(self, job: Job, now: Moment) -> Planned:
        facts = self._standing.facts()
        facts = replace(facts, waiting=(*facts.waiting, job))
        scheduler, plan = self._decided(facts, job.id, now)
        wait = scheduler.why(job.id)
        self._refuse_impossible(facts, job, scheduler, wait, now)
        start = next((one for one in plan.starts if one.job == job.id), None)
        places = () if start is None else tuple(Place(node=seat.node, cards=seat.cards) for seat in start.placement)
        if start is not None:
            when = Forecast(earliest=now, expected=now, latest=now, reason=sentence(start.reason) if start.borrowed else "")
            remarks: tuple[str, ...] = ()
        else:
            rule, reason = ("", "Others go first.") if wait is None else self._said(facts, job, wait, now)
            when = self._forecast(facts, job.id, now, reason, QUICK)
            remarks = () if wait is None or rule in _NO_HINTS else tuple(self._hints(facts, job, wait, now))
        price, most = (cost(job.price_per_hour, span) for span in (job.duration, job.timeout))
        if job.shape.sharing == "time":
            remarks += (_NO_WALL,)
        return Planned(queue=job.queue, places=places, forecast=when, cost=price, cost_most=most, remarks=remarks)

    def _refuse_impossible(self, facts: Facts, job: Job, scheduler: Scheduler, wait: Wait | None, now: Moment) -> None:
        """Raises `Invalid` for what neither the hosts there are nor those that can be had could ever take."""
        never = scheduler.could_ever(job)
        if never and (imagined := self._pools.with_all(facts, job)) is not None:
            scheduler, _ = self._decided(imagined, job.id, now)
            never, wait = scheduler.could_ever(job), scheduler.why(job.id)
        elif not facts.nodes:
            return  # they may still be on their way
        if never:
            raise Invalid(sentence(never))
        if wait is not None and wait.kind == "never":
            raise Invalid(sentence(wait.sentence))

    def _told(self, facts: Facts, scheduler: Scheduler, plan: Plan, row: Found, now: Moment) -> tuple[str, str]:
        """The rule by which a job waits, and the sentence."""
        if pause := _pause(row, now):
            return "retry", pause
        wait = scheduler.why(row.id)
        if wait is None:
            start = next((one for one in plan.starts if one.job == row.id), None)
            return "starting", start.reason if start else "It starts now."
        return self._said(facts, next(one for one in facts.waiting if one.id == row.id), wait, now)

    def _said(self, facts: Facts, job: Job, wait: Wait, now: Moment) -> tuple[str, str]:
        """With the hosts that are drained, and what pools do about it, where that is what it waits for."""
        for_want_of_hosts = wait.kind in ("room", "zone", "model", "never") and not wait.resource
        drained = self._drained(facts, job, wait)
        told = f"{sentence(wait.sentence)} {drained}".strip()
        if for_want_of_hosts and (silent := self._silences.words(job, now)):
            return "engine", f"{silent} {told}" if wait.kind == "room" else silent
        if not for_want_of_hosts or not (more := self._pools.words(facts, job, now)):
            return wait.kind, told
        if wait.kind == "room":
            return "room", f"{told} {more}"
        return "room", f"No host that is there now could take it. {more}"

    def _drained(self, facts: Facts, job: Job, wait: Wait) -> str:
        if wait.kind == "room":
            return self._drains.for_want_of_room(facts, job)
        return self._drains.for_all_else(facts, job) if wait.kind in ("quota", "order") else ""

    def _forecast(self, facts: Facts, job: str, now: Moment, reason: str, effort: Effort) -> Forecast:
        expected = forecast(facts, job, now, self._rules, effort=effort)
        return Forecast(earliest=expected.earliest, expected=expected.middle, latest=expected.latest, reason=reason)

    def _hints(self, facts: Facts, job: Job, wait: Wait, now: Moment) -> Iterable[str]:
        few = facts.heads(_ALIKE) if len(facts.waiting) > MANY else facts

        def starts(other: Job) -> bool:
            """Whether it would begin now if it were like this."""
            waiting = (*(one for one in few.waiting if one.id != job.id), other)
            plan = replace(few, waiting=waiting).scheduler(self._rules).decide(now)
            return any(one.job == other.id for one in plan.starts)

        if wait.kind == "room":
            return hints_for(job, wait, starts, as_usual=starts_as_others_end(facts, job))
        return hints_for(job, wait, starts, as_usual=not self._drained(facts, job, wait))


def _with(facts: Facts, row: Found) -> Facts:
    """The facts with a job that came, or gave back, since they were read."""
    if any(one.id == row.id for one in facts.waiting):
        return facts
    going = tuple(one for one in facts.running if one.job.id != row.id)
    return replace(facts, running=going, waiting=(*facts.waiting, job_of(row)))


def _pause(row: Found, now: Moment) -> str:
    """What is told about one that waits for its next try; empty for all others."""
    if row.not_before <= now:
        return ""
    return f"It is tried again at {str(Moment(row.not_before))[:19]}Z (retry {row.failures} of {row.retries})."


def _goes_before(one: Job, other: Job, facts: Facts) -> bool:
    """By what stands in the queue's order alone; what waiting and fair shares add changes from moment to moment."""
    if one.queue != other.queue or one.id == other.id:
        return False
    by_length = any(queue.name == one.queue and queue.order == "shortest" for queue in facts.queues)
    first, second = (
        (-job.priority, service(job, job.served) if by_length else 0.0, job.submitted, job.id) for job in (one, other)
    )
    return first < second


def asked(job: Job) -> dict[str, int]:
    """By resource, what all tasks of a job take together."""
    shape = job.shape
    cards = shape.gpus * shape.gpu_milli
    wish = {CPU: shape.cpu_milli, MEMORY: shape.memory_mib, IO: shape.io, GPU: cards}
    wish |= {gpu_of(model): cards for model in shape.models}
    return {name: amount * job.count for name, amount in wish.items() if amount}


def _shares(scheduler: Scheduler, job: Job) -> tuple[ShareView, ...]:
    wish, free = asked(job), scheduler.free()
    held = scheduler.shares().get(job.queue, {})
    return tuple(
        ShareView(
            resource=name,
            nominal=held.get(name, (0, 0, 0, 0))[0],
            used=held.get(name, (0, 0, 0, 0))[1],
            borrowed=held.get(name, (0, 0, 0, 0))[2],
            lent=held.get(name, (0, 0, 0, 0))[3],
            asked=amount,
            free=free.get(name, 0),
        )
        for name, amount in wish.items()
    )
