"""Reading what MLflow clients send: as tolerant as MLflow's own server, and into one value per endpoint.

int64 may come as a number or a text, doubles also as `NaN` and `Infinity`, unknown fields are ignored, null is left out.
A GET's fields travel in the query, where lists are repeated keys.
"""

from functools import cache
from typing import Any, TypeVar, dataclass_transform, get_origin, get_type_hints
from urllib.parse import parse_qsl

from pydantic import ValidationError
from pydantic_core import from_json

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.operations.messages import adapter
from falaj.wire.wording import MISSING, wrong_fields

T = TypeVar("T")
MOST_QUERY_FIELDS = 2000


@dataclass_transform(frozen_default=True, kw_only_default=True)
def body(cls: type[T]) -> type[T]:
    """The fields an endpoint understands, under MLflow's names. They may hold values of operations, limits and all."""
    return value(cls)


@body
class Empty:
    """The body of an endpoint that has no fields, or none that say anything."""


def from_body(kind: type[T], content: bytes) -> T:
    """Straight from the bytes where that works; null is rare enough to look for it only when it does not."""
    if not content:
        return _from_fields(kind, {})
    try:
        return adapter(kind).validate_json(content, strict=False, extra="ignore")  # type: ignore[no-any-return]
    except ValidationError:
        pass
    try:
        document = from_json(content)
    except ValueError as error:
        raise Invalid(f"The body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise Invalid("The body must be a JSON object.")
    return _from_fields(kind, _without_nulls(document))


def from_query(kind: type[T], query: bytes) -> T:
    if not query:
        return _from_fields(kind, {})
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MOST_QUERY_FIELDS)
    except (UnicodeError, ValueError):
        raise Invalid("The query is not well-formed: write ?name=value&name=value, in UTF-8, percent-encoded.") from None
    lists = _lists_of(kind)  # type: ignore[arg-type]
    fields: dict[str, Any] = {}
    for name, text in pairs:
        if name in lists:
            fields.setdefault(name, []).append(text)
        else:
            fields[name] = text
    return _from_fields(kind, fields)


def _from_fields(kind: type[T], fields: dict[str, Any]) -> T:
    try:
        return adapter(kind).validate_python(fields, strict=False, extra="ignore")  # type: ignore[no-any-return]
    except ValidationError as error:
        raise Invalid(explain(error)) from None


@cache
def _lists_of(kind: Any) -> frozenset[str]:
    return frozenset(name for name, hint in get_type_hints(kind).items() if get_origin(hint) is tuple)


def _without_nulls(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: _without_nulls(entry) for name, entry in document.items() if entry is not None}
    if isinstance(document, list):
        return [_without_nulls(entry) for entry in document]
    return document


def explain(error: ValidationError) -> str:
    return " ".join(_sentence(field, words) for field, words in wrong_fields(error))


def _sentence(field: str, words: str) -> str:
    """As MLflow's server begins it."""
    if words == MISSING:
        return f"Missing value for required parameter '{field}'."
    return f"Invalid value for parameter '{field}': it {words}."
