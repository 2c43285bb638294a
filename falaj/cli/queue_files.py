"""A file that says how a platform's CPUs and GPUs are shared: TOML for people, read into the request that applies it."""

import math
import tomllib
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.cli.amounts import mib_of, seconds_of
from falaj.jobs.operations.queues import ApplyQueues, CohortSpec, PriorityClass, QueueSpec, QuotaOf

_TABLES: Final = ("queue", "cohort", "priority")
_QUEUE: Final = {"name", "cohort", "weight", "order", "preempt", "reclaim", "open", "projects", "monthly_budget", "idle_gpu"}
_QUOTAS: Final = {"quota", "borrow", "lend"}


def read_queue_file(text: str, *, dry_run: bool) -> ApplyQueues:
    """Raises `Invalid` for what is misspelled, by its name and place."""
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"This is no TOML: {error}.") from None
    _refuse_unknown("the file", told, set(_TABLES))
    for name in _TABLES:
        if not isinstance(told.get(name, []), list) or not all(isinstance(one, dict) for one in told.get(name, [])):
            raise Invalid(f"Write each {name} as a table of its own: [[{name}]].")
    read = ApplyQueues(
        queues=tuple(_queue(one) for one in told.get("queue", [])),
        cohorts=tuple(_cohort(one) for one in told.get("cohort", [])),
        priorities=tuple(_priority(one) for one in told.get("priority", [])),
        dry_run=dry_run,
    )
    if not read.queues:
        raise Invalid('No queues are in this file; write at least one, such as:  [[queue]]  name = "research".')
    return read


def _queue(told: dict[str, Any]) -> QueueSpec:
    what = f"queue {told.get('name', '?')!r}"
    _refuse_unknown(what, told, _QUEUE | _QUOTAS)
    fields = {name: told[name] for name in _QUEUE & told.keys()}
    if "idle_gpu" in fields:
        fields["idle_gpu_seconds"] = seconds_of(str(fields.pop("idle_gpu")))
    if "projects" in fields:
        if not isinstance(fields["projects"], list):
            raise Invalid(f'The projects of {what} are no list; write them like projects = ["fraud"].')
        fields["projects"] = tuple(fields["projects"])
    if "monthly_budget" in fields:
        fields["monthly_budget"] = round(_number(what, "monthly_budget", fields["monthly_budget"]) * 1_000_000)
    return QueueSpec(quotas=_quotas(what, told), **_named(what, fields))


def _cohort(told: dict[str, Any]) -> CohortSpec:
    what = f"cohort {told.get('name', '?')!r}"
    _refuse_unknown(what, told, {"name", "parent", "weight"} | _QUOTAS)
    fields = {name: told[name] for name in {"name", "parent", "weight"} & told.keys()}
    return CohortSpec(quotas=_quotas(what, told), **_named(what, fields))


def _priority(told: dict[str, Any]) -> PriorityClass:
    what = f"priority {told.get('name', '?')!r}"
    _refuse_unknown(what, told, {"name", "value", "most", "start_within"})
    if "start_within" in told:
        told = told | {"start_within_seconds": seconds_of(str(told["start_within"]))}
        del told["start_within"]
    if "value" not in _named(what, told):
        raise Invalid(f"{what} has no value; higher goes first, and 0 is usual.")
    return PriorityClass(**told)


def _quotas(what: str, told: dict[str, Any]) -> tuple[QuotaOf, ...]:
    tables = {name: told.get(name, {}) for name in sorted(_QUOTAS)}
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise Invalid(f"The {name} of {what} is no table; write it like {name} = {{ cpu = 16, gpu = 4 }}.")
    resources = list(dict.fromkeys([*tables["quota"], *tables["borrow"], *tables["lend"]]))
    return tuple(
        QuotaOf(
            resource=resource,
            nominal=_amount(what, resource, tables["quota"].get(resource, 0)),
            borrow=_amount(what, resource, tables["borrow"][resource]) if resource in tables["borrow"] else None,
            lend=_amount(what, resource, tables["lend"][resource]) if resource in tables["lend"] else None,
        )
        for resource in resources
    )


def _amount(what: str, resource: str, given: Any) -> int:
    """CPUs and GPUs are written as numbers of them, memory with its unit."""
    if resource == "memory":
        return mib_of(str(given))
    number = _number(what, resource, given)
    return round(number) if resource == "io" else round(number * 1000)


def _number(what: str, name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < math.inf:
        raise Invalid(f"{given!r} does not do for {name} of {what}: a number that is not negative was expected.")
    return given


def _named(what: str, fields: dict[str, Any]) -> dict[str, Any]:
    if "name" not in fields:
        raise Invalid(f"A {what.split()[0]} has no name.")
    return fields


def _refuse_unknown(what: str, told: dict[str, Any], known: set[str]) -> None:
    if unknown := sorted(told.keys() - known):
        raise Invalid(f"{what} has {unknown[0]!r}, which means nothing here; there are {', '.join(sorted(known))}.")
