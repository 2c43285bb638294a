"""What alerts can make happen, one class for each kind: what is found out beforehand, and what is done in a transaction.

Traffic goes back or stands still by the platform's own authority, as with canaries. What deploys or submits something is done
in the name of whoever wished for it, with the right of the token that they wished with, and policy is asked at that moment
whether they may.
"""

from dataclasses import replace
from typing import Any, Final, Protocol

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Unavailable
from falaj.base.operation import Operation
from falaj.base.values import value
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.gate import Gatekeeper
from falaj.governance.ledger import recording
from falaj.governance.projects.store import Project
from falaj.jobs.makers import maker_on_behalf
from falaj.jobs.operations.jobs import RETRY_JOB, Planned, Retry, Setting
from falaj.jobs.submitting import SubmissionService
from falaj.monitoring import wishers
from falaj.monitoring.alerting import revision_of
from falaj.monitoring.operations.words import Act
from falaj.monitoring.retraining import Pipelines
from falaj.monitoring.store.tables import Found
from falaj.monitoring.wishers import Wisher
from falaj.serving.changing import Growth, change_split, way_back
from falaj.serving.deploying import Chosen, DeploymentService
from falaj.serving.operations.endpoints import DEPLOY_REVISION, SPLIT_TRAFFIC, Deploy, Split
from falaj.serving.operations.words import ORIGINAL, ChangeKind
from falaj.serving.splits import Arms, in_words, is_live, main_revision, read_arms
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.variants import BEST
from falaj.serving.views import read_steps

ALERT: Final = "FALAJ_ALERT"  # by which a job knows what it was started for
ENDPOINT: Final = "FALAJ_ENDPOINT"


@value
class Task:
    """An action that is to be done, with all that it is about, as it stands now."""

    id: str
    act: Act
    wisher: Wisher
    alert: Found
    endpoint: Found
    project: Project

    @property
    def reason(self) -> str:
        return f"Alert {self.alert.id}: {self.alert.title}"[:1000]

    @property
    def revision(self) -> int:
        """Of which the alert is; 0 where it is of the endpoint as a whole."""
        return revision_of(self.alert.key)


class Deed(Protocol):
    """Raises what `base.errors` has: what is permanent is told as the reason why it failed, anything else is tried again."""

    def foresee(self, task: Task, now: Moment) -> Any:
        """Outside any transaction."""
        ...

    def do(self, work: UnitOfWork, task: Task, foreseen: Any, now: Moment) -> str:
        """In one, with the endpoint held; with its own leaf. What was done, in a sentence."""
        ...


class RollBack:
    """To the last split in which the revision that the alert is of has no part."""

    def foresee(self, task: Task, now: Moment) -> None:
        return None

    def do(self, work: UnitOfWork, task: Task, foreseen: None, now: Moment) -> str:
        _check_answers(task)
        arms = way_back(work, task.endpoint.id, task.revision)
        if not arms:
            raise Conflict(f"There is no earlier split{_without(task.revision)} that could be gone back to.")
        _split(work, task, "rollback", arms, None, now)
        return f"Went back: {in_words(arms)}."


class PauseCanary:
    """It keeps its share; whoever is sure of it goes on by `falaj endpoint promote` or `split`."""

    def foresee(self, task: Task, now: Moment) -> None:
        return None

    def do(self, work: UnitOfWork, task: Task, foreseen: None, now: Moment) -> str:
        row = task.endpoint
        if row.next_step is None:
            raise Conflict("No canary grows by itself there.")
        growth = Growth(canary=row.canary, steps=read_steps(row.steps), step=row.step, since=Moment(row.growing), until=None)
        _split(work, task, "split", read_arms(row.arms), growth, now)
        return f"Revision {row.canary} keeps its share, and grows no more."


class FallBack:
    def __init__(self, database: Database, gate: Gatekeeper, deployments: DeploymentService) -> None:
        self._database, self._gate, self._deployments = database, gate, deployments

    def foresee(self, task: Task, now: Moment) -> tuple[Deploy, Chosen]:
        request, context = self._database.read(lambda work: self._asked(work, task, now))
        chosen = self._deployments.choose(context, request)
        variant = chosen.picked.variant
        if variant is not None and not variant.certified:
            raise Conflict(f"The variant {variant.name!r} has no certificate that holds: {variant.problem}")
        return request, chosen

    def do(self, work: UnitOfWork, task: Task, foreseen: tuple[Deploy, Chosen], now: Moment) -> str:
        request, context = self._asked(work, task, now)
        if request != foreseen[0]:
            raise Unavailable("The endpoint answers by another version now; it is looked at anew.")
        chosen = foreseen[1]
        name = ORIGINAL if chosen.picked.variant is None else chosen.picked.variant.name
        answering = _answering(work, task)
        if name == (answering.variant or ORIGINAL):
            raise Conflict(f"Revision {answering.number} answers by {name!r} already.")
        made = self._deployments.deploy(context, request, chosen)
        _record(work, task, DEPLOY_REVISION, request, context.facts, now)
        return f"Revision {made.revision} answers, which is {name!r} of {request.model} version {request.version}."

    def _asked(self, work: UnitOfWork, task: Task, now: Moment) -> tuple[Deploy, Context]:
        _check_answers_most(task)
        answering = _answering(work, task)
        request = Deploy(
            project=task.project.name,
            endpoint=task.endpoint.name,
            model=answering.model_name,
            version=answering.version,
            variant=task.act.variant or BEST,
            reason=task.reason,
        )
        return request, _on_behalf(work, self._gate, task, DEPLOY_REVISION, request, now)


