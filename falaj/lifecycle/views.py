"""Rows as messages, whole pages at a time."""

import json
from collections.abc import Sequence
from typing import Any

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, NotFound
from falaj.collaboration.people import persons
from falaj.database.work import Context
from falaj.lifecycle.checking import order_of
from falaj.lifecycle.operations.pipelines import Listed, Pipeline, PipelineRun, StepShown
from falaj.lifecycle.operations.words import Step, StepState
from falaj.lifecycle.records import read_definition, read_options, read_standing, steps_in
from falaj.lifecycle.store import pipelines as store
from falaj.lifecycle.store import runs as run_store
from falaj.lifecycle.store.tables import Found
from falaj.lifecycle.writing import words


def required_pipeline(context: Context, name: str, *, hold: bool = False) -> Found:
    found = store.find(context.work, context.required_project.id, name, hold=hold)
    if found is None:
        raise NotFound(f"There is no pipeline {name!r} here.")
    return found


def required_run(context: Context, given: str, *, hold: bool = False) -> Found:
    """By its id or some of its last digits."""
    project = context.required_project.id
    ids = [given] if len(given) == 32 else run_store.find_by_end(context.work, project, given)
    if len(ids) > 1:
        raise Conflict(f"Several runs' ids end with {given!r}; give more digits.")
    found = run_store.find(context.work, project, ids[0], hold=hold) if ids else None
    if found is None:
        raise NotFound(f"There is no run {given!r} of a pipeline here.")
    return found


def pipeline_shown(context: Context, row: Found, number: int = 0) -> Pipeline:
    version = store.version(context.work, row.id, number or row.version)
    if version is None:
        raise NotFound(f"The pipeline {row.name!r} has no version {number}; it has {row.version or 'none'}.")
    last, live = store.standing(context.work, [row.id]).get(row.id, ("", 0))
    return Pipeline(
        id=row.id,
        name=row.name,
        version=version.number,
        digest=version.digest,
        definition=read_definition(version.definition),
        changed=Moment(version.created),
        changed_by=persons(context.work, {version.created_by})[version.created_by],
        last=last,
        live=live,
    )


def pipelines_listed(context: Context, rows: Sequence[Found]) -> tuple[Listed, ...]:
    standing = store.standing(context.work, [row.id for row in rows])
    listed = []
    for row in rows:
        version = store.version(context.work, row.id, row.version)
        definition = None if version is None else read_definition(version.definition)
        last, live = standing.get(row.id, ("", 0))
        listed.append(
            Listed(
                name=row.name,
                version=row.version,
                steps=0 if definition is None else len(definition.steps),
                words="" if definition is None else definition.words,
                changed=Moment(row.changed),
                last=last,
                live=live,
            )
        )
    return tuple(listed)


def runs_shown(context: Context, rows: Sequence[Found]) -> tuple[PipelineRun, ...]:
    """Without their steps."""
    names = store.names_of(context.work, {row.pipeline for row in rows})
    people = persons(context.work, {row.started_by for row in rows})
    questions = run_store.questions(context.work, {row.id for row in rows if row.ended is None})
    return tuple(
        PipelineRun(
            id=row.id,
            pipeline=names[row.pipeline],
            version=row.version,
            state=row.state,
            parameters=json.loads(row.parameters),
            words=row.words,
            why=row.why,
            result=_read(row.result),
            trigger=row.trigger,
            started=Moment(row.started),
            started_by=people[row.started_by],
            ended=None if row.ended is None else Moment(row.ended),
            asking=questions.get(row.id, ""),
        )
        for row in rows
    )


def run_steps(context: Context, row: Found) -> tuple[StepShown, ...]:
    """Those that were asked for, in the order of the pipeline; also those that nothing was done of yet."""
    version = store.version(context.work, row.pipeline, row.version)
    if version is None:
        return ()
    definition = read_definition(version.definition)
    asked_for = steps_in(definition, read_options(row.options))
    steps = {step.name: step for step in definition.steps if step.name in asked_for}
    found: dict[str, list[StepShown]] = {}
    for one in run_store.steps_of(context.work, row.id):
        if one.name in steps:
            found.setdefault(one.name, []).append(_shown(one, steps[one.name]))
    unbegun: StepState = "waiting" if row.ended is None else "cancelled"
    return tuple(
        each for name in order_of(definition) if name in steps for each in found.get(name) or [_unbegun(steps[name], unbegun)]
    )


def _shown(row: Found, step: Step) -> StepShown:
    one = read_standing(row)
    arguments = one.arguments if isinstance(one.arguments, dict) else {}
    asks = step.kind == "approval"
    return StepShown(
        name=step.name,
        kind=step.kind,
        item=one.item,
        state=one.state,
        attempt=one.attempt,
        arguments=arguments,
        result=one.result,
        words=one.words,
        job=one.job,
        cached=one.cached,
        started=one.begun,
        ended=one.ended,
        question=words(str(arguments.get("question", step.question))) if asks else "",
        decided_by=one.told["by"] if asks and one.told else "",
    )


def _unbegun(step: Step, state: StepState) -> StepShown:
    return StepShown(
        name=step.name,
        kind=step.kind,
        item=-1,
        state=state,
        attempt=0,
        arguments={},
        result=None,
        words="",
        job="",
        cached="",
        started=None,
        ended=None,
    )


def _read(text: str) -> Any:
    return json.loads(text) if text else None
