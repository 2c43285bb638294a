"""Why a job waits and when it will start, from how things stand and through the scheduler's own decisions."""

from dataclasses import replace

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Forecast, Planned, ShareView, Why
from falaj.jobs.operations.words import Place
from falaj.jobs.pricing import cost
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.forecasting import forecast
from falaj.jobs.scheduler.scheduler import Scheduler
from falaj.jobs.scheduler.values import CPU, GPU, IO, MEMORY, Job, Plan, Rules, gpu_of
from falaj.jobs.standing import Standing, job_of
from falaj.jobs.store.tables import Found
from falaj.jobs.views import required_job


class Explainer:
    """Also the outlook that submissions are shown."""

    def __init__(self, standing: Standing, rules: Rules) -> None:
        self._standing = standing
        self._rules = rules

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.EXPLAIN_JOB, self._stands, self.why),
            bind_prepared(declared.FORECAST_JOB, self._stands, self.eta),
        ]

    def _stands(self, context: Context, request: declared.OneJob) -> Facts:
        return self._standing.facts()

    def planned(self, job: Job, now: Moment) -> Planned:
        facts = self._standing.facts()
        facts = replace(facts, waiting=(*facts.waiting, job))
        scheduler = facts.scheduler(self._rules)
        plan = scheduler.decide(now)
        if facts.nodes and (never := scheduler.could_ever(job) or _never(plan, job.id)):  # hosts may still be on their way
            raise Invalid(never)
        start = next((one for one in plan.starts if one.job == job.id), None)
        places = () if start is None else tuple(Place(node=seat.node, cards=seat.cards) for seat in start.placement)
        if start is not None:
            when = Forecast(earliest=now, expected=now, latest=now, reason=start.reason)
        else:
            when = self._forecast(facts, job.id, now, _sentence(plan, job.id))
        span = job.duration or job.timeout
        return Planned(queue=job.queue, places=places, forecast=when, cost=cost(job.price_per_hour, span))

    def eta(self, context: Context, request: declared.OneJob, facts: Facts) -> Forecast:
        row = required_job(context, request.job)
        if row.started is not None and row.state != "waiting":
            at = Moment(row.started)
            return Forecast(earliest=at, expected=at, latest=at, reason=f"It is {row.state}.")
        facts = _with(facts, row)
        if row.state != "waiting":
            return Forecast(earliest=None, expected=None, latest=None, reason=f"It is {row.state}.")
        plan = facts.scheduler(self._rules).decide(context.now)
        return self._forecast(facts, row.id, context.now, _pause(row, context.now) or _sentence(plan, row.id))

    def why(self, context: Context, request: declared.OneJob, facts: Facts) -> Why:
        row = required_job(context, request.job)
        if row.state != "waiting":
            sentence = row.words or f"It is {row.state}."
            return Why(job=row.id, state=row.state, rule=row.cause, sentence=sentence, before=0, ahead=(), shares=())
        facts, job = _with(facts, row), job_of(row)
        scheduler = facts.scheduler(self._rules)
        plan = scheduler.decide(context.now)
        wait = next((one for one in plan.waits if one.job == job.id), None)
        pause = _pause(row, context.now)
        starts = any(one.job == job.id for one in plan.starts)
        before = [one for one in facts.waiting if one.queue == job.queue and _goes_before(one, job)]
        return Why(
            job=row.id,
            state=row.state,
            rule="retry" if pause else "starting" if starts else wait.kind if wait else "order",
            sentence=pause or _sentence(plan, job.id),
            before=len(before),
            ahead=tuple(one.id for one in before if one.project == job.project)[:20],
            shares=_shares(scheduler, facts, job),
        )

    def _forecast(self, facts: Facts, job: str, now: Moment, reason: str) -> Forecast:
        expected = forecast(facts, job, now, self._rules)
        return Forecast(earliest=expected.earliest, expected=expected.middle, latest=expected.latest, reason=reason)


def _with(facts: Facts, row: Found) -> Facts:
    """The facts with a job that came since they were read."""
    if row.state != "waiting" or any(one.id == row.id for one in facts.waiting):
        return facts
    going = tuple(one for one in facts.running if one.job.id != row.id)
    return replace(facts, running=going, waiting=(*facts.waiting, job_of(row)))


def _pause(row: Found, now: Moment) -> str:
    """What is told about one that waits for its next try; empty for all others."""
    if row.not_before <= now:
        return ""
    return f"It is tried again at {str(Moment(row.not_before))[:19]}Z (retry {row.failures} of {row.retries})."


def _goes_before(one: Job, other: Job) -> bool:
    return one.id != other.id and (-one.priority, one.submitted, one.id) < (-other.priority, other.submitted, other.id)


def _sentence(plan: Plan, job: str) -> str:
    if any(one.job == job for one in plan.starts):
        return "It starts now."
    found = next((one for one in plan.waits if one.job == job), None)
    return found.sentence if found else "Others of its queue go first."


def _never(plan: Plan, job: str) -> str:
    """Why its queue could not take it even were everybody else idle; empty where it could."""
    found = next((one.sentence for one in plan.waits if one.job == job and one.kind == "never"), "")
    return f"{found[:1].upper()}{found[1:]}." if found else ""


def asked(job: Job) -> dict[str, int]:
    """By resource, what all tasks of a job take together."""
    shape = job.shape
    cards = shape.gpus * shape.gpu_milli
    wish = {CPU: shape.cpu_milli, MEMORY: shape.memory_mib, IO: shape.io, GPU: cards}
    wish |= {gpu_of(model): cards for model in shape.models}
    return {name: amount * job.count for name, amount in wish.items() if amount}


def _shares(scheduler: Scheduler, facts: Facts, job: Job) -> tuple[ShareView, ...]:
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
