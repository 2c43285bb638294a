"""How a run comes to be: what it is given, what it takes over from another one, and what it may do."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from falaj.base.errors import Conflict, Invalid, NotFound
from falaj.base.ids import new_id
from falaj.base.values import value
from falaj.database.work import Context
from falaj.governance.gate import Gatekeeper
from falaj.lifecycle.checking import Catalogue, behind, given_parameters
from falaj.lifecycle.deciding import ALONE, FULL, MOST_OF_PROJECT, Key, Standing
from falaj.lifecycle.operations.words import Definition
from falaj.lifecycle.records import (
    Options,
    options_text,
    read_definition,
    read_options,
    read_standing,
    read_standings,
    row_of,
    steps_in,
)
from falaj.lifecycle.rights import LABEL, Rights, check_author, check_may, rights_of, run_token
from falaj.lifecycle.store import pipelines as store
from falaj.lifecycle.store import runs as run_store
from falaj.lifecycle.store.tables import Found
from falaj.lifecycle.things import pinned
from falaj.lifecycle.writing import words, written
from falaj.registry.store.approvals import makers_of

MOST_WITHIN: Final = 5  # runs that start each other
MOST_LIVE: Final = 1000  # runs of one project that are not over


@value
class Asked:
    """What a run is to be, and who or what says so. Who names the version has looked at it; 0 is the newest."""

    pipeline: Found
    version: int
    parameters: Mapping[str, Any]
    options: Options = Options()
    why: str = ""
    trigger: str = ""


def start(context: Context, gate: Gatekeeper, catalogue: Catalogue, asked: Asked) -> str:
    """Its id. Raises what is wrong with it before anything was done."""
    project = context.required_project
    number = asked.version or asked.pipeline.version
    definition = definition_of(context, asked.pipeline, number)
    _check_options(definition, asked.options)
    rights = _rights(definition, asked.options, project.name, catalogue)
    check_may(context, gate, rights)
    if not asked.version and asked.pipeline.changed_by != context.identity.principal:
        then = f"names its version: `falaj pipeline run {asked.pipeline.name} --version {number}`, or runs a file of their own"
        check_author(context, gate, asked.pipeline.changed_by, rights, then=then)
    if run_store.count_live(context.work, project.id) >= MOST_LIVE:
        raise Conflict(f"The project {project.name!r} has {MOST_LIVE} runs that are not over; cancel some, or wait.")
    token = context.identity.token
    if token is not None and run_store.runs_behind(context.work, token, LABEL) >= MOST_WITHIN:
        raise Conflict(f"Runs started {MOST_WITHIN} runs within each other already: a pipeline that runs itself never ends.")
    other = _other(context, asked)
    given = given_parameters(definition, {**({} if other is None else json.loads(other.parameters)), **asked.parameters})
    kinds = {one.name: one.kind for one in definition.parameters}
    parameters = {name: pinned(context.work, project.id, kinds[name], one) for name, one in given.items()}
    taken = {} if other is None else _taken_over(context, definition, asked.options, other)
    text = written(parameters)
    kept = len(text) + sum(one.size for one in taken.values())
    check_room(context, kept)
    run = new_id(context.now)
    zones = [place.zone for place in project.places]
    run_store.add(
        context.work,
        {
            "id": run,
            "project": project.id,
            "pipeline": asked.pipeline.id,
            "version": number,
            "state": "running",
            "parameters": text,
            "options": options_text(asked.options),
            "result": "",
            "words": "",
            "why": words(asked.why),
            "trigger": asked.trigger,
            "token": run_token(context, rights),
            "zone": context.identity.zone if context.identity.zone in zones else "",
            "stopping": False,
            "changed": 0,
            "kept": kept,
            "started": context.now,
            "started_by": context.identity.principal,
            "behind": json.dumps(sorted(all_behind(context))),
            "ended": None,
        },
    )
    if taken:
        run_store.put_steps(context.work, [row_of(one, run, project.id) for one in taken.values()])
    context.facts.update(run=run, pipeline=asked.pipeline.id, version=number)
    return run


def check_room(context: Context, more: int) -> None:
    """What runs keep that are not over is read whole to go on with them."""
    if run_store.kept_by_live(context.work, context.required_project.id) + more > MOST_OF_PROJECT:
        raise Conflict(f"{FULL} Cancel some, or wait.")


def start_again(context: Context, gate: Gatekeeper, catalogue: Catalogue, run: Found) -> dict[str, Any]:
    """What changes of a run that somebody goes on with: it is in their name from now on, with what they may do. What was not
    done is tried anew; what was done stays. Whoever wished for it before did so all the same, and stays behind it."""
    version = store.version(context.work, run.pipeline, run.version)
    if version is None:
        raise NotFound("What this run was to do is not known any more.")
    definition, options = read_definition(version.definition), read_options(run.options)
    rights = _rights(definition, options, context.required_project.name, catalogue)
    check_may(context, gate, rights)
    check_room(context, run.kept)
    left = [one for one in run_store.steps_of(context.work, run.id) if one.state not in ("done", "skipped")]
    if left:
        run_store.put_steps(context.work, [row_of(_anew(read_standing(one)), run.id, run.project) for one in left])
    behind = json.dumps(sorted({*json.loads(run.behind), *all_behind(context)}))
    return {"token": run_token(context, rights), "started_by": context.identity.principal, "behind": behind}


def all_behind(context: Context) -> set[str]:
    """Whoever asks, and everybody who could have asked by this token, or by the run that it is of."""
    principal, token = str(context.identity.principal), context.identity.token
    if token is None:
        return {principal}
    return {principal, *makers_of(context.work, token), *run_store.starters_behind(context.work, token)}


def _anew(one: Standing) -> Standing:
    """The number of tries goes on: what an earlier one still does or says counts for nothing."""
    return Standing(name=one.name, item=one.item, attempt=one.attempt, arguments=one.arguments)


def definition_of(context: Context, pipeline: Found, number: int) -> Definition:
    version = store.version(context.work, pipeline.id, number)
    if version is None:
        raise NotFound(f"The pipeline {pipeline.name!r} has no version {number}; it has {pipeline.version or 'none'}.")
    return read_definition(version.definition)


def _check_options(definition: Definition, options: Options) -> None:
    known = [step.name for step in definition.steps]
    for name in (*options.only, *([options.from_step] if options.from_step else ())):
        if name not in known:
            raise Invalid(f"It has no step {name!r}; it has {', '.join(known)}.")
    if bool(options.of) is not bool(options.from_step):
        raise Invalid("To begin with a step, say which run has what comes before it: both `from_step` and `of`.")


def _other(context: Context, asked: Asked) -> Found | None:
    """The run whose parameters and first results it takes over."""
    if not asked.options.of:
        return None
    other = run_store.find(context.work, context.required_project.id, asked.options.of)
    if other is None or other.pipeline != asked.pipeline.id:
        raise NotFound(f"The pipeline {asked.pipeline.name!r} has no run {asked.options.of}.")
    return other


def _rights(definition: Definition, options: Options, project: str, catalogue: Catalogue) -> Rights:
    """Of the steps that are done in this run: what is left out of it, or was done in another one, takes no rights."""
    done_here = steps_in(definition, options) - _before_the_first(definition, options)
    steps = tuple(step for step in definition.steps if step.name in done_here)
    return rights_of(replace(definition, steps=steps), project, catalogue)


def _before_the_first(definition: Definition, options: Options) -> frozenset[str]:
    """The steps that are taken over from another run."""
    if not options.from_step:
        return frozenset()
    asks = {step.name for step in definition.steps if step.kind == "approval"}  # what was agreed to was agreed to for that run
    return steps_in(definition, options) - behind(definition, options.from_step) - asks


def _taken_over(context: Context, definition: Definition, options: Options, other: Found) -> dict[Key, Standing]:
    """How what comes before the first step stood in the other run."""
    wanted = _before_the_first(definition, options)
    standings = read_standings(run_store.steps_of(context.work, other.id))
    for name in sorted(wanted):
        if (name, ALONE) not in standings or standings[name, ALONE].state not in ("done", "skipped"):
            short = other.id[-8:]
            raise Conflict(f"In the run {short} the step {name!r} was not done, which comes before {options.from_step!r}.")
    taken = {key: _as_taken(one, other.id) for key, one in standings.items() if key[0] in wanted}
    if not options.replay_of:  # which makes again what came of it, whatever that was
        _check_the_same(context, definition, options.from_step, other, taken.values())
    return taken


def _check_the_same(context: Context, definition: Definition, first: str, other: Found, taken: Iterable[Standing]) -> None:
    """Whoever goes on with their own run answers for what they changed since. What was done in another one's is taken where it
    was done as it would be now: by the run that it came from in the end, for that may have been another pipeline then."""
    version = store.version(context.work, other.pipeline, other.version)
    if version is not None and {*json.loads(other.behind), *json.loads(version.behind)} <= all_behind(context):
        return
    now = {step.name: step for step in definition.steps}
    done = dict[str, Definition | None]()
    for name, run in sorted({(one.name, one.cached) for one in taken}):
        if run not in done:
            done[run] = _definition_behind(context, run)
        then = done[run]
        same = then is not None and now[name] in then.steps
        if then is None or not same or (now[name].function is not None and then.source != definition.source):
            raise Conflict(
                f"In the run {run[-8:]} the step {name!r} was another one, or its files were others, and neither the run nor "
                f"its pipeline is yours alone: begin with {name!r}, or before it, and not with {first!r}."
            )


def _definition_behind(context: Context, run: str) -> Definition | None:
    row = run_store.by_id(context.work, run)
    version = None if row is None else store.version(context.work, row.pipeline, row.version)
    return None if version is None else read_definition(version.definition)


def _as_taken(one: Standing, run: str) -> Standing:
    return Standing(
        name=one.name,
        item=one.item,
        state=one.state,
        attempt=one.attempt,
        arguments=one.arguments,
        result=one.result,
        words=one.words,
        cached=one.cached or run,
        begun=one.begun,
        ended=one.ended,
        size=one.size,
    )
