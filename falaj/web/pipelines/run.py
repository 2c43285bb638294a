"""One run of a pipeline: how each step is, what it hands on, what it asks, and what can be done about it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from falaj.base.operation import Operation
from falaj.base.values import value
from falaj.lifecycle.operations.pipelines import SHOW_RUN, OnePipeline, OneRun, StepShown
from falaj.registry.operations.versions import SHOW_VERSION, OneVersion
from falaj.web.bodies import Fields
from falaj.web.forms import Mistyped, checked, request_from
from falaj.web.jobs.amounts import between, sentence
from falaj.web.pipelines.figures import in_four_digits
from falaj.web.pipelines.graph import graph, summed
from falaj.web.pipelines.listing import TONES, in_few_words
from falaj.web.visits import Visit

_LONGEST: Final = 600
_LINKED: Final = 50  # versions of models that are looked up for a page
_LINKS: Final = {"endpoint": "endpoints", "run": "runs"}


@value
class Row:
    """`link` leads to what it handed on, where that has a page."""

    step: StepShown
    tone: str
    took: str
    outcome: str
    link: str


def asked(visit: Visit) -> OneRun:
    request: OneRun = checked(SHOW_RUN, {"project": visit.project, "run": visit.path["pipeline_run"]})
    return request


def told(operation: Operation[Any, Any], fields: Fields, path: dict[str, str]) -> Any:
    return request_from(operation, fields, {**path, "run": path["pipeline_run"]})


def definition(visit: Visit) -> OnePipeline:
    """As it was when the run began."""
    run = visit.loaded["run"]
    return OnePipeline(project=visit.project, pipeline=run.pipeline, version=run.version)


def versions(visit: Visit) -> list[OneVersion]:
    """Those that steps handed on."""
    found = (_version(one.result, visit.project) for one in visit.loaded["run"].steps if one.state == "done")
    return list(dict.fromkeys(one for one in found if one is not None))[:_LINKED]


def story(visit: Visit) -> dict[str, Any]:
    run, pipeline = visit.loaded["run"], visit.loaded["pipeline"]
    base = f"/projects/{visit.project}"
    jobs = {one.name: f"{base}/jobs/{one.job}" for one in run.steps if one.job}
    return {
        "live": run.state == "running",
        "tone": TONES.get(run.state, ""),
        "took": between(run.started, run.ended or visit.now),
        "picture": None if pipeline is None else graph(pipeline.definition, run.pipeline, summed(run.steps), jobs),
        "rows": [_row(one, visit, base) for one in run.steps],
        "asking": [one for one in run.steps if one.state == "asking"],
        "parameters": [(name, in_few_words(given)) for name, given in run.parameters.items()],
        "result": None if run.result is None else in_few_words(in_four_digits(run.result)),
        "told": _counted(run.steps),
    }


def _row(one: StepShown, visit: Visit, base: str) -> Row:
    took = between(one.started, one.ended or visit.now) if one.started is not None else ""
    outcome = in_few_words(in_four_digits(one.result)) if one.state == "done" else sentence(one.words)
    return Row(
        step=one,
        tone=TONES.get(one.state, ""),
        took=took,
        outcome="" if one.state == "done" and one.result is None else outcome[:_LONGEST],
        link=_link(one.result, visit, base) if one.state == "done" else "",
    )


def _version(result: Any, project: str) -> OneVersion | None:
    if not isinstance(result, Mapping):
        return None
    named = {name: result.get(name) for name in ("model", "version")}
    try:
        asked: OneVersion = checked(SHOW_VERSION, {"project": project, **named})
    except Mistyped:
        return None
    return asked


def _link(result: Any, visit: Visit, base: str) -> str:
    if not isinstance(result, Mapping):
        return ""
    if (asked := _version(result, visit.project)) is not None:
        found = (visit.loaded["versions"] or {}).get(asked)
        return "" if found is None else f"{base}/versions/{found.id}"
    if isinstance(dataset := result.get("dataset"), str) and "version" in result:
        return f"{base}/datasets/{quote(dataset, safe='')}/versions/{quote(str(result['version']), safe='')}"
    named = ((page, result.get(kind)) for kind, page in _LINKS.items())
    return next((f"{base}/{page}/{quote(name, safe='')}" for page, name in named if isinstance(name, str)), "")


def _counted(steps: Sequence[StepShown]) -> str:
    whole = [one.state for one in steps if one.item < 0]
    counts = {state: whole.count(state) for state in dict.fromkeys(whole)}
    return ", ".join(f"{count} {state}" for state, count in counts.items())
