"""What one call leaves behind: the leaf, its exact bytes, and how a request is redacted before it enters.

Personal values become commitments, sha256(salt || value); the salts are kept apart, and once a salt is erased its commitment
says nothing any more while the leaf, and every hash above it, stays as it was.
"""

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from enum import Enum
from functools import cache
from hashlib import sha256
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

from falaj.base.clock import Moment
from falaj.base.encoding import canonical
from falaj.base.ids import LeafId
from falaj.base.values import Personal, Secret, value

Outcome: TypeAlias = Literal["done", "refused"]
Commitments: TypeAlias = list[tuple[str, bytes]]

SALT_SIZE = 16
LARGEST_RECORD = 64 * 1024
LARGEST_REFUSED = 2 * 1024  # whoever is refused must not decide how much room that takes
_AS_IT_IS = frozenset({str, int, bool, type(None)})  # which most values are


@value
class Leaf:
    """The record of one call. `rule` names what refused it; `project`, `token`, `principal` are empty where there is none."""

    id: LeafId
    inserted: Moment
    operation: str
    record: str
    outcome: Outcome
    principal: str
    token: str = ""
    zone: str = ""
    project: str
    request_id: str = ""
    request: dict[str, Any]
    facts: dict[str, Any]
    rule: str = ""

    def encoded(self) -> bytes:
        """The canonical bytes: what is stored and hashed."""
        return canonical(self.document())

    def bounded(self) -> bytes:
        """The canonical bytes, with a digest in place of a request so large that a caller could fill the disk with it."""
        encoded = self.encoded()
        if len(encoded) <= (LARGEST_REFUSED if self.outcome == "refused" else LARGEST_RECORD):
            return encoded
        request = canonical(self.request)
        return dataclasses.replace(self, request={"digest": sha256(request).hexdigest(), "size": len(request)}).encoded()

    def document(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "inserted": str(self.inserted),
            "operation": self.operation,
            "record": self.record,
            "outcome": self.outcome,
            "principal": self.principal,
            "token": self.token,
            "zone": self.zone,
            "project": self.project,
            "request_id": self.request_id,
            "request": self.request,
            "facts": self.facts,
            "rule": self.rule,
        }


def decode(record: bytes) -> Leaf:
    """Read a stored record back; ValueError where it is not one."""
    document = json.loads(record)
    try:
        return Leaf(**document | {"inserted": Moment.parse(document["inserted"])})
    except (TypeError, KeyError) as error:
        raise ValueError(f"not a leaf: {error}") from error


def redact(request: Any) -> tuple[dict[str, Any], Commitments]:
    """The request as it enters the leaf, and the salts of the commitments in it."""
    commitments: Commitments = []
    return _fields(request, "", commitments), commitments


def personal_texts(request: Any) -> list[str]:
    """The texts in a request's own fields that enter the leaf as commitments."""
    fields = (getattr(request, name) for name, personal in _marked_fields(request.__class__) if personal)
    return [field for field in fields if isinstance(field, str) and field]


def plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts as JSON: moments and enums as text, bytes as their size."""
    return {name: _plain(fact, "", None) for name, fact in facts.items()}


def commitment(salt: bytes, personal: Any) -> str:
    """What stands in the leaf for a personal value; whoever has the salt and the value can check it."""
    return sha256(salt + canonical(_plain(personal, "", None))).hexdigest()


@cache
def _marked_fields(kind: type) -> tuple[tuple[str, bool], ...]:
    """Field names of a value with whether each is personal; secret ones are not even named."""
    hints = get_type_hints(kind, include_extras=True)
    fields = []
    for field in dataclasses.fields(kind):
        found = _marks_within(hints[field.name])
        if Secret not in found:
            fields.append((field.name, Personal in found))
    return tuple(fields)


def _marks_within(hint: Any) -> set[type]:
    """Marks anywhere in an annotation, so that `tuple[Email, ...]` and `Email | None` count like `Email`."""
    found = {mark if isinstance(mark, type) else type(mark) for mark in getattr(hint, "__metadata__", ())}
    for argument in get_args(hint):
        found |= _marks_within(argument)
    return found


def _fields(message: Any, path: str, commitments: Commitments | None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, personal in _marked_fields(message.__class__):
        field = getattr(message, name)
        if personal and commitments is not None:
            salt = os.urandom(SALT_SIZE)
            commitments.append((path + name, salt))
            fields[name] = {"commitment": commitment(salt, field)}
        else:
            fields[name] = field if type(field) is str else _plain(field, f"{path}{name}.", commitments)
    return fields


def _plain(item: Any, path: str, commitments: Commitments | None) -> Any:
    """Anything a request may hold, as JSON; values found inside are redacted by their own marks."""
    kind = type(item)
    if kind in _AS_IT_IS:
        return item
    if kind is float:
        return item if math.isfinite(item) else str(item)
    if kind is Moment:
        return str(item)
    if kind is tuple or kind is list:
        return [
            part if type(part) in _AS_IT_IS else _plain(part, f"{path}{number}.", commitments)
            for number, part in enumerate(item)
        ]
    if kind is dict or isinstance(item, Mapping):
        return {
            str(name): part if type(part) in _AS_IT_IS else _plain(part, f"{path}{number}.", commitments)
            for number, (name, part) in enumerate(item.items())
        }
    if isinstance(item, Enum):
        return item.value
    if dataclasses.is_dataclass(item):
        return _fields(item, path, commitments)
    if isinstance(item, set | frozenset):
        return sorted((_plain(part, path, commitments) for part in item), key=canonical)
    if isinstance(item, bytes | bytearray | memoryview):
        return {"size": len(item)}
    return item