class Retrain:
    """By a pipeline, which is started with its rights, or by a job that is submitted once more."""

    def __init__(self, database: Database, gate: Gatekeeper, submissions: SubmissionService, pipelines: Pipelines) -> None:
        self._database, self._gate, self._submissions, self._pipelines = database, gate, submissions, pipelines

    def foresee(self, task: Task, now: Moment) -> Planned | None:
        if task.act.pipeline:
            return None
        if not task.act.job:
            raise Conflict("The monitor does not say which job: give its id with `falaj monitor apply`.")
        context = self._database.read(lambda work: self._asked(work, task, now))
        return self._submissions.foresee_again(context, task.act.job, _variables(task))

    def do(self, work: UnitOfWork, task: Task, foreseen: Planned | None, now: Moment) -> str:
        if foreseen is None:
            return self._start(work, task, now)
        context = self._asked(work, task, now)
        context = replace(context, identity=replace(context.identity, token=maker_on_behalf(context)))
        made = self._submissions.submit_again(context, task.act.job, foreseen, _variables(task))
        _record(work, task, RETRY_JOB, self._request(task), context.facts, now)
        return f"Submitted the job {made.job.id} ({made.job.name})."

    def _start(self, work: UnitOfWork, task: Task, now: Moment) -> str:
        pipeline = task.act.pipeline
        operation, request = self._pipelines.asked(task.project.name, pipeline)
        context = _on_behalf(work, self._gate, task, operation, request, now)
        told = {"alert": task.alert.id, "endpoint": task.endpoint.name}
        run = self._pipelines.start(context, pipeline, told, task.reason, Moment(task.wisher.at))
        _record(work, task, operation, request, context.facts, now)
        return f"Started the run {run} of the pipeline {pipeline!r}."

    def _request(self, task: Task) -> Retry:
        return Retry(project=task.project.name, job=task.act.job)

    def _asked(self, work: UnitOfWork, task: Task, now: Moment) -> Context:
        return _on_behalf(work, self._gate, task, RETRY_JOB, self._request(task), now)


def _variables(task: Task) -> tuple[Setting, ...]:
    return Setting(name=ALERT, value=task.alert.id), Setting(name=ENDPOINT, value=task.endpoint.name)


def _without(revision: int) -> str:
    return f" without revision {revision}" if revision else ""


def _check_answers(task: Task) -> None:
    """Somebody may have seen to it meanwhile: what does not answer any more is not to be replaced."""
    if task.revision and not is_live(read_arms(task.endpoint.arms), task.revision):
        raise Conflict(f"Revision {task.revision}, which the alert is of, answers nobody any more: there is nothing to do.")


def _check_answers_most(task: Task) -> None:
    """A variant takes the place of what answers most, and of the whole split: what is wrong with a canary, or with an arm of a
    test, is no reason to replace a revision that is well."""
    _check_answers(task)
    main = main_revision(read_arms(task.endpoint.arms))
    if task.revision not in (0, main):
        raise Conflict(
            f"Revision {task.revision}, which the alert is of, answers beside revision {main}, which would be replaced: "
            "roll it back, or pause it."
        )


def _answering(work: UnitOfWork, task: Task) -> Found:
    number = main_revision(read_arms(task.endpoint.arms))
    found = endpoint_store.revisions_of(work, task.endpoint.id, [number]).get(number)
    if found is None:
        raise Conflict("The endpoint answers with no revision.")
    return found


def _on_behalf(
    work: UnitOfWork, gate: Gatekeeper, task: Task, operation: Operation[Any, Any], request: Any, now: Moment
) -> Context:
    return wishers.on_behalf(
        work,
        gate,
        task.wisher,
        "the monitor",
        project=task.project,
        zone=task.endpoint.zone,
        operation=operation,
        request=request,
        now=now,
    )


def _split(work: UnitOfWork, task: Task, kind: ChangeKind, arms: Arms, growth: Growth | None, now: Moment) -> None:
    facts = change_split(work, task.endpoint, kind=kind, arms=arms, by="", reason=task.reason, now=now, growth=growth)
    request = Split(project=task.project.name, endpoint=task.endpoint.name, arms=arms, reason=task.reason)
    _record(work, task, SPLIT_TRAFFIC, request, facts, now)


def _record(
    work: UnitOfWork, task: Task, operation: Operation[Any, Any], request: Any, facts: dict[str, Any], now: Moment
) -> None:
    recording.append(
        work,
        operation=operation,
        request=request,
        identity=None,
        project=task.project.id,
        now=now,
        request_id="",
        facts={**facts, "alert": task.alert.id, "action": task.id, "set_by": task.wisher.principal},
    )
