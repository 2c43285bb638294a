"""Rows of runs and steps as values, and back."""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from hashlib import sha256
from typing import Any, Final

from falaj import __version__
from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.lifecycle.checking import before
from falaj.lifecycle.deciding import Key, Standing
from falaj.lifecycle.operations.words import Definition, Function, Step
from falaj.lifecycle.store.tables import Found
from falaj.lifecycle.writing import written
from falaj.operations.messages import adapter

_PLAIN: Final = ("name", "item", "state", "attempt", "failures", "words", "job", "cached", "digest", "due")
_NONE: Final = ""
_LAST_VERSION: Final = 2**31 - 1


@value
class Options:
    """How a run was asked for. `replay_of` is the version that it makes again."""

    anew: bool = False
    only: tuple[str, ...] = ()
    of: str = ""
    from_step: str = ""
    replay_of: str = ""


def definition_text(definition: Definition) -> str:
    return adapter(Definition).dump_json(definition, exclude_defaults=True).decode()


def read_definition(text: str) -> Definition:
    read: Definition = adapter(Definition).validate_json(text)
    return read


def digest_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def options_text(options: Options) -> str:
    return written(asdict(options))


def read_options(text: str) -> Options:
    said = json.loads(text)
    return Options(**{**said, "only": tuple(said["only"])})


def steps_in(definition: Definition, options: Options) -> frozenset[str]:
    """The steps that belong to the run."""
    return frozenset(before(definition, options.only) if options.only else (step.name for step in definition.steps))


def read_standing(row: Found) -> Standing:
    plain = {name: getattr(row, name) for name in _PLAIN}
    return Standing(
        **plain,
        arguments=_read(row.arguments),
        called=_read(row.called),
        has_called=row.called != _NONE,
        told=_read(row.told),
        result=_read(row.result),
        begun=None if row.begun is None else Moment(row.begun),
        ended=None if row.ended is None else Moment(row.ended),
        size=len(row.arguments) + len(row.called) + len(row.told) + len(row.result),
    )


def read_standings(rows: Iterable[Found]) -> dict[Key, Standing]:
    return {(row.name, row.item): read_standing(row) for row in rows}


def row_of(standing: Standing, run: str, project: str) -> dict[str, Any]:
    plain = {name: getattr(standing, name) for name in _PLAIN}
    return plain | {
        "run": run,
        "project": project,
        "arguments": _NONE if standing.arguments is None else written(standing.arguments),
        "called": written(standing.called) if standing.has_called else _NONE,
        "told": _NONE if standing.told is None else written(standing.told),
        "result": _NONE if standing.result is None else written(standing.result),
        "made": made_of(standing.result) if standing.state == "done" else "",
        "begun": standing.begun,
        "ended": standing.ended,
    }


def made_of(result: Any) -> str:
    """The version of a model that came out, so that one can ask where it came from."""
    if not isinstance(result, Mapping) or not isinstance(result.get("model"), str) or type(result.get("version")) is not int:
        return ""
    return f"{result['model'][:280]}:{result['version']}" if 0 < result["version"] <= _LAST_VERSION else ""


def run_in(result: str) -> str:
    """The tracked run that a step handed on, as it was written; empty where it is something else."""
    found = _read(result)
    return str(found["run"]) if isinstance(found, Mapping) and isinstance(found.get("run"), str) else ""


def digest_of_step(step: Step, arguments: Any) -> str:
    """By what it is found again that the same was done before: its code, what it runs in, what it may reach, and what it was
    given."""
    if not step.cached or step.kind not in ("function", "operation"):
        return ""
    what = (step.operation,) if step.function is None else _made_of(step.function)
    return digest_of(written([step.kind, what, step.result, arguments]))


def _made_of(function: Function) -> tuple[str | list[str], ...]:
    """What it is, what it may reach, for that can be in what it returns, and what it runs in: an image says all of the last, a
    lock all but the interpreter; with neither it has what the platform itself runs with, which differs from release to release.
    """
    python = "" if function.image else ".".join(map(str, sys.version_info[:2]))
    platform = "" if function.image or function.lock else __version__
    reached = [sorted(one) for one in (function.secrets, function.hosts, function.permissions)]
    own = (function.code, function.file, function.name, function.lock, function.image, function.experiment)
    return (*own, *reached, python, platform)


def _read(text: str) -> Any:
    return json.loads(text) if text else None
