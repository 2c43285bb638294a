"""Running gates from a terminal: the folder is sent where a command is run on it, and they are followed until all are over."""

import time
from pathlib import Path
from typing import Final

from falaj.base.errors import Unavailable
from falaj.cli.commands.deploy import PATIENCE, meant
from falaj.cli.job_options import send_source
from falaj.cli.terminal import Terminal
from falaj.lifecycle.operations.gates import (
    COMMANDS,
    LIST_GATES,
    READ_RESULTS,
    RUN_GATES,
    GateRuns,
    ListGates,
    ReadResults,
    RunGates,
)

_LOOKS: Final = 0.5
_WAITS_FOR: Final = 60.0  # seconds for a platform that does not answer: it may be starting again


def begun(terminal: Terminal, project: str, model: str, gates: tuple[str, ...], folder: Path | None) -> GateRuns:
    """Without a folder, commands have no source to be run on."""
    name, version, alias = meant(model)
    defined = terminal.call(LIST_GATES, ListGates(project=project)).items
    wanted = [one.gate for one in defined if not gates or one.gate.name in gates]
    source = ""
    if folder is not None and any(gate.kind in COMMANDS for gate in wanted):
        source = send_source(terminal, project, folder, "")
    request = RunGates(project=project, model=name, version=version, alias=alias, gates=gates, source=source)
    return terminal.call(RUN_GATES, request, patience=PATIENCE)


def followed(terminal: Terminal, project: str, runs: GateRuns, seconds: float) -> GateRuns:
    """Each is told once it is over. What is not over by then is told as it stands."""
    told, ends, silent_since = set[str](), time.monotonic() + seconds, 0.0
    request = ReadResults(project=project, model=runs.model, version=runs.version, batch=runs.batch)
    while True:
        for one in runs.items:
            if one.state != "running" and one.id not in told:
                told.add(one.id)
                terminal.say(f"{one.gate}: {one.state}. {one.words}")
        if runs.over or time.monotonic() > ends:
            return runs
        time.sleep(_LOOKS)
        try:
            runs, silent_since = terminal.call(READ_RESULTS, request), 0.0
        except Unavailable:
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > _WAITS_FOR:
                raise


def gates_of(listed: list[str] | None) -> tuple[str, ...]:
    """`--gates a,b --gates c` are three."""
    return tuple(dict.fromkeys(name.strip() for one in listed or () for name in one.split(",") if name.strip()))
