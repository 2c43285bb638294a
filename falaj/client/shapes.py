"""What a training asks for by the profiles of earlier ones: looked up in its experiment, and held against its queue."""

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Final, Protocol

from falaj.base.errors import Forbidden, Invalid, NotFound
from falaj.base.operation import Operation, Req, Res
from falaj.jobs.operations.jobs import PLAN_JOB, SHOW_JOB, OneJob, Setting, Spec, Submit
from falaj.tracking.operations.experiments import FIND_EXPERIMENT, FindExperiment
from falaj.tracking.operations.runs import SEARCH_RUNS, Run, SearchRuns
from falaj.training.profiling.asking import Ask, Decision, Earlier, Shape, asks_of, decide
from falaj.training.profiling.changes import Changes, changes_in, in_words
from falaj.training.profiling.names import APPLY, CHANGES, FIGURES, NEXT, TOO_FEW, VERDICT

_LOOKED_AT: Final = 20  # runs, the newest
_OVER: Final = "attributes.status != 'RUNNING'"
_JUDGED: Final = f"{_OVER} AND tags.`{VERDICT}` != ''"
_TOO_SHORT: Final = f"{_OVER} AND tags.`{NEXT}` LIKE '{TOO_FEW}%'"
_JOB: Final = "falaj.job"  # the tag of a run that names its job
_RATE: Final = f"{FIGURES}rows_per_second"


class Caller(Protocol):
    """A client, or a command's terminal."""

    def call(self, operation: Operation[Req, Res], request: Req, /) -> Res: ...


def advised(caller: Caller, project: str, spec: Spec, script: str, fixed: Collection[str]) -> tuple[Spec, tuple[str, ...]]:
    """The job as profiles ask for it, and sentences that say what was changed and why. What `fixed` names, `cpus` or `gpus`,
    stays; `script` is its name among the files. Each restart of the job follows its own profile."""
    earlier = tuple(_earlier(caller, project, spec.experiment, script)) if spec.experiment else ()
    if not earlier:
        where = f" in experiment {spec.experiment!r}" if spec.experiment else ", as no experiment is named"
        short = next(_runs(caller, project, spec.experiment, script, _TOO_SHORT), None) if spec.experiment else None
        why = f": run {short[0].info.id} took too few steps to judge" if short else ""
        return _applying(spec, Changes()), (
            f"No earlier profile of {script} was found{where}{why}. Restarts of this job follow its own.",
        )
    decision = decide(earlier, _shape_of(spec), fixed)
    spec, sentences = _shaped(spec, decision.shape), list(decision.sentences)
    for ask in decision.asks:
        spec, said = _asking(caller, project, spec, ask, decision)
        sentences.append(said)
    changes = decision.changes_on(_shape_of(spec))
    if changes.wanted:
        sentences.append(f"Starts with {in_words(changes.wanted)}, as its profile asks for.")
    if changes.refused:
        sentences.append(f"Not tried again, as it made it slower before: {', '.join(changes.refused).replace('_', ' ')}.")
    if len(sentences) == 1:
        sentences.append("It asks for nothing else.")
    return _applying(spec, changes), tuple(sentences)


def _applying(spec: Spec, changes: Changes) -> Spec:
    others = (one for one in spec.variables if one.name != APPLY)
    return replace(spec, variables=(*others, Setting(name=APPLY, value=changes.text())))


def _runs(caller: Caller, project: str, experiment: str, script: str, which: str) -> Iterator[tuple[Run, Spec]]:
    """Of jobs of the script, newest first."""
    try:
        number = caller.call(FIND_EXPERIMENT, FindExperiment(project=project, name=experiment)).id
    except NotFound:
        return
    request = SearchRuns(project=project, experiments=(number,), filter=which, limit=_LOOKED_AT)
    for run in caller.call(SEARCH_RUNS, request).items:
        if (spec := _spec_of(caller, project, run)) is not None and _script_of(spec) == script:
            yield run, spec


def _earlier(caller: Caller, project: str, experiment: str, script: str) -> Iterator[Earlier]:
    for run, spec in _runs(caller, project, experiment, script, _JUDGED):
        tags = {tag.key: tag.value for tag in run.tags}
        yield Earlier(
            run=run.info.id,
            shape=_shape_of(spec),
            work=(spec.source, str(spec.tasks), *spec.command),
            rate=next((metric.value for metric in run.metrics if metric.key == _RATE), 0.0),
            asks=asks_of(tags),
            changes=changes_in(tags.get(CHANGES, "")),
        )


def _spec_of(caller: Caller, project: str, run: Run) -> Spec | None:
    """Of the job that the run is of; its tag is the word of whoever wrote it, and the job has to say so too."""
    named = next((tag.value for tag in run.tags if tag.key == _JOB), "")
    try:
        job = caller.call(SHOW_JOB, OneJob(project=project, job=named))
    except (Forbidden, Invalid, NotFound):
        return None
    return job.spec if job.run == run.info.id else None


def _script_of(spec: Spec) -> str:
    """What launchers are given after their own options."""
    return spec.command[spec.command.index("--") + 1] if "--" in spec.command[:-1] else ""


def _asking(caller: Caller, project: str, spec: Spec, ask: Ask, decision: Decision) -> tuple[Spec, str]:
    """The job with as much of it as any host and quota could ever take, and the sentence about it."""
    before = getattr(spec.resources, ask.option)

    def changed(number: int) -> Spec:
        return _shaped(spec, _shape_of(spec).but(**{ask.option: number}))

    def refused(number: int) -> str:
        try:
            caller.call(PLAN_JOB, Submit(project=project, spec=changed(number)))
        except Invalid as error:
            return str(error)
        return ""

    why_not = refused(ask.number)
    number = _most(refused, math.floor(before), ask.number) if why_not else ask.number
    if why_not and number <= before:
        return spec, f"{ask} instead of {before:g} cannot be had: {why_not}"
    had = replace(ask, number=number)
    if against := decision.against(had, _shape_of(changed(number))):
        return spec, against
    short = f", all that can be had; {ask.number} would do" if why_not else ""
    return changed(number), f"Asks for {had} instead of {before:g}{short}: {ask.why}."


def _most(refused: Callable[[int], str], least: int, beyond: int) -> int:
    """The largest number that is not refused; `beyond` is."""
    while beyond - least > 1:
        middle = (least + beyond) // 2
        least, beyond = (least, middle) if refused(middle) else (middle, beyond)
    return least


def _shape_of(spec: Spec) -> Shape:
    return Shape(cpus=spec.resources.cpus, gpus=spec.resources.gpus)


def _shaped(spec: Spec, shape: Shape) -> Spec:
    models = spec.resources.gpu_models if shape.gpus else ()
    return replace(spec, resources=replace(spec.resources, cpus=shape.cpus, gpus=shape.gpus, gpu_models=models))
