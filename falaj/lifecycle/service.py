"""Pipelines and their runs, as people and jobs ask for them. What moves runs on is `executor`."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.pages import page_of, read_text_cursor
from falaj.base.values import Nothing
from falaj.database.binding import Bound, bind
from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper
from falaj.jobs.store import attempts
from falaj.jobs.store import jobs as job_store
from falaj.jobs.store import sources as source_store
from falaj.jobs.views import read_spec, required_job
from falaj.lifecycle.alerted import is_started_by_alerts
from falaj.lifecycle.checking import Catalogue, before, check, order_of
from falaj.lifecycle.deciding import Failure, settled
from falaj.lifecycle.doing import command_of
from falaj.lifecycle.operations import pipelines as declared
from falaj.lifecycle.operations.pipelines import PipelineRun, Task
from falaj.lifecycle.operations.words import LARGEST, Definition, Step
from falaj.lifecycle.records import Options, definition_text, digest_of, read_definition, read_standing, row_of, run_in
from falaj.lifecycle.rights import check_may, rights_of
from falaj.lifecycle.starting import Asked, all_behind, check_room, start, start_again
from falaj.lifecycle.store import pipelines as store
from falaj.lifecycle.store import runs as run_store
from falaj.lifecycle.store.tables import Found
from falaj.lifecycle.views import pipeline_shown, pipelines_listed, required_pipeline, required_run, run_steps, runs_shown
from falaj.lifecycle.writing import words, written
from falaj.registry.operations.versions import CREATE_VERSION
from falaj.registry.store import versions as version_store

MOST_EVENTS: Final = 1000  # that one run is sent
MOST_SENT: Final = 16 * LARGEST  # characters of all of them


class PipelineService:
    """Thread-safe. `catalogue` are the operations that steps may call."""

    def __init__(self, gate: Gatekeeper, catalogue: Catalogue) -> None:
        self._gate, self._catalogue = gate, catalogue

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.APPLY_PIPELINE, self.apply),
            bind(declared.SHOW_PIPELINE, self.show),
            bind(declared.LIST_PIPELINES, self.list),
            bind(declared.DELETE_PIPELINE, self.delete),
            bind(declared.START_RUN, self.run),
            bind(declared.SHOW_RUN, self.show_run),
            bind(declared.LIST_RUNS, self.list_runs),
            bind(declared.CANCEL_RUN, self.cancel),
            bind(declared.RESUME_RUN, self.resume),
            bind(declared.DECIDE_STEP, self.decide),
            bind(declared.SEND_EVENT, self.send),
            bind(declared.READ_TASK, self.task),
            bind(declared.TELL_RESULT, self.tell),
            bind(declared.FIND_MAKER, self.find_maker),
        ]

    # Pipelines

    def apply(self, context: Context, request: declared.Apply) -> declared.Pipeline:
        project, definition = context.required_project, request.definition
        check(definition, self._catalogue)
        rights = rights_of(definition, project.name, self._catalogue)
        if definition.source and source_store.find(context.work, project.id, definition.source) is None:
            raise Invalid(f"The source {definition.source[:12]} was not sent to this project; send it first.")
        by = context.identity.principal
        store.add(context.work, id=new_id(context.now), project=project.id, name=request.pipeline, by=by, now=context.now)
        row = required_pipeline(context, request.pipeline, hold=True)
        started = store.triggers_of(context.work, row.id) or is_started_by_alerts(context.work, project.id, row.name)
        if context.identity.scopes and started:
            check_may(context, self._gate, rights)  # what starts it does so with more than this token may do
        text = definition_text(definition)
        digest = digest_of(text)
        if row.digest != digest:
            version = {"pipeline": row.id, "number": row.version + 1, "digest": digest, "definition": text}
            behind = json.dumps(sorted(all_behind(context)))
            store.add_version(context.work, {**version, "created": context.now, "created_by": by, "behind": behind})
            row = required_pipeline(context, request.pipeline)
        context.facts.update(pipeline=row.id, version=row.version, digest=digest)
        return pipeline_shown(context, row)

    def show(self, context: Context, request: declared.OnePipeline) -> declared.Pipeline:
        return pipeline_shown(context, required_pipeline(context, request.pipeline), request.version)

    def list(self, context: Context, request: declared.ListPipelines) -> declared.Pipelines:
        after = read_text_cursor(request.cursor)
        found = store.page(context.work, context.required_project.id, after, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.name,))
        return declared.Pipelines(items=pipelines_listed(context, page), next=following)

    def delete(self, context: Context, request: declared.OnePipeline) -> Nothing:
        row = required_pipeline(context, request.pipeline, hold=True)
        _, live = store.standing(context.work, [row.id]).get(row.id, ("", 0))
        if live:
            raise Conflict(f"The pipeline {row.name!r} has {live} runs that are not over; cancel them first.")
        store.let_go(context.work, row.id)
        context.facts["pipeline"] = row.id
        return Nothing()

    # Runs

    def run(self, context: Context, request: declared.StartRun) -> PipelineRun:
        pipeline = required_pipeline(context, request.pipeline)
        of = required_run(context, request.of).id if request.of else ""
        options = Options(anew=request.anew, only=request.only, of=of, from_step=request.from_step, replay_of=request.replay_of)
        asked = Asked(
            pipeline=pipeline,
            version=request.version,
            parameters=request.parameters,
            options=options,
            why=request.words,
        )
        return self._shown(context, start(context, self._gate, self._catalogue, asked))

    def show_run(self, context: Context, request: declared.OneRun) -> PipelineRun:
        return self._shown(context, required_run(context, request.run).id)

    def list_runs(self, context: Context, request: declared.ListRuns) -> declared.PipelineRuns:
        project, behind = context.required_project.id, read_text_cursor(request.cursor)
        found = run_store.page(context.work, project, request.pipeline, request.state, behind, request.limit + 1)
        page, following = page_of(found, request.limit, lambda row: (row.id,))
        return declared.PipelineRuns(items=runs_shown(context, page), next=following)

    def cancel(self, context: Context, request: declared.Cancel) -> PipelineRun:
        row = required_run(context, request.run, hold=True)
        if row.ended is not None:
            raise Conflict(f"The run is over already: {row.state}.")
        run_store.change(context.work, row.id, stopping=True)
        context.facts["run"] = row.id
        return self._shown(context, row.id)

    def resume(self, context: Context, request: declared.OneRun) -> PipelineRun:
        """With a token of whoever resumes it: the first one may be gone, and it is they who wish for the rest."""
        row = required_run(context, request.run, hold=True)
        if row.state not in ("failed", "cancelled"):
            raise Conflict(f"The run is {row.state}; only one that failed or was cancelled can go on.")
        again = start_again(context, self._gate, self._catalogue, row)
        run_store.change(context.work, row.id, **again, state="running", words="", stopping=False, ended=None)
        context.facts["run"] = row.id
        return self._shown(context, row.id)

    def decide(self, context: Context, request: declared.Decide) -> PipelineRun:
        row = required_run(context, request.run, hold=True)
        step, found = self._step(context, row, request.step, request.item)
        if found is None or found.state != "asking" or row.ended is not None:
            raise Conflict(f"Nobody has to decide about {request.step!r}: it is {'over' if found is None else found.state}.")
        if request.agree:
            self._check_other_eyes(context, row)
        name = context.identity.name
        said = f" {request.reason}" if request.reason else ""
        outcome = {"agreed": True, "by": name} if request.agree else Failure(family="permanent", words=f"{name} refused.{said}")
        standing = replace(settled(read_standing(found), step, outcome, context.now), told={"by": name})
        run_store.put_steps(context.work, [row_of(standing, row.id, row.project)])
        run_store.change(context.work, row.id)
        context.facts.update(run=row.id, step=request.step, agreed=request.agree)
        return self._shown(context, row.id)

    def send(self, context: Context, request: declared.SendEvent) -> Nothing:
        row = required_run(context, request.run, hold=True)
        if row.ended is not None:
            raise Conflict(f"The run is over already: {row.state}.")
        content, by = written(request.content), context.identity.principal
        count, size = run_store.sent_so_far(context.work, row.id)
        if count >= MOST_EVENTS or size + len(content) > MOST_SENT:
            raise Conflict(f"The run was sent {count} events already; {MOST_EVENTS} are the most, and {MOST_SENT >> 20} MiB.")
        check_room(context, len(content))
        run_store.send(context.work, id=new_id(context.now), run=row.id, name=request.event, content=content, by=by)
        run_store.change(context.work, row.id, kept=row.kept + len(content))
        context.facts.update(run=row.id, event=request.event)
        return Nothing()

    def find_maker(self, context: Context, request: declared.FindMaker) -> declared.Maker:
        project, made = context.required_project.id, f"{request.model}:{request.version}"
        version = version_store.find(context.work, project, request.model, request.version)
        found = () if version is None else run_store.makers_of(context.work, project, made, version.created)
        jobs = job_store.of_run(context.work, project, version.run) if version is not None and version.run else ()
        step = next((one for one in found if self._made_it(context, one, jobs)), None)
        if step is None:
            raise NotFound(f"No run of a pipeline here made version {request.version} of {request.model!r}.")
        row = required_run(context, step.run)
        name = store.names_of(context.work, [row.pipeline])[row.pipeline]
        first = self._first(context, row, step, "" if version is None else version.run)
        return declared.Maker(run=row.id, pipeline=name, version=row.version, step=step.name, item=step.item, first=first)

    def _made_it(self, context: Context, found: Found, jobs: Sequence[str]) -> bool:
        """Others can name it, too, as soon as it is there. `jobs` are those of the run that the version came from."""
        step, _ = self._step(context, required_run(context, found.run), found.name, found.item)
        if step.function is not None:
            return found.job in jobs or not jobs
        return step.operation == CREATE_VERSION.name

    def _first(self, context: Context, row: Found, maker: Found, source: str) -> str:
        """A function made what it registered; an operation took what a run keeps, which another step may have made: the first
        one that handed it on."""
        definition = self._definition(context, row)
        if definition is None or self._step(context, row, maker.name, maker.item)[0].function is not None:
            return str(maker.name)
        found = run_store.steps_of(context.work, row.id) if source else ()
        made = {one.name for one in found if one.state == "done" and run_in(one.result) == source}
        made &= before(definition, [maker.name]) - {maker.name}
        return next((name for name in order_of(definition) if name in made), "")

    # What a step's own job asks and tells

    def task(self, context: Context, request: declared.ReadTask) -> Task:
        row = required_run(context, request.run)
        self._check_is_its_job(context, row, request)
        step, found = self._step(context, row, request.step, request.item)
        if step.function is None or found is None:
            raise Invalid(f"{request.step!r} is no step with a function that was begun.")
        standing = read_standing(found)
        return Task(
            file=step.function.file,
            function=step.function.name,
            result=step.result,
            attempt=standing.attempt,
            arguments=standing.arguments,
            kinds={},
        )

    def tell(self, context: Context, request: declared.TellResult) -> Nothing:
        row = required_run(context, request.run, hold=True)
        self._check_is_its_job(context, row, request)
        _, found = self._step(context, row, request.step, request.item)
        if found is None or found.state != "running" or row.ended is not None:
            raise Conflict(f"Nothing has to be told of {request.step!r}: it is over.")
        told = {"job": request.job, "result": request.result, "family": request.family, "words": words(request.words)}
        run_store.tell(context.work, row.id, request.step, request.item, written(told))
        run_store.change(context.work, row.id)
        context.facts.update(run=row.id, step=request.step, digest=digest_of(written(request.result)))
        return Nothing()

    def _check_is_its_job(self, context: Context, row: Found, request: declared.ReadTask | declared.TellResult) -> None:
        """The caller is the present try of a job that this run submitted for this step: with its token, and its command."""
        job = required_job(context, request.job)
        tries = attempts.of_job(context.work, job.project, job.id)
        speaks = bool(tries) and tries[0].id == job.attempt and tries[0].token == context.identity.token
        command = command_of(row.id, request.step, request.item)
        if not speaks or job.token != row.token or read_spec(job.spec).command != command:
            raise Forbidden("What a step hands on is told by its own job, and by nobody else.", rule="pipeline.own-job")

    def _step(self, context: Context, row: Found, name: str, item: int) -> tuple[Step, Found | None]:
        definition = self._definition(context, row)
        steps = {} if definition is None else {step.name: step for step in definition.steps}
        if name not in steps:
            raise Invalid(f"The run has no step {name!r}; it has {', '.join(steps)}.")
        return steps[name], run_store.step(context.work, row.id, name, item)

    def _definition(self, context: Context, row: Found) -> Definition | None:
        version = store.version(context.work, row.pipeline, row.version)
        return None if version is None else read_definition(version.definition)

    def _check_other_eyes(self, context: Context, row: Found) -> None:
        """As with approvals of promotions: a person, and another one than who started it or went on with it, also by a
        token that they made."""
        if not self._gate.profile.four_eyes:
            return
        if context.identity.kind != "person":
            raise Forbidden(
                "People agree to what a run asks, signed in as themselves; a service account or a short-lived token cannot.",
                rule="approval.person",
            )
        if context.identity.principal in run_store.starters_behind(context.work, row.token):
            raise Forbidden(
                "You started this run or went on with it, yourself or by a token you made: somebody else has to agree.",
                rule="approval.self",
            )
        if context.identity.principal in run_store.authors_behind(context.work, row.token):
            raise Forbidden(
                "What you wrote, yourself or by a token you made, was started by itself: somebody else has to agree.",
                rule="approval.self",
            )

    def _shown(self, context: Context, run: str) -> PipelineRun:
        row = required_run(context, run)
        (shown,) = runs_shown(context, [row])
        return PipelineRun(**{name: getattr(shown, name) for name in _OF_RUN}, steps=run_steps(context, row))


_OF_RUN: Final = tuple(name for name in PipelineRun.__dataclass_fields__ if name != "steps")
