"""Asking for an optimisation: what a form says becomes a plan, and the plan a job of the platform's own program."""

import re
import shlex
from typing import Any, Final

from falaj.base.operation import Operation
from falaj.jobs.operations.jobs import Spec
from falaj.jobs.operations.words import Resources
from falaj.optimisation.jobs import MEMORY_MIB, PROGRAM, gpus_for, submitted
from falaj.optimisation.operations.optimisations import Optimisation
from falaj.web.bodies import Fields
from falaj.web.forms import Mistyped, checked
from falaj.web.visits import Visit

_TEXTS: Final = ("model", "version", "on", "held_out", "label", "target")


def plan(operation: Operation[Any, Any], fields: Fields, path: dict[str, str]) -> Any:
    """Columns are told apart by commas, for their names may have spaces."""
    said: dict[str, Any] = {name: text for name in _TEXTS if (text := _said(fields, name))}
    said["slices"] = [column for one in _said(fields, "slices").split(",") if (column := one.strip())]
    limits: dict[str, Any] = {}
    if text := _said(fields, "max_drop"):
        limits["max_drop"] = _share(text, "max_drop")
    if text := _said(fields, "latency_ms"):
        limits["latency_ms"] = text
    try:
        return checked(operation, {"project": path["project"], **said, "limits": limits})
    except Mistyped as error:
        raise Mistyped({"latency_ms" if name == "limits" else name: words for name, words in error.fields.items()}) from None


def submit(visit: Visit, planned: Optimisation) -> Optimisation:
    """The job of a plan; it brings nothing along. Sent twice by one form it is the same job."""
    resources = Resources(cpus=1.0, memory_mib=MEMORY_MIB, gpus=gpus_for(planned.target))
    key = visit.submitted.get("_key", "")

    def call(operation: Operation[Any, Any], request: Any) -> Any:
        return visit.call(operation, request, key=f"{key}-{operation.name}" if key else "")

    submitted(call, visit.project, planned, Spec(command=PROGRAM, resources=resources))
    return planned


def searched_by(command: tuple[str, ...]) -> str:
    """The optimisation that a job with this command does; empty for any other job."""
    program, rest = command[: len(PROGRAM)], command[len(PROGRAM) :]
    return rest[0] if program == PROGRAM and len(rest) == 1 and re.fullmatch("[0-9a-f]{32}", rest[0]) else ""


def command_line(project: str, model: str, version: int, earlier: Optimisation | None) -> str:
    """The same from a shell, for who wants more than the form has."""
    said = ["falaj", "optimise", f"{model}:{version}", "--project", project]
    if earlier is None:
        return shlex.join([*said, "--on", "DATASET", "--target", "cpu"])
    said += ["--on", f"{earlier.on.dataset}@{earlier.on.version}"]
    if earlier.held_out.digest != earlier.on.digest:
        said += ["--held-out", f"{earlier.held_out.dataset}@{earlier.held_out.version}"]
    said += ["--truth", earlier.label] if earlier.label else []
    for column in earlier.slices:
        said += ["--slice", column]
    return shlex.join([*said, "--target", earlier.target])


def prefilled(earlier: Optimisation | None, data: str) -> dict[str, str]:
    """What the form says before anybody typed: what was asked last time, or the data that the model came from."""
    if earlier is None:
        return {"on": data, "target": "cpu", "max_drop": "0.5"}
    apart = earlier.held_out.digest == earlier.on.digest
    return {
        "on": f"{earlier.on.dataset}@{earlier.on.version}",
        "held_out": "" if apart else f"{earlier.held_out.dataset}@{earlier.held_out.version}",
        "label": earlier.label,
        "slices": ", ".join(earlier.slices),
        "target": earlier.target,
        "max_drop": f"{earlier.limits.max_drop * 100:g}",
        "latency_ms": f"{earlier.limits.latency_ms:g}" if earlier.limits.latency_ms else "",
    }


def _share(text: str, field: str) -> float:
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 < share < 1:
        raise Mistyped({field: "Write per cent, more than 0 and less than 100."})
    return share


def _said(fields: Fields, name: str) -> str:
    return fields.get(name, [""])[-1].strip()
