"""Jobs coming in and being called off. What is asked is held against everything before anything is written."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final, Protocol

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.operation import Group
from falaj.database.binding import Bound, bind, bind_prepared
from falaj.database.work import Context, Database
from falaj.governance.gate import Gatekeeper
from falaj.governance.identity.minting import covers
from falaj.jobs.documents import DEFAULT_QUEUE, Document
from falaj.jobs.doors import Door, check_spec
from falaj.jobs.kin import kin_of
from falaj.jobs.makers import maker_for
from falaj.jobs.operations import jobs as declared
from falaj.jobs.operations.jobs import Planned, Setting, Spec, Submitted
from falaj.jobs.operations.queues import APPLY_QUEUES, QueueSpec
from falaj.jobs.operations.words import MOST_CONTINUED, STUDY
from falaj.jobs.orders import order_of, write_order
from falaj.jobs.pricing import Pricer, dearest
from falaj.jobs.scheduler.values import Job
from falaj.jobs.secrets import ProjectSecrets
from falaj.jobs.standing import present_document
from falaj.jobs.store import events as event_store
from falaj.jobs.store import jobs as store
from falaj.jobs.store import sources as source_store
from falaj.jobs.views import job_shown, read_spec, required_job, spec_written
from falaj.lineage.graph import Node, known, link

MOST_LIVE: Final = 100_000  # of one project
_OUTPUTS_KEPT_BY: Final = "artifact.write"  # the permission
_USUAL_EXPERIMENT: Final = "jobs"  # of what has outputs to keep, and names none


class Outlook(Protocol):
    """What is to be expected of a job that is not there yet."""

    def planned(self, job: Job, now: Moment) -> Planned:
        """Outside any transaction. Raises `Invalid` where no host, quota or zone could ever take it."""
        ...


class Runs(Protocol):
    """The runs that jobs write to; `tracking` has them."""

    def make(self, context: Context, experiment: str, name: str, job: str) -> str:
        """A new one, in an experiment that is made where there is none of that name; its id."""
        ...

    def has(self, context: Context, run: str) -> bool:
        """Whether the project has a run of that id that can be written to."""
        ...


class SubmissionService:
    """What is to be expected is worked out before the transaction, from how things stood a moment ago."""

    def __init__(
        self,
        *,
        database: Database,
        gate: Gatekeeper,
        secrets: ProjectSecrets,
        outlook: Outlook,
        pricer: Pricer,
        runs: Runs,
        door: Door,
    ) -> None:
        self._database = database
        self._gate = gate
        self._secrets = secrets
        self._outlook = outlook
        self._pricer = pricer
        self._runs = runs
        self._door = door

    def bindings(self) -> list[Bound]:
        return [
            bind_prepared(declared.SUBMIT_JOB, self.foresee, self.submit),
            bind_prepared(declared.PLAN_JOB, self.foresee, self.plan),
            bind(declared.CANCEL_JOB, self.cancel),
            bind_prepared(declared.RETRY_JOB, self.foresee_retry, self.retry),
        ]

    def foresee(self, context: Context, request: declared.Submit) -> Planned:
        _check_continues_none(request.spec)
        return self._foreseen(context, request.spec)

    def submit(self, context: Context, request: declared.Submit, plan: Planned) -> Submitted:
        return self._submitted(context, request.spec, plan)

    def _foreseen(self, context: Context, given: Spec) -> Planned:
        job, _ = self._database.read(lambda work: self._checked(replace(context, work=work), given))
        return self._outlook.planned(job, context.now)

    def _submitted(self, context: Context, given: Spec, plan: Planned) -> Submitted:
        job, spec = self._checked(context, given)
        self._check_bounds(context, present_document(context.work), spec)
        self._enter(context, job, spec)
        context.facts.update(job=job.id, queue=job.queue)
        return Submitted(job=job_shown(context, required_job(context, job.id)), plan=plan)

    def plan(self, context: Context, request: declared.Submit, plan: Planned) -> Planned:
        return plan

    def cancel(self, context: Context, request: declared.Cancel) -> declared.Job:
        found = required_job(context, request.job)
        if found.ended is not None:
            raise Conflict(f"The job {found.name!r} is over already: {found.state}.")
        if store.want_cancelled(context.work, found.id, context.now):
            words = f"{context.identity.name} asked for it to be cancelled."
            event_store.add(context.work, [event_store.event(found.id, found.project, context.now, "cancel", words)])
        elif found.state == "stopping":
            store.press(context.work, found.id, context.now)
        context.facts["job"] = found.id
        return job_shown(context, required_job(context, found.id))

    def foresee_retry(self, context: Context, request: declared.Retry) -> Planned:
        return self.foresee_again(context, request.job)

    def retry(self, context: Context, request: declared.Retry, plan: Planned) -> Submitted:
        return self.submit_again(context, request.job, plan)

    # For rooms above, which submit jobs in somebody's name

    def foresee_again(self, context: Context, job: str, also: Sequence[Setting] = ()) -> Planned:
        """Outside any transaction. `also` are variables that the job gets besides those that it had."""
        return self._foreseen(context, self._database.read(lambda work: _again(replace(context, work=work), job, also)))

    def submit_again(self, context: Context, job: str, plan: Planned, also: Sequence[Setting] = ()) -> Submitted:
        return self._submitted(context, _again(context, job, also), plan)

    # Steps

    def _checked(self, context: Context, given: Spec) -> tuple[Job, Spec]:
        """The job as it will stand in line, and its spec with everything filled in."""
        project, document = context.required_project, present_document(context.work)
        zone = self._zone(context, given.zone)
        queue = _queue(document, project.name, given.queue)
        level = document.priority(given.priority)
        priority = level.value
        if document.outranks(priority) and queue.projects != (project.name,):
            self._check_may_outrank(context, given)
        name = given.name or name_of(given.command)
        experiment = given.experiment or (_USUAL_EXPERIMENT if given.outputs and not given.run else "")
        spec = replace(given, name=name, queue=queue.name, zone=zone, experiment=experiment)
        if spec.source and source_store.find(context.work, project.id, spec.source) is None:
            raise Invalid(f"The source {spec.source[:12]} was not sent to this project; send it first.")
        if gone := self._secrets.missing(context.work, project.id, spec.secrets):
            raise Invalid(f"There is no secret {min(gone)!r} here; `falaj secret list` shows those there are.")
        if spec.run and not self._runs.has(context, spec.run):
            raise Invalid(f"There is no run {spec.run} here that can be written to; leave it out, and name an experiment.")
        check_spec(spec, self._door)
        self._check_inputs(context, spec)
        self._check_permissions(context, spec)
        job = order_of(
            spec,
            id=new_id(context.now),
            project=project.id,
            user=context.identity.principal,
            queue=queue.name,
            priority=priority,
            zone=zone,
            now=context.now,
            start_within=level.start_within_seconds,
        )
        return replace(job, price_per_hour=job.count * dearest(self._pricer, job.shape, zone)), spec

    def _check_may_outrank(self, context: Context, spec: Spec) -> None:
        """Others wait, and are stopped, for what outranks them; in a queue of its own a project only orders its own."""
        request = declared.Submit(project=context.required_project.name, spec=spec)
        for allows in (declared.OUTRANK, APPLY_QUEUES):
            try:
                self._gate.authorise(context.work, context.identity, allows, request)
            except (Forbidden, NotFound):
                continue
            return
        raise Forbidden(
            f"The priority {spec.priority!r} is above normal, and other projects use this queue, too: that is for the project's"
            " admins and operators (job.urgent) and for who sets queues. Leave it out, or use a queue of the project's own.",
            rule="job.urgent",
        )

    def _zone(self, context: Context, wished: str) -> str:
        project = context.required_project
        zones = [place.zone for place in project.places]
        if not zones:
            raise Forbidden(f"The project {project.name!r} has no zone to run in.", rule="zones-of-project")
        if wished and wished not in zones:
            raise Forbidden(f"The project {project.name!r} may not run in zone {wished!r}.", rule="zones-of-project")
        own = context.identity.zone
        return wished or (own if own in zones else zones[0])

    def _check_inputs(self, context: Context, spec: Spec) -> None:
        for one in spec.inputs:
            if one.kind == "run":
                there = self._runs.has(context, one.id)
            else:
                there = known(context.work, context.required_project.id, Node(kind=one.kind, id=one.id)) is not None
            if not there:
                raise Invalid(f"There is no {one.kind} {one.id!r} here for it to read.")

    def _check_permissions(self, context: Context, spec: Spec) -> None:
        """A job's token may do no more than the one it is submitted with."""
        for name in spec.permissions:
            needed = self._gate.cedar.permissions.get(name)
            if needed is None:
                raise Invalid(f"There is no permission {name!r}; docs/reference.md names them.")
            if needed.group is Group.SELF:
                raise Invalid(
                    f"A job cannot have {name!r}: what is an account's own, as its tokens and sessions, is not for jobs."
                )
            held = context.identity.scopes
            if held and name not in held and str(needed.group) not in held:
                raise Forbidden(f"Your own token does not have the scope {name!r}.", rule="token.scope")
        if spec.outputs:
            self._check_may_keep_outputs(context, spec)

    def _check_may_keep_outputs(self, context: Context, spec: Spec) -> None:
        """They are kept by the job's own token."""
        known = self._gate.cedar.permissions
        if spec.permissions and not covers(frozenset(spec.permissions), _OUTPUTS_KEPT_BY, known):
            raise Invalid(f"It declares outputs, which its token keeps: add the permission {_OUTPUTS_KEPT_BY!r}.")
        if (held := context.identity.scopes) and not covers(held, _OUTPUTS_KEPT_BY, known):
            raise Forbidden(f"Your own token does not have the scope {_OUTPUTS_KEPT_BY!r}.", rule="token.scope")

    def _check_bounds(self, context: Context, document: Document, spec: Spec) -> None:
        project = context.required_project
        if store.count_live(context.work, project.id) >= MOST_LIVE:
            raise Conflict(f"The project {project.name!r} has {MOST_LIVE} jobs that are not over; cancel some, or wait.")
        most = document.priority(spec.priority).most
        if most and store.count_live(context.work, project.id, priority=spec.priority) >= most:
            raise Conflict(f"The project {project.name!r} may have {most} jobs of priority {spec.priority!r} at once.")

    def _enter(self, context: Context, job: Job, spec: Spec) -> None:
        run = spec.run or (self._runs.make(context, spec.experiment, spec.name, job.id) if spec.experiment else "")
        for one in spec.inputs if run else ():
            source, target = Node(kind=one.kind, id=one.id), Node(kind="run", id=run, label=spec.name)
            link(context.work, project=job.project, source=source, target=target, relation="input", now=context.now)
        row: dict[str, Any] = {
            "id": job.id,
            "project": job.project,
            "name": spec.name,
            "queue": job.queue,
            "priority": spec.priority,
            "zone": spec.zone,
            "spec": spec_written(spec),
            "order": write_order(job),
            "run": run,
            "submitted": context.now,
            "submitted_by": context.identity.principal,
            "token": maker_for(context) or "",
            "retries": spec.retries,
            "kin": kin_of(job.project, spec),
        }
        store.add(context.work, [row], context.now)
        words = f"{context.identity.name} submitted it to queue {job.queue}."
        event_store.add(context.work, [event_store.event(job.id, job.project, context.now, "submit", words)])


