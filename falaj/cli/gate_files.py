"""A file that says which gates there are: TOML for people, read into the request that applies it.

[gates.quality] ... is a gate with its kind and limits; [require] says which are needed for which alias of every model,
[require."churn"] of one model.
"""

import json
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from falaj.base.errors import Invalid
from falaj.cli.amounts import seconds_of
from falaj.lifecycle.operations.gates import ApplyGates, Gate, Requirement
from falaj.wire.wording import in_words

_FIELDS: Final = tuple(one.name for one in fields(Gate) if one.name != "name")
_TABLES: Final = ("gates", "require")


def read_gate_file(text: str, *, project: str, folder: Path) -> ApplyGates:
    """`lock` names a file beside this one. Raises `Invalid` for what is misspelled, by its name and place."""
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Invalid(f"This is no TOML: {error}.") from None
    if odd := sorted(set(told) - set(_TABLES)):
        raise Invalid(f"The file has {odd[0]!r}, which nobody knows; write [gates.NAME] and [require].")
    gates = _table("gates", told.get("gates", {}))
    if not gates:
        raise Invalid('No gates are in this file; write at least one, such as:  [gates.signature]  kind = "signature".')
    return ApplyGates(
        project=project,
        gates=tuple(_gate(name, one, folder) for name, one in gates.items()),
        require=tuple(_requirements(_table("require", told.get("require", {})))),
    )


def _table(name: str, told: Any) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise Invalid(f"Write {name} as a table: [{name}].")
    return told


def _gate(name: str, told: Any, folder: Path) -> Gate:
    given = _table(f"gates.{name}", told)
    if odd := sorted(set(given) - set(_FIELDS)):
        raise Invalid(f"The gate {name!r} has {odd[0]!r}, which nobody knows. It may have {', '.join(_FIELDS)}.")
    if "kind" not in given:
        raise Invalid(f'The gate {name!r} has no kind; write one, such as kind = "quality".')
    lock = given.get("lock", "")
    if lock:
        given = {**given, "lock": _read(folder / str(lock), name)}
    if isinstance(given.get("seconds"), str):
        given = {**given, "seconds": seconds_of(given["seconds"])}
    try:
        read: Gate = TypeAdapter(Gate).validate_json(json.dumps({**given, "name": name}, default=str))
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors(include_url=False)[0])
        place = ".".join(str(part) for part in first["loc"])
        raise Invalid(f"The gate {name!r}: {place} {in_words(first) or first['msg']}.") from None
    return read


def _read(path: Path, name: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise Invalid(f"The lock {str(path)!r} of the gate {name!r} cannot be read.") from None


def _requirements(told: dict[str, Any]) -> list[Requirement]:
    found = []
    for name, one in told.items():
        if isinstance(one, list):
            found.append(Requirement(alias=name, gates=tuple(map(str, one))))
            continue
        for alias, gates in _table(f"require.{name}", one).items():
            if not isinstance(gates, list):
                raise Invalid(f'What {alias} of {name!r} needs is a list, such as champion = ["quality"].')
            found.append(Requirement(model=name, alias=alias, gates=tuple(map(str, gates))))
    return found
