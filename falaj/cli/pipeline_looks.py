"""How pipelines, their runs and triggers look to people."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from falaj.base.clock import SECOND
from falaj.base.errors import Invalid, NotFound
from falaj.cli.amounts import span_told
from falaj.cli.layout import Branch, Layout, brief, shown, tell_of_more
from falaj.lifecycle.checking import order_of
from falaj.lifecycle.operations.pipelines import Pipeline, PipelineRun, PipelineRuns, Pipelines, StepShown
from falaj.lifecycle.operations.triggers import Trigger, Triggers, TriggerShown
from falaj.lifecycle.operations.words import Definition, Step
from falaj.web.pipelines.figures import in_four_digits
from falaj.web.pipelines.graph import links_of, what

SHORT: Final = 8  # digits of an id
_STARTS: Final = {
    "dataset": "a new version of",
    "model": "a new version of",
    "alias": "a move of",
    "drift": "an alert of",
    "webhook": "a signed call",
    "push": "a push to",
}
_LONGEST: Final = 100


def pipelines(layout: Layout, page: Pipelines) -> None:
    rows = [(one.name, one.version, one.steps, one.last, one.live, brief(one.changed), one.words[:60]) for one in page.items]
    layout.table(("name", "version", "steps", "last run", "under way", "changed", "words"), rows)
    tell_of_more(page)


def pipeline(layout: Layout, one: Pipeline) -> None:
    layout.pairs(
        [
            ("name", one.name),
            ("words", one.definition.words or None),
            ("version", f"{one.version}, {brief(one.changed)} by {one.changed_by.name or one.changed_by.id}"),
            ("last run", f"{one.last or 'none'}{f', {one.live} under way' if one.live else ''}"),
        ]
    )
    if one.definition.parameters:
        rows = [
            (it.name, it.kind, "must be said" if it.required else in_few_words(it.default)) for it in one.definition.parameters
        ]
        layout.table(("parameter", "kind", "default"), rows)
    tree(layout, one.name, one.definition)


def tree(layout: Layout, name: str, definition: Definition) -> None:
    layout.tree(Branch(label=name, below=_branches(definition)))


def _branches(definition: Definition) -> tuple[Branch, ...]:
    """Each step below the last of those that it comes after; the others it names."""
    place = {name: number for number, name in enumerate(order_of(definition))}
    before: dict[str, list[str]] = {name: [] for name in place}
    for one, other in links_of(definition):
        before[other].append(one)
    parent = {name: max(found, key=place.__getitem__, default="") for name, found in before.items()}
    steps = {step.name: step for step in definition.steps}

    def below(name: str) -> tuple[Branch, ...]:
        own = sorted((one for one, above in parent.items() if above == name), key=place.__getitem__)
        known = _conditions(steps[name].when) if name else []
        return tuple(Branch(label=_label(steps[one], before[one], name, known), below=below(one)) for one in own)

    return below("")


def _conditions(when: Any) -> list[Any]:
    """What has to hold, one by one."""
    if isinstance(when, dict) and when.get("$") == "and":
        return [found for one in when["of"] for found in _conditions(one)]
    return [] if when is True else [when]


def _label(step: Step, before: Sequence[str], parent: str, known: Sequence[Any]) -> str:
    """Of its conditions those alone that do not hold for its parent, too."""
    wanted = [one for one in _conditions(step.when) if one not in known]
    others = [one for one in before if one != parent]
    told = what(step)
    more = [told if told != f"{step.name}()" else ""]
    more += ["for each of a list"] if step.each is not None else []
    more += [f"when {' and '.join(map(condition, wanted))}"] if wanted else []
    more += [f"also after {', '.join(others)}"] if others else []
    said = ", ".join(one for one in more if one)
    return f"{step.name}: {said}" if said else step.name


def condition(given: Any) -> str:
    """As people would write it."""
    if not isinstance(given, dict) or "$" not in given:
        return json.dumps(given, ensure_ascii=False) if not isinstance(given, str) else repr(given)
    mark, of = given["$"], given.get("of")
    if of is None:
        return str(mark).removeprefix("steps.").removeprefix("parameters.")
    parts = [condition(one) for one in of]
    if mark == "not":
        return f"not ({parts[0]})"
    if mark in ("first", "count", "text"):
        return f"{mark}({', '.join(parts)})"
    return f" {mark} ".join(f"({one})" if mark in ("and", "or") and " " in one else one for one in parts)


def runs(layout: Layout, page: PipelineRuns) -> None:
    rows = [
        (one.id[-SHORT:], one.pipeline, one.version, state, brief(one.started), took(one), one.trigger, words[:60])
        for one in page.items
        for state, words in [("asking", one.asking) if one.asking else (one.state, one.words)]
    ]
    layout.table(("run", "pipeline", "version", "state", "started", "took", "trigger", "words"), rows)
    tell_of_more(page)


def run(layout: Layout, one: PipelineRun) -> None:
    layout.pairs(
        [
            ("id", one.id),
            ("pipeline", f"{one.pipeline}, version {one.version}"),
            ("state", f"{one.state}: {one.words}" if one.words else one.state),
            ("parameters", ", ".join(f"{name}={in_few_words(it)}" for name, it in one.parameters.items()) or None),
            ("why", one.why or None),
            ("trigger", one.trigger or None),
            ("started", f"{str(one.started)[:19]}Z by {one.started_by.name or one.started_by.id}"),
            ("took", took(one)),
            ("hands on", None if one.result is None else in_few_words(in_four_digits(one.result))),
        ]
    )
    rows = [(named(it), it.state, it.attempt or None, took(it), it.job[-SHORT:], outcome(it)) for it in one.steps]
    layout.table(("step", "state", "try", "took", "job", "what came of it"), rows)


def named(one: StepShown) -> str:
    return one.name if one.item < 0 else f"{one.name}[{one.item}]"


def outcome(one: StepShown) -> str:
    if one.state == "done":
        taken = f" (taken from {one.cached[-SHORT:]})" if one.cached else ""
        return in_few_words(in_four_digits(one.result)) + taken
    return shown(one.words)[:_LONGEST]


def took(one: StepShown | PipelineRun) -> str | None:
    if one.started is None or one.ended is None:
        return None
    seconds = (one.ended - one.started) / SECOND
    return f"{seconds:.1f} s" if seconds < 10 else span_told(seconds)


def in_few_words(given: Any) -> str:
    """Things as they are named on the command line, everything else as JSON."""
    if isinstance(given, dict):
        if isinstance(given.get("dataset"), str) and "version" in given:
            return f"{given['dataset']}@{given['version']}"
        if isinstance(given.get("model"), str) and "version" in given:
            state = f", {given['state']}" if isinstance(given.get("state"), str) else ""
            return f"{given['model']}:{given['version']}{state}"
        if set(given) == {"run"}:
            return f"run {given['run']}"
        if set(given) == {"endpoint", "revision"}:
            return f"{given['endpoint']}, revision {given['revision']}"
    if given is None:
        return "-"
    if isinstance(given, list) and given and all(isinstance(one, dict) for one in given):
        text = ", ".join(in_few_words(one) for one in given)
    else:
        text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def triggers(layout: Layout, page: Triggers) -> None:
    rows = [
        (one.name, wish(one.wish), brief(one.next), one.last_run[-SHORT:], "yes" if one.waiting else None, one.words[:60])
        for one in page.items
    ]
    layout.table(("trigger", "starts it", "next", "last run", "waits", "words"), rows)
    for one in page.items:
        if one.hook:
            layout.line(f"{one.name} is called at /hooks/{one.hook}")


def wish(one: Trigger) -> str:
    return f"{one.cron} ({one.zone})" if one.kind == "schedule" else f"{_STARTS[one.kind]} {one.about}".rstrip()


def trigger_set(layout: Layout, one: TriggerShown, pipeline: str, url: str) -> None:
    layout.line(f"{one.name} starts {pipeline}: {wish(one.wish)}{next_time(one)}.")
    if one.hook:
        layout.line(f"Calls of   {url.rstrip('/')}/hooks/{one.hook}")
        layout.line(f"signed by  {one.secret}")
        layout.line("The secret is shown this once. Give both to the service, and JSON as the type of what it sends.")


def next_time(one: TriggerShown) -> str:
    return f"; next at {str(one.next)[:19]}Z" if one.next is not None else ""


def with_parameters(one: Trigger, parameters: dict[str, Any]) -> Trigger:
    return replace(one, parameters=parameters)


def json_of(text: str, option: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Invalid(f"{option} {text!r} is no JSON: {error}.") from None


def step_of(given: str) -> tuple[str, int]:
    """`train`, or one item of it: `train[2]`."""
    name, mark, rest = given.partition("[")
    if not mark:
        return name, -1
    if not (rest.endswith("]") and rest[:-1].isdigit()):
        raise Invalid(f"{given!r} names no step; write it like train, or train[2] for one of a list.")
    return name, int(rest[:-1])


def step_in(run: PipelineRun, given: str) -> StepShown:
    name, item = step_of(given)
    for one in run.steps:
        if (one.name, one.item) == (name, item):
            return one
    items = [named(one) for one in run.steps if one.name == name]
    known = items or list(dict.fromkeys(one.name for one in run.steps))
    raise NotFound(f"The run {run.id[-SHORT:]} has no step {given!r}; it has {', '.join(known)}.")
