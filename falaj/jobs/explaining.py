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
from falaj.jobs.hinting import hints_for
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Forecast, Planned, ShareView, Why
from falaj.jobs.operations.words import Place
from falaj.jobs.pricing import cost
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.forecasting import QUICK, THOROUGH, Effort, forecast
from falaj.jobs.scheduler.ordering import service
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import CPU, GPU, IO, MEMORY, Job, Plan, Rules, Wait, gpu_of
from falaj.jobs.standing import Standing, job_of
from falaj.jobs.store.tables import Found
from falaj.jobs.views import required_job

MANY: Final = 1000  # waiting jobs, above which only the first of those that are alike are decided on
_ALIKE: Final = 10
_REMEMBERED: Final = 500  # outlooks
_AHEAD: Final = 20  # ids that are shown


class Explainer:
    """Also the outlook that submissions are shown. Thread-safe."""

    def __init__(self, database: Database, standing: Standing, rules: Rules) -> None:
        self._database = database
        self._standing = standing
        self._rules = rules
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
            return Forecast(earliest=at, expected=at, latest=at, reason=f"It is {row.state}.")
        facts = _with(self._standing.facts(), row)
        scheduler, plan = self._decided(facts, row.id, context.now)
        return self._forecast(facts, row.id, context.now, _reason(scheduler, plan, row, context.now), THOROUGH)

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
        rule = "retry" if _pause(row, context.now) else "starting" if wait is None else wait.kind
        return Why(
            job=row.id,
            state=row.state,
            rule=rule,
            sentence=_reason(scheduler, plan, row, context.now),
            before=wait.behind if wait is not None and len(facts.waiting) <= MANY else len(before),
            ahead=tuple(one.id for one in before if one.project == job.project)[:_AHEAD],
            shares=_shares(scheduler, job),
            hints=() if rule in ("retry", "starting") or wait is None else tuple(self._hints(facts, job, wait, context.now)),
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
        if facts.nodes:  # they may still be on their way
            if never := scheduler.could_ever(job):
                raise Invalid(sentence(never))
            if wait is not None and wait.kind == "never":
                raise Invalid(sentence(wait.sentence))
        start = next((one for one in plan.starts if one.job == job.id), None)
        places = () if start is None else tuple(Place(node=seat.node, cards=seat.cards) for seat in start.placement)
        if start is not None:
            when = Forecast(earliest=now, expected=now, latest=now, reason=sentence(start.reason))
            remarks: tuple[str, ...] = ()
        else:
            when = self._forecast(facts, job.id, now, sentence(wait.sentence if wait else "others go first"), QUICK)
            remarks = () if wait is None else tuple(self._hints(facts, job, wait, now))
        span = job.duration or job.timeout
        price = cost(job.price_per_hour, span)
        return Planned(queue=job.queue, places=places, forecast=when, cost=price, remarks=remarks)

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

        return hints_for(job, wait, starts)


def sentence(words: str) -> str:
    """As people read one: with a capital and a full stop."""
    words = words.strip()
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '!', '?')) else '.'}"


def _reason(scheduler: Scheduler, plan: Plan, row: Found, now: Moment) -> str:
    if pause := _pause(row, now):
        return pause
    wait = scheduler.why(row.id)
    if wait is not None:
        return sentence(wait.sentence)
    start = next((one for one in plan.starts if one.job == row.id), None)
    return f"It starts now: {start.reason}." if start else "It starts now."


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
