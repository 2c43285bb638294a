"""A file with pipelines on its way to the platform: written down here, its folder sent, the definition applied."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from falaj.base.errors import Invalid
from falaj.cli.choosing import pair_of
from falaj.cli.deferred import Deferred
from falaj.cli.terminal import Terminal
from falaj.jobs.operations import jobs
from falaj.lifecycle.operations.pipelines import APPLY_PIPELINE, Apply, Pipeline
from falaj.lifecycle.operations.words import Definition, Parameter

if TYPE_CHECKING:
    from falaj.cli import pipeline_furniture as furniture
    from falaj.client.pipelines import files
else:
    furniture = Deferred("falaj.cli.pipeline_furniture")
    files = Deferred("falaj.client.pipelines.files")

_THINGS: Final = ("dataset", "model", "run", "endpoint")


def is_file(given: str) -> bool:
    """`flights.py`, `flights.py:nightly`; anything else is the name of a pipeline."""
    return given.partition(":")[0].endswith(".py")


def apply_file(
    terminal: Terminal,
    project: str,
    given: str,
    folder: Path | None,
    *,
    every: bool = False,
    check: Callable[[Definition], object] = lambda _: None,
) -> list[Pipeline]:
    """The pipeline that is meant, or every one of the file. What `check` refuses is not sent."""
    path, _, name = given.partition(":")
    found = files.written(Path(path), folder, only=name)
    wanted = found if every else (files.only_one(found, Path(path)),)
    for one in wanted:
        check(one.definition)
    if any(one.definition.source for one in wanted):
        _send(terminal, project, wanted[0])
    return [_applied(terminal, project, one) for one in wanted]


def _applied(terminal: Terminal, project: str, one: "files.Written") -> Pipeline:
    furniture.define_gates(terminal, project, one)
    made = terminal.call(APPLY_PIPELINE, Apply(project=project, pipeline=one.name, definition=one.definition))
    furniture.set_triggers(terminal, project, one)
    return made


def _send(terminal: Terminal, project: str, one: "files.Written") -> None:
    terminal.call(jobs.UPLOAD_SOURCE, jobs.UploadSource(project=project), chunks=[one.files.content])
    size = one.files.size
    amount = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.1f} kB"
    terminal.say(f"Sent {one.files.files} file{'' if one.files.files == 1 else 's'} of {one.folder} ({amount}).")


def parameters_of(given: list[str] | None, known: tuple[Parameter, ...]) -> dict[str, Any]:
    """`depth=6`, `flights=flights@3`, each read as what it is said to be."""
    kinds = {one.name: one.kind for one in known}
    return {name: _read(name, text, kinds.get(name, "any")) for name, text in map(pair_of, given or ())}


def _read(name: str, text: str, kind: str) -> Any:
    if kind == "text" or kind in _THINGS:
        return text
    try:
        return json.loads(text)
    except ValueError:
        if kind == "flag" and text.lower() in ("true", "false", "yes", "no"):
            return text.lower() in ("true", "yes")
        if kind == "any":
            return text
        raise Invalid(f"--set {name}={text}: it is said to be a {kind}, and {text!r} is none.") from None
