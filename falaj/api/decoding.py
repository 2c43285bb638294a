"""From the wire to a typed request, strictly: duplicate keys, unknown fields, wrong types and odd encodings are all refused."""

import json
import re
from functools import cache
from typing import Any, get_args, get_type_hints
from urllib.parse import parse_qsl

from pydantic import ValidationError

from falaj.base.errors import Invalid
from falaj.base.operation import Operation
from falaj.operations.messages import adapter
from falaj.wire.wording import wrong_fields

MOST_QUERY_FIELDS = 50
INTEGER = r"-?(0|[1-9][0-9]*)"
LONGEST_INTEGER = 20
BOOLEAN = r"true|false"


def request_of(operation: Operation[Any, Any], path: dict[str, str], query: bytes, body: bytes | None) -> Any:
    """Build the operation's request. `body` is None where the fields travel in the query."""
    fields = _query_fields(query)
    if body is not None:
        if fields:
            raise Invalid(f"{operation.name} takes its fields in the JSON body, not in the query: {sorted(fields)}")
        fields = _json_object(body)
    if doubled := fields.keys() & path.keys():
        raise Invalid(f"Said twice, in the path and beside it: {sorted(doubled)}")
    try:
        if body is None:
            fields |= path
            _check_spelling(operation.request, fields)
            return adapter(operation.request).validate_strings(fields, strict=False)
        fields |= _of_path(operation.request, path)
        return adapter(operation.request).validate_json(json.dumps(fields))
    except ValidationError as error:
        raise Invalid(_explain(error)) from None


def _check_spelling(kind: type, fields: dict[str, Any]) -> None:
    """In a query all is text, and pydantic would read ` 1_0.0` as ten and `off` as no: only the plain spelling counts."""
    for name, spelling in _spellings(kind).items():
        if name in fields and not re.fullmatch(spelling, fields[name]):
            raise Invalid(
                f"{name}: write it like {'true or false' if spelling == BOOLEAN else '1 or -1'}, without anything around it."
            )


def _of_path(kind: type, path: dict[str, str]) -> dict[str, Any]:
    """Fields of a path beside a body: there numbers are numbers, in a path they are text. Longer ones fit nowhere."""
    _check_spelling(kind, path)
    numbers = {name for name, spelling in _spellings(kind).items() if spelling == INTEGER}
    return {name: int(text) if name in numbers and len(text) <= LONGEST_INTEGER else text for name, text in path.items()}


@cache
def _spellings(kind: type) -> dict[str, str]:
    found = {}
    for name, hint in get_type_hints(kind).items():
        kinds = {hint, *get_args(hint)}
        if spelling := INTEGER if int in kinds else BOOLEAN if bool in kinds else "":
            found[name] = spelling
    return found


def _query_fields(query: bytes) -> dict[str, Any]:
    if not query:
        return {}
    try:
        pairs = parse_qsl(
            query.decode("ascii"),
            keep_blank_values=True,
            strict_parsing=True,
            errors="strict",
            max_num_fields=MOST_QUERY_FIELDS,
        )
    except (UnicodeError, ValueError):
        raise Invalid("The query is not well-formed: write ?name=value&name=value, in UTF-8, percent-encoded.") from None
    return _without_duplicates(pairs)


def _json_object(body: bytes) -> dict[str, Any]:
    if not body:
        return {}
    try:
        document = json.loads(body.decode("utf-8"), object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except UnicodeDecodeError:
        raise Invalid("The body is not UTF-8.") from None
    except RecursionError:
        raise Invalid("The body is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise Invalid(f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from None
    except ValueError as error:
        raise Invalid(f"The body is not acceptable JSON: {error}") from None
    if not isinstance(document, dict):
        raise Invalid("The body must be a JSON object.")
    return document


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        names = [name for name, _ in pairs]
        raise Invalid(f"Said more than once: {sorted({name for name in names if names.count(name) > 1})[:5]}")
    return fields


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _explain(error: ValidationError) -> str:
    return "; ".join(f"{field or 'the request'} {words}" for field, words in wrong_fields(error))
