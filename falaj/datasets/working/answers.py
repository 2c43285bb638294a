"""What data workers say, held against what it can be: they read what anybody sends, so nothing is believed."""

import re
from collections.abc import Mapping
from typing import Any, Final

from falaj.base.errors import Conflict, FalajError, Forbidden, Invalid, NotFound, TooLarge
from falaj.datasets.working.errors import WorkerFailed
from falaj.tables.errors import Altered, LibraryMissing
from falaj.tables.orders import Looked, PartFacts, Rows
from falaj.tables.schemas import Schema, checked
from falaj.tables.telling import heard_schema

_KINDS: Final[Mapping[str, type[FalajError]]] = {
    kind.__name__: kind for kind in (Invalid, TooLarge, Altered, Conflict, NotFound, LibraryMissing)
} | {"OutOfTime": WorkerFailed, "Forbidden": Forbidden}
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_LONGEST: Final = 4000


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
