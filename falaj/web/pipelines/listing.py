"""A project's pipelines, and one of them: its steps, its newest runs, what starts it by itself."""

import json
from typing import Any, Final

from falaj.base.operation import Operation
from falaj.base.values import value
from falaj.lifecycle.operations.pipelines import LIST_RUNS, PipelineRun
from falaj.lifecycle.operations.triggers import SET_TRIGGER, Trigger
from falaj.lifecycle.operations.words import Parameter
from falaj.web.bodies import Fields
from falaj.web.forms import checked
from falaj.web.jobs.amounts import between
from falaj.web.pipelines.graph import graph, what
from falaj.web.visits import Visit

RUNS_SHOWN: Final = 20
TONES: Final = {"running": "accent", "asking": "warn", "done": "good", "failed": "bad", "cancelled": "warn"}
_THINGS: Final = ("text", "dataset", "model", "run", "endpoint")
_STARTS: Final = {
    "dataset": "a new version of the dataset",
    "model": "a new version of the model",
    "alias": "a move of",
    "drift": "an alert of the endpoint",
    "webhook": "a signed call of an address of its own",
    "push": "a push to the branch",
}


@value
class Field:
    """A parameter in a form: `name` says how what is typed is read."""

    name: str
    label: str
    hint: str
    default: str
    required: bool


# What is asked for


def runs(visit: Visit) -> Any:
    asked = {name: visit.query.get(name, "") for name in ("pipeline", "state", "cursor")}
    return checked(LIST_RUNS, {"project": visit.project, "limit": RUNS_SHOWN, **asked})


def own_runs(visit: Visit) -> Any:
    asked = {"pipeline": visit.path["pipeline"], "cursor": visit.query.get("cursor", "")}
    return checked(LIST_RUNS, {"project": visit.project, "limit": RUNS_SHOWN, **asked})


def start(operation: Operation[Any, Any], fields: Fields, path: dict[str, str]) -> Any:
    """Fields called `text.NAME` and `json.NAME` are parameters; blank ones stay as they are by default."""
    given: dict[str, Any] = {}
    for name, texts in fields.items():
        how, mark, parameter = name.partition(".")
        if mark and texts[-1].strip():
            given[parameter] = texts[-1] if how == "text" else _read(texts[-1])
    return checked(operation, {"parameters": given, "anew": bool(fields.get("anew")), **path})


def _read(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return text  # which its kind refuses, in words


def _no_number(text: str) -> Any:
    raise ValueError(text)


def scheduled(operation: Operation[Any, Any], fields: Fields, path: dict[str, str]) -> Any:
    said = {name: fields.get(name, [""])[-1] for name in ("trigger", "cron", "zone")}
    wish = {"kind": "schedule", "cron": said["cron"], "zone": said["zone"] or "UTC"}
    return checked(SET_TRIGGER, {"trigger": said["trigger"], "wish": wish, **path})


# What is made of it


def listed(visit: Visit) -> dict[str, Any]:
    found = visit.loaded["runs"]
    return {
        "tones": TONES,
        "took": lambda run: took(run, visit),
        "any_live": found is not None and any(one.state == "running" for one in found.items),
        "in_few_words": in_few_words,
    }


def story(visit: Visit) -> dict[str, Any]:
    one = visit.loaded["pipeline"]
    return {
        **listed(visit),
        "picture": graph(one.definition, one.name),
        "fields": [_field(parameter) for parameter in one.definition.parameters],
        "steps": [(step, what(step)) for step in one.definition.steps],
        "starts": starts,
    }


def took(run: PipelineRun, visit: Visit) -> str:
    return between(run.started, run.ended or visit.now)


def starts(wish: Trigger) -> str:
    return (
        f"{wish.cron}, by the clock of {wish.zone}"
        if wish.kind == "schedule"
        else f"{_STARTS[wish.kind]} {wish.about}".rstrip()
    )


def _field(one: Parameter) -> Field:
    default = one.default if isinstance(one.default, str) else "" if one.default is None else in_few_words(one.default)
    how = "text" if one.kind in _THINGS else "json"
    return Field(name=f"{how}.{one.name}", label=one.name, hint=one.kind, default=default, required=one.required)


def in_few_words(given: Any) -> str:
    if isinstance(given, dict):
        for kind, mark in (("dataset", "@"), ("model", ":")):
            if isinstance(given.get(kind), str) and "version" in given:
                return f"{given[kind]}{mark}{given['version']}"
        if isinstance(given.get("endpoint"), str) and "revision" in given:
            return f"{given['endpoint']}, revision {given['revision']}"
        if given and all(isinstance(name, str) for name in given):
            return ", ".join(f"{name}: {in_few_words(one)}" for name, one in given.items())
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
