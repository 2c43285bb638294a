"""What a pipeline needs around it, beside its definition: the gates that its steps name, and what starts it by itself."""

from typing import TYPE_CHECKING, Final

from falaj.base.errors import Forbidden
from falaj.cli.gate_files import read_gate_file
from falaj.cli.pipeline_looks import next_time, wish
from falaj.cli.terminal import Terminal
from falaj.lifecycle.operations.gates import APPLY_GATES, LIST_GATES, RUN_GATES, ApplyGates, Gates, ListGates
from falaj.lifecycle.operations.triggers import (
    DELETE_TRIGGER,
    LIST_TRIGGERS,
    SET_TRIGGER,
    ListTriggers,
    OneTrigger,
    SetTrigger,
    name_of,
)
from falaj.lifecycle.operations.words import Definition

if TYPE_CHECKING:
    from falaj.client.pipelines.files import Written

GATES: Final = "gates.toml"


def define_gates(terminal: Terminal, project: str, one: "Written") -> None:
    """Where a step names gates that the project does not have, and the folder has a file of gates: those that are missing, with
    what it requires where nothing is required yet. What is there stays as it is."""
    file, wanted = one.folder / GATES, _gates_named(one.definition)
    if not wanted or not file.is_file():
        return
    there = terminal.call(LIST_GATES, ListGates(project=project))
    if wanted <= {known.gate.name for known in there.items}:
        return
    given = read_gate_file(file.read_text(encoding="utf-8"), project=project, folder=one.folder)
    request, new = _beside(there, given)
    if not new:
        return
    try:
        terminal.call(APPLY_GATES, request)
    except Forbidden as error:
        raise Forbidden(
            f"{project} has no gates {', '.join(sorted(new))} yet, and defining them is for operators ({error}) Have one say "
            f"`falaj pipeline apply` with this file, once.",
            rule=error.rule,
        ) from None
    terminal.say(f"The project has the gates {', '.join(sorted(new))} now, of {GATES}.")


def _gates_named(definition: Definition) -> set[str]:
    return {name for step in definition.steps if step.operation == RUN_GATES.name for name in step.arguments["gates"]}


def _beside(there: Gates, given: ApplyGates) -> tuple[ApplyGates, set[str]]:
    """All of them, and the names of the new ones."""
    known = {one.gate.name: one.gate for one in there.items}
    new = {gate.name: gate for gate in given.gates if gate.name not in known}
    required = {(one.model, one.alias): one for one in (*given.require, *there.require)}
    request = ApplyGates(project=given.project, gates=(*known.values(), *new.values()), require=tuple(required.values()))
    return request, set(new)


def set_triggers(terminal: Terminal, project: str, one: "Written") -> None:
    """Those that are not there as they are wished; those that the file once wished for go. A trigger runs in the name of
    whoever set it, so others stay untouched."""
    if one.starts is None:
        return
    there = {
        known.name: known.wish for known in terminal.call(LIST_TRIGGERS, ListTriggers(project=project, pipeline=one.name)).items
    }
    for name, wished in one.starts.items():
        if there.get(name) != wished:
            request = SetTrigger(project=project, pipeline=one.name, trigger=name, wish=wished)
            made = terminal.call(SET_TRIGGER, request)
            terminal.say(f"{name} starts {one.name} from now on: {wish(made.wish)}{next_time(made)}.")
    for name in sorted(name for name, known in there.items() if name == name_of(known) and name not in one.starts):
        terminal.call(DELETE_TRIGGER, OneTrigger(project=project, pipeline=one.name, trigger=name))
        terminal.say(f"{name} starts {one.name} no more: {wish(there[name])}.")
