"""What people fill in about jobs, made into requests: a line becomes a command, GiB become MiB, one quota all queues."""

import math
import shlex
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from falaj.base.operation import Operation
from falaj.base.values import value
from falaj.jobs.operations.jobs import Spec
from falaj.jobs.operations.queues import SIMULATE_QUEUES
from falaj.jobs.operations.words import Resources
from falaj.web.bodies import Fields
from falaj.web.forms import Mistyped, checked, read_message
from falaj.web.visits import Visit

_TEXTS: Final = ("name", "queue", "priority", "experiment")
_WISHES: Final = (("cpus", "cpus", 1), ("memory_mib", "memory_gib", 1024), ("gpus", "gpus", 1))
_FIELDS: Final = {"memory_mib": "memory_gib", "seconds": "minutes"}  # what the form calls them
# By what a form calls it: thousandths of cores and cards, MiB of GiB.
_UNITS: Final[dict[str, int]] = {"memory": 1024, "io": 1}


@value
class Foreseen:
    """A plan, and what was typed to get it: the form shows both, for submitting comes next."""

    plan: Any
    typed: dict[str, str]


def submission(operation: Operation[Any, Any], fields: Fields, path: dict[str, str]) -> Any:
    """The request for a job or for its plan; both are asked by one form."""
    numbers = {name: _number(fields, field, scale, whole=scale > 1) for name, field, scale in _WISHES}
    wish = {name: number for name, number in numbers.items() if number is not None}
    spec: dict[str, Any] = {name: said for name in _TEXTS if (said := _said(fields, name))}
    if (seconds := _number(fields, "minutes", 60, whole=True)) is not None:
        spec["seconds"] = seconds
    spec["command"] = _command(_said(fields, "command"))
    try:
        spec["resources"] = asdict(read_message(Resources, wish))
        return checked(operation, {"project": path["project"], "spec": asdict(read_message(Spec, spec))})
    except Mistyped as error:
        raise Mistyped({_FIELDS.get(name, name): words for name, words in error.fields.items()}) from None


def foreseen(visit: Visit, plan: Any) -> Foreseen:
    return Foreseen(plan=plan, typed=visit.submitted)


def scenario(visit: Visit) -> Any:
    """What the form asks, held against the queues as they are; None before anything was asked."""
    asked = {name: [text] for name, text in visit.query.items()}
    if not _said(asked, "ask"):
        return None
    nodes = _number(asked, "nodes", 1, whole=True, least=-10_000) or 0
    more: dict[str, Any] = {"more_nodes": nodes, "like": _said(asked, "like")}
    if _said(asked, "quota"):
        more |= _other_quota(visit.loaded["queues"], asked)
    one_more = _said(asked, "ask") == "job"
    if one_more:
        more |= _one_more(asked)
    if not one_more and not nodes and "queues" not in more:
        raise Mistyped({"nodes": "Change something: the number of hosts, or a quota."})
    days = _number(asked, "days", 1, whole=True) or 14
    return checked(SIMULATE_QUEUES, {"scenario": more, "days": days, "now": one_more})


def _one_more(asked: Fields) -> dict[str, Any]:
    cpus, gpus = _number(asked, "cpus", 1) or 0.0, _number(asked, "gpus", 1) or 0.0
    if not cpus and not gpus:
        raise Mistyped({"gpus": "Say what the job would take: CPUs, GPUs or both."})
    resources = {"cpus": cpus or 1.0, "gpus": gpus, "memory_mib": _number(asked, "memory_gib", 1024, whole=True) or 1024}
    tasks, seconds = _number(asked, "tasks", 1, whole=True) or 1, _number(asked, "minutes", 60, whole=True) or 0
    return {"resources": resources, "tasks": tasks, "seconds": seconds, "queue": _said(asked, "queue")}


def _other_quota(known: Any, asked: Fields) -> dict[str, Any]:
    """All queues as they are, but one of which is owed more or less of one resource."""
    name, resource = _said(asked, "of"), _said(asked, "resource") or "gpu"
    nominal = _number(asked, "quota", _UNITS.get(resource, 1000), whole=True)
    specs = [asdict(queue.spec) for queue in known.queues] if known is not None else []
    changed = next((spec for spec in specs if spec["name"] == name), None)
    if changed is None:
        raise Mistyped({"of": "Choose one of the queues."})
    kept = {"borrow": None, "lend": None}
    kept |= next((quota for quota in changed["quotas"] if quota["resource"] == resource), {})
    others = [quota for quota in changed["quotas"] if quota["resource"] != resource]
    changed["quotas"] = [*others, kept | {"resource": resource, "nominal": nominal}]
    return {"queues": specs, "cohorts": [asdict(cohort) for cohort in known.cohorts]}


def _command(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise Mistyped({"command": f"A shell could not read this: {error}."}) from None
    if not words:
        raise Mistyped({"command": "Please fill this in."})
    return words


def _number(fields: Fields, field: str, scale: int, *, whole: bool = False, least: float = 0.0) -> float | int | None:
    text = _said(fields, field)
    if not text:
        return None
    convert: Callable[[float], float | int] = round if whole else float
    try:
        number = float(text) * scale
        if not math.isfinite(number) or number < least:
            raise ValueError
        return convert(number)
    except (ValueError, OverflowError):
        raise Mistyped({field: "Write a number." if least < 0 else "Write a number, 0 or more."}) from None


def _said(fields: Fields, name: str) -> str:
    return fields.get(name, [""])[-1].strip()
