"""What would be: the recorded past, or the present, played again with other queues, other hosts or one more job."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from falaj.base.clock import DAY, SECOND, Clock, Moment
from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.governance.projects.store import project_named
from falaj.jobs import documents
from falaj.jobs.documents import PRIORITIES, Document
from falaj.jobs.operations import queues as declared
from falaj.jobs.operations.queues import Outcome, Scenario, Simulation
from falaj.jobs.orders import read_order, shape_of
from falaj.jobs.outcomes import outcomes, span_text
from falaj.jobs.scheduler.facts import Facts
from falaj.jobs.scheduler.forecasting import Expected, forecast, played_on
from falaj.jobs.scheduler.playing import Arrival, Happening, Play
from falaj.jobs.scheduler.values import Job, Rules
from falaj.jobs.scheduler.wording import sentence
from falaj.jobs.standing import Standing
from falaj.jobs.store import history
from falaj.jobs.store.tables import Found

MOST_JOBS: Final = 10_000  # of the past, so that an answer comes within a minute
MOST_WAITING: Final = 1_000  # of the present; where more wait, some stand for the others
_AHEAD: Final = 7 * DAY  # so far the present is played on to see who is delayed
_MOVES: Final = 6_000
_ONE_MORE: Final = "f" * 32  # after all that came in the same moment


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
        before, after = (self._replay(one, arrivals) for one in (facts, other))
        return Simulation(before=before.outcomes, after=after.outcomes, remarks=tuple(_remarks(rows, before, after)))

    def _replay(self, facts: Facts, arrivals: Sequence[Arrival]) -> _Played:
        scheduler = Facts(nodes=facts.nodes, queues=facts.queues, cohorts=facts.cohorts).scheduler(self._rules)
        queues = {queue.name for queue in facts.queues}
        fit = [one for one in arrivals if one.job.queue in queues and not scheduler.could_ever(one.job)]
        # What no quota could take waits for ever; the play ends when nothing is left to happen.
        play = Play(scheduler, gives_back_after=self._rules.grace_of)
        play.coming(fit)
        play.run()
        happened = play.happenings()
        done = [one for one in happened if one.ended is not None]
        found = outcomes(done, {one.job.id: one for one in fit}, facts.nodes)
        return _Played(outcomes=tuple(found), unplayed=len(arrivals) - len(done))

    # One more job, now

    def _one_more(self, facts: Facts, scenario: Scenario, now: Moment) -> Simulation:
        job = _job(facts, scenario, now, self._owner(facts, scenario))
        with_it = replace(facts, waiting=(*facts.waiting, job))
        scheduler = with_it.scheduler(self._rules)
        if never := scheduler.could_ever(job):
            return Simulation(before=(), after=(), remarks=(f"It would never start. {sentence(never)}",))
        scheduler.decide(now)
        wait = scheduler.why(job.id)
        told = [] if wait is None else [sentence(wait.sentence)]
        if wait is not None and wait.kind == "never":
            return Simulation(before=(), after=(), remarks=(f"It would never start. {told[0]}",))
        expected = forecast(with_it, job.id, now, self._rules)
        before, after = (self._onward(one, now) for one in (facts, with_it))
        return Simulation(
            before=before[1],
            after=after[1],
            start=expected.middle,
            remarks=(*told, _interval(expected, now), *_delays(before[0], after[0], self._every(facts))),
        )

    def _owner(self, facts: Facts, scenario: Scenario) -> tuple[str, str]:
        """Project and user that it counts for: one that never ran anything would come before everybody."""
        project = ""
        if scenario.project:
            found = self._database.read(lambda work: project_named(work, scenario.project))
            if found is None:
                raise Invalid(f"There is no project {scenario.project!r}.")
            project = found.id
        queue, known = _queue(facts, scenario), [*(one.job for one in facts.running), *facts.waiting, *facts.recent.came]
        alike = [one for one in known if (one.project == project if project else one.queue == queue)]
        owners = Counter((one.project, one.user) for one in alike or ([] if project else known))
        return max(owners, key=lambda owner: (owners[owner], owner)) if owners else (project, "")

    def _every(self, facts: Facts) -> int:
        return max(1, -(-len(facts.waiting) // MOST_WAITING))

    def _onward(self, facts: Facts, now: Moment) -> tuple[Sequence[Happening], tuple[Outcome, ...]]:
        """What becomes of those that wait now, drawn once, and alike with and without the job."""
        play, waiting = played_on(facts, now, self._rules, Random(0), every=self._every(facts), keep=_ONE_MORE)  # nosec B311 - for playing, not for secrets
        left = {job.id for job in waiting}
        end = Moment(now + _AHEAD)
        play.run(until=end, done=lambda: play.moves >= _MOVES or all(play.started(id) is not None for id in left))
        mine = [one for one in play.happenings() if one.job in left and one.job != _ONE_MORE]
        counted = {job.id: Arrival(job=job, takes=0) for job in waiting}
        return mine, tuple(outcomes(mine, counted, facts.nodes))


def _queue(facts: Facts, scenario: Scenario) -> str:
    return scenario.queue or (facts.queues[0].name if facts.queues else "")


def _job(facts: Facts, scenario: Scenario, now: Moment, owner: tuple[str, str]) -> Job:
    if scenario.resources is None:
        raise Invalid("Say what the job would take: --gpus or --cpus.")
    queue = _queue(facts, scenario)
    if queue not in {one.name for one in facts.queues}:
        known = ", ".join(one.name for one in facts.queues)
        raise Invalid(f"There is no queue {queue!r}; there are {known}.")
    return Job(
        id=_ONE_MORE,
        project=owner[0],
        user=owner[1],
        queue=queue,
        submitted=now,
        shape=shape_of(scenario.resources),
        zones=tuple(sorted({node.zone for node in facts.nodes})) or ("",),
        count=scenario.tasks,
        duration=scenario.seconds * SECOND,
    )


def _interval(expected: Expected, now: Moment) -> str:
    if expected.earliest is None:
        return "Nobody can say when it would start: it did not in any of the futures that were played."
    if expected.latest == now:
        return "It would start at once."
    soonest = span_text((expected.earliest - now) / SECOND)
    latest = "nobody can say when" if expected.latest is None else f"in {span_text((expected.latest - now) / SECOND)}"
    return f"Four times in five it would start between in {soonest} and {latest}."


def _delays(before: Sequence[Happening], after: Sequence[Happening], every: int) -> Iterable[str]:
    """Which queues' jobs would wait longer; how many and how much, never whose."""
    waited = {one.job: one.waited for one in before}
    longer: dict[str, list[int]] = {}
    for one in after:
        more = one.waited - waited.get(one.job, one.waited)
        if more > SECOND:
            longer.setdefault(one.queue, []).append(more)
    if not longer:
        yield "Nobody who waits now would wait longer for it."
    for queue, spans in sorted(longer.items()):
        jobs, mean = len(spans) * every, span_text(sum(spans) / len(spans) / SECOND)
        about = "about " if every > 1 else ""
        yield (
            f"In queue {queue}, {about}{jobs} {'job' if jobs == 1 else 'jobs'} would wait longer: {mean} on average, "
            f"{span_text(max(spans) / SECOND)} at most."
        )


