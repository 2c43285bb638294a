"""What data workers say, held against what it can be: they read what anybody sends, so nothing is believed."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from falaj.base.errors import Conflict, FalajError, Forbidden, Invalid, NotFound, TooLarge
from falaj.datasets.working.errors import WorkerFailed
from falaj.tables.errors import Altered, LibraryMissing
from falaj.tables.orders import Bins, Looked, PartFacts, Rows, Surveyed
from falaj.tables.schemas import Schema, checked
from falaj.tables.telling import heard_schema

_KINDS: Final[Mapping[str, type[FalajError]]] = {
    kind.__name__: kind for kind in (Invalid, TooLarge, Altered, Conflict, NotFound, LibraryMissing)
} | {"OutOfTime": WorkerFailed, "Forbidden": Forbidden}
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST: Final = 4000
_MOST_SLOTS: Final = 168  # hours of a week
_LONGEST_SLOT: Final = 20


def refuse_errors(answer: Mapping[str, Any]) -> None:
    """Raises what the worker found wrong."""
    if "error" in answer:
        says = str(answer.get("says", ""))[:_LONGEST]
        kind = _KINDS.get(str(answer["error"]))
        raise kind(says) if kind is not None else WorkerFailed(f"The data worker failed: {says}")


def facts(answer: Mapping[str, Any], size: int) -> PartFacts:
    """`size` is that of the file, which is what counts."""
    digest = answer.get("digest")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise _nonsense()
    return PartFacts(rows=number(answer, "rows"), size=size, schema=schema(answer), digest=digest, profile=profile(answer))


def profile(answer: Mapping[str, Any]) -> dict[str, Any]:
    """As a whole it is drawn and never acted upon: that it has columns with names is enough."""
    found = answer.get("profile")
    if not isinstance(found, dict):
        raise _nonsense()
    columns(found)
    return found


def columns(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = answer.get("columns")
    if not isinstance(found, list) or any(not isinstance(one, dict) or not isinstance(one.get("name"), str) for one in found):
        raise _nonsense()
    return found


def rows(answer: Mapping[str, Any], most: int) -> Rows:
    found, columns = answer.get("rows"), schema(answer)
    if not isinstance(found, list) or len(found) > most:
        raise _nonsense()
    if any(not isinstance(row, list) or len(row) != len(columns.columns) for row in found):
        raise _nonsense()
    return Rows(schema=columns, rows=tuple(tuple(row) for row in found), more=answer.get("more") is True)


def surveyed(answer: Mapping[str, Any], names: Sequence[str], *, ranks: int, kinds: int, sampled: int) -> dict[str, Surveyed]:
    """Of the columns that were asked about, in their order."""
    found = {one["name"]: one for one in columns(answer)}
    if [*found] != [*names]:
        raise _nonsense()
    told = {
        name: Surveyed(
            quantiles=tuple(_floats(one.get("quantiles"))),
            kinds=tuple(_texts(one.get("kinds"))),
            sampled=tuple(_values(one.get("sampled"))),
        )
        for name, one in found.items()
    }
    if any(
        len(one.quantiles) not in (0, ranks) or len(one.kinds) > kinds or len(one.sampled) > sampled for one in told.values()
    ):
        raise _nonsense()
    return told


def counted(answer: Mapping[str, Any], asked: Sequence[Bins]) -> dict[str, dict[str, tuple[int, ...]]]:
    found = {one["name"]: one.get("counts") for one in columns(answer)}
    if [*found] != [one.name for one in asked]:
        raise _nonsense()
    return {one.name: _counts(found[one.name], len(one.edges or one.kinds) + 2) for one in asked}


def _counts(found: Any, bins: int) -> dict[str, tuple[int, ...]]:
    if not isinstance(found, dict) or len(found) > _MOST_SLOTS:
        raise _nonsense()
    for slot, counts in found.items():
        if not isinstance(counts, list) or len(counts) != bins or len(slot) > _LONGEST_SLOT:
            raise _nonsense()
        if any(type(one) is not int or not 0 <= one < 1 << 53 for one in counts):
            raise _nonsense()
    return {slot: tuple(counts) for slot, counts in found.items()}


def _floats(found: Any) -> list[float]:
    if not isinstance(found, list) or any(type(one) not in (int, float) or not math.isfinite(one) for one in found):
        raise _nonsense()
    return [float(one) for one in found]


def _values(found: Any) -> list[Any]:
    if not isinstance(found, list) or any(one is not None and type(one) not in (int, float, str) for one in found):
        raise _nonsense()
    return found


def looked(answer: Mapping[str, Any]) -> Looked:
    outputs = answer.get("outputs")
    if outputs is not None and not isinstance(outputs, list):
        raise _nonsense()
    return Looked(
        tables=tuple(_texts(answer.get("tables"))),
        words=frozenset(_texts(answer.get("words"))),
        wide=answer.get("wide") is not False,
        stars=answer.get("stars") is not False,
        excluded=frozenset(_texts(answer.get("excluded"))),
        outputs=None if outputs is None else tuple(frozenset(_texts(one)) for one in outputs),
        known=answer.get("known") is True,
        changes=answer.get("changes") is not False,
    )


def _texts(found: Any) -> list[str]:
    if not isinstance(found, list) or any(not isinstance(one, str) for one in found):
        raise _nonsense()
    return found


def schema(answer: Mapping[str, Any]) -> Schema:
    try:
        found = heard_schema(answer["schema"])
        if any(
            type(one.name) is not str or type(one.type) is not str or type(one.nullable) is not bool for one in found.columns
        ):
            raise _nonsense()
        return checked(found)
    except (KeyError, TypeError, ValueError, Invalid):
        raise _nonsense() from None


def number(answer: Mapping[str, Any], name: str) -> int:
    found = answer.get(name)
    if type(found) is not int or not 0 <= found < 1 << 62:
        raise _nonsense()
    return found


def _nonsense() -> WorkerFailed:
    return WorkerFailed("The data worker said something that cannot be. What it read may be hostile.")