def _again(context: Context, job: str, also: Sequence[Setting]) -> Spec:
    """The same once more. One that was done has none of its checkpoints left, and begins anew."""
    found = required_job(context, job)
    if found.ended is None:
        raise Conflict(f"The job {found.name!r} is {found.state}; only one that is over can be submitted again.")
    spec = read_spec(found.spec)
    goes_on = spec.checkpoints and found.state != "done"
    continues = (found.id, *spec.continues) if goes_on else ()
    if len(continues) > MOST_CONTINUED:  # the last one is what their key is from
        continues = (*continues[: MOST_CONTINUED - 1], continues[-1])
    # Whoever repeats a trial did not for that begin its study.
    replaced = {STUDY, *(one.name for one in also)}
    variables = (*(one for one in spec.variables if one.name not in replaced), *also)
    return replace(spec, deadline=None, run="", continues=continues, variables=variables)


def _check_continues_none(spec: Spec) -> None:
    if spec.continues:
        raise Invalid("Whose checkpoints a job goes on from is not for whoever submits it to say; `falaj job retry` does.")


def _queue(document: Document, project: str, wished: str) -> QueueSpec:
    """The queue that was named, or the one that is the project's; one it may not use is as good as none. Of those that are
    alike, one that is open."""
    open_to = [queue for queue in document.queues if not queue.projects or project in queue.projects]
    if wished:
        found = next((queue for queue in open_to if queue.name == wished), None)
        if found is None:
            known = ", ".join(queue.name for queue in open_to) or "none"
            raise Invalid(f"There is no queue {wished!r} for this project; there are {known}.")
        return found
    own = (
        [queue for queue in open_to if queue.projects] or [queue for queue in open_to if queue.name == DEFAULT_QUEUE] or open_to
    )
    if not own:
        raise Invalid("No queue takes jobs of this project; an operator opens one with `falaj queue apply`.")
    return next((queue for queue in own if queue.open), own[0])


def name_of(command: tuple[str, ...]) -> str:
    """What people would call it: the script, not the interpreter."""
    words = [PurePosixPath(word).name for word in command if not word.startswith("-")]
    script = next((word for word in words if word.endswith((".py", ".sh"))), words[0] if words else "job")
    kept = "".join(letter if letter.isascii() and (letter.isalnum() or letter in " ._-") else "-" for letter in script)
    return kept.lstrip(" ._-")[:100] or "job"