# The past


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
    takes = max(SECOND, row.served if row.ended is not None and row.served else ran)
    return Arrival(job=replace(job, deadline=None), takes=takes)


def _remarks(rows: Sequence[Found], before: _Played, after: _Played) -> Iterable[str]:
    recorded = sum(max(0, row.started - row.submitted) for row in rows) / len(rows) / SECOND
    jobs = sum(one.jobs for one in before.outcomes)
    if jobs:
        played = sum(one.mean_wait * one.jobs for one in before.outcomes) / jobs
        yield f"As it was, jobs waited {span_text(recorded)} on average; played again as things are now, {span_text(played)}."
    if after.unplayed:
        many = f"{after.unplayed} jobs" if after.unplayed > 1 else "1 job"
        yield f"{many} would find no queue, no quota or no host and {'are' if after.unplayed > 1 else 'is'} left out."
    if len(rows) == MOST_JOBS:
        yield f"Played are the last {MOST_JOBS:,} jobs of the span."


def _otherwise(facts: Facts, scenario: Scenario) -> Facts:
    """The facts as the scenario has them."""
    if scenario.queues:
        document = Document(queues=scenario.queues, cohorts=scenario.cohorts, priorities=PRIORITIES)
        documents.check(document)
        queues, cohorts = documents.scheduled(document, {})
        facts = replace(facts, queues=tuple(queues), cohorts=tuple(cohorts))
    if not scenario.more_nodes:
        return facts
    if not facts.nodes:
        raise Invalid("There is no host that others could be like.")
    like = next((node for node in facts.nodes if node.name == scenario.like), None) if scenario.like else facts.nodes[0]
    if like is None:
        known = ", ".join(node.name for node in facts.nodes[:20])
        raise Invalid(f"There is no host {scenario.like!r} that others could be like; there are {known}.")
    if scenario.more_nodes > 0:
        more = tuple(replace(like, name=f"{like.name}+{number}") for number in range(1, scenario.more_nodes + 1))
        return replace(facts, nodes=(*facts.nodes, *more))
    return _without(facts, [node.name for node in facts.nodes if replace(node, name="") == replace(like, name="")], scenario)


def _without(facts: Facts, alike: Sequence[str], scenario: Scenario) -> Facts:
    """Without the last of those hosts; what runs there stands in line again."""
    gone = set(alike[scenario.more_nodes :])
    nodes = tuple(node for node in facts.nodes if node.name not in gone)
    if not nodes:
        raise Invalid(f"There are {len(facts.nodes)} hosts; with {-scenario.more_nodes} fewer none would be left.")
    lost = [one for one in facts.running if gone & {seat.node for seat in one.placement}]
    return replace(
        facts,
        nodes=nodes,
        running=tuple(one for one in facts.running if one not in lost),
        waiting=(*facts.waiting, *(one.job for one in lost)),
    )
