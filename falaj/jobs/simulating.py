"""What would be: the recorded past, or the present, played again with other queues, other hosts or one more job."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from falaj.base.clock import DAY, SECOND, Clock, Moment
from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.jobs import documents
from falaj.jobs.documents import PRIORITIES, Document
from falaj.jobs.operations import queues as declared
from falaj.jobs.operations.queues import Outcome, Scenario, Simulation
from falaj.jobs.orders import read_order, shape_of
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.forecasting import forecast
from falaj.jobs.scheduler.playing import Arrival, Happening, Play
from falaj.jobs.scheduler.values import CARD, Job, Node, Rules
from falaj.jobs.standing import Standing
from falaj.jobs.store import history
from falaj.jobs.store.tables import Found

MOST_JOBS: Final = 20_000  # of the past, so that an answer comes within a minute
_ONE_MORE: Final = "0" * 32


@value
class _Played:
    outcomes: tuple[Outcome, ...]
    unplayed: int


class SimulationService:
    """Plays outside any transaction; nothing is changed."""

    def __init__(self, database: Database, clock: Clock, standing: Standing, rules: Rules) -> None:
        self._database = database
        self._clock = clock
        self._standing = standing
        self._rules = rules

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.SIMULATE_QUEUES, self.simulate, self.answer)]

    def answer(self, context: Context, request: declared.Simulate, found: Simulation) -> Simulation:
        return found

    def simulate(self, context: Context, request: declared.Simulate) -> Simulation:
        facts = self._standing.facts()
        other = _otherwise(facts, request.scenario)
        if request.now:
            return self._one_more(other, request.scenario, context.now)
        since = Moment(context.now - request.days * DAY)
        rows = self._database.read(lambda work: history.submitted_between(work, since, context.now, MOST_JOBS))
        if not rows:
            raise Invalid(f"No job ran in the last {request.days} days, so there is nothing to play again.")
        arrivals = [_arrival(row, context.now) for row in rows]
        before, after = (self._play(one, arrivals) for one in (facts, other))
        remarks = [f"{after.unplayed} jobs would find no queue or no host and are left out."] if after.unplayed else []
        if len(rows) == MOST_JOBS:
            remarks.append(f"Played are the last {MOST_JOBS:,} jobs of the span.")
        return Simulation(before=before.outcomes, after=after.outcomes, remarks=tuple(remarks))

    def _one_more(self, facts: Facts, scenario: Scenario, now: Moment) -> Simulation:
        if scenario.resources is None:
            raise Invalid("Say what the job would take: --gpus or --cpus.")
        queue = scenario.queue or (facts.queues[0].name if facts.queues else "")
        if queue not in {one.name for one in facts.queues}:
            raise Invalid(f"There is no queue {queue!r}.")
        job = Job(
            id=_ONE_MORE,
            project="",
            user="",
            queue=queue,
            submitted=now,
            shape=shape_of(scenario.resources),
            zones=tuple({node.zone for node in facts.nodes}) or ("",),
            count=scenario.tasks,
            duration=scenario.seconds * SECOND,
        )
        expected = forecast(replace(facts, waiting=(*facts.waiting, job)), job.id, now, self._rules)
        told = () if expected.middle is not None else ("It would not start: no host or no quota takes it.",)
        return Simulation(before=(), after=(), start=expected.middle, remarks=told)

    def _play(self, facts: Facts, arrivals: Sequence[Arrival]) -> _Played:
        scheduler = Facts(nodes=facts.nodes, queues=facts.queues, cohorts=facts.cohorts).scheduler(self._rules)
        queues = {queue.name for queue in facts.queues}
        fit = [one for one in arrivals if one.job.queue in queues and not scheduler.could_ever(one.job)]
        play = Play(scheduler)
        play.coming(fit)
        end = play.run()
        takes = {one.job.id: one for one in fit}
        outcomes = _outcomes(play.happenings(), takes, facts.nodes, end)
        return _Played(outcomes=tuple(outcomes), unplayed=len(arrivals) - len(fit))


def _arrival(row: Found, now: Moment) -> Arrival:
    job = read_order(
        row.order,
        id=row.id,
        project=row.project,
        user=row.submitted_by,
        queue=row.queue,
        submitted=Moment(row.submitted),
        served=0,
        not_before=Moment(0),
    )
    ran = (row.ended or now) - row.started
    takes = max(SECOND, row.served or ran)
    return Arrival(job=replace(job, duration=job.duration or takes), takes=takes)


def _otherwise(facts: Facts, scenario: Scenario) -> Facts:
    """The facts as the scenario has them."""
    if scenario.queues:
        document = Document(queues=scenario.queues, cohorts=scenario.cohorts, priorities=PRIORITIES)
        documents.check(document)
        queues, cohorts = documents.scheduled(document, {})
        facts = replace(facts, queues=tuple(queues), cohorts=tuple(cohorts))
    if not scenario.more_nodes:
        return facts
    like = next((node for node in facts.nodes if node.name == scenario.like), None) if scenario.like else facts.nodes[0]
    if like is None:
        raise Invalid(f"There is no host {scenario.like!r} that others could be like.")
    if scenario.more_nodes > 0:
        more = tuple(replace(like, name=f"{like.name}+{number}") for number in range(1, scenario.more_nodes + 1))
        return replace(facts, nodes=(*facts.nodes, *more))
    alike = [node.name for node in facts.nodes if replace(node, name="") == replace(like, name="")]
    gone = set(alike[scenario.more_nodes :])
    running = tuple(one for one in facts.running if not gone & {seat.node for seat in one.placement})
    return replace(facts, nodes=tuple(node for node in facts.nodes if node.name not in gone), running=running)


def _outcomes(
    happened: Iterable[Happening], takes: dict[str, Arrival], nodes: Sequence[Node], end: Moment
) -> Iterable[Outcome]:
    by_queue: dict[str, list[Happening]] = {}
    for one in happened:
        by_queue.setdefault(one.queue, []).append(one)
    begin = min((one.submitted for several in by_queue.values() for one in several), default=end)
    span = max(1, end - begin)
    cpus = sum(node.cpu_milli for node in nodes) * span
    gpus = sum(len(node.cards) for node in nodes) * CARD * span
    for queue, several in sorted(by_queue.items()):
        waits = sorted(one.waited / SECOND for one in several)
        turns = [(one.ended - one.submitted) / SECOND for one in several if one.ended is not None]
        work = [takes[one.job] for one in several if one.ended is not None]
        yield Outcome(
            queue=queue,
            jobs=len(several),
            mean_wait=sum(waits) / len(waits),
            p90_wait=waits[int(len(waits) * 0.9)],
            mean_turnaround=sum(turns) / len(turns) if turns else 0.0,
            preemptions=sum(one.stopped for one in several),
            gpu_use=sum(one.takes * one.job.count * one.job.shape.gpus * one.job.shape.gpu_milli for one in work) / gpus
            if gpus
            else 0.0,
            cpu_use=sum(one.takes * one.job.count * one.job.shape.cpu_milli for one in work) / cpus if cpus else 0.0,
        )


def cards_of(job: Job) -> int:
    """Thousandths of cards, of all its tasks."""
    return job.count * job.shape.gpus * job.shape.gpu_milli
