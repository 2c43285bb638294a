"""From a form's fields to an operation's request, and what to say beside each field when that fails."""

import json
import re
import types
from functools import lru_cache
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from falaj.base.clock import Moment
from falaj.base.errors import FalajError, Invalid
from falaj.base.operation import Operation
from falaj.base.values import SAID_OF_PATTERNS, value
from falaj.web.bodies import Fields

_WITHOUT_ZONE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")


class Mistyped(Invalid):
    """Some fields are wrong; `fields` says which and why."""

    def __init__(self, fields: dict[str, str]) -> None:
        super().__init__("Something in this form needs another look.")
        self.fields = fields


def words_of(error: FalajError) -> str:
    """What to say of a mistake where there is no form to say it beside its fields."""
    return "; ".join(f"{field}: {text}" for field, text in error.fields.items()) if isinstance(error, Mistyped) else str(error)


@value
class FormState:
    """A form as a template draws it: what was typed, what was wrong with it, what came of it."""

    action: str
    key: str
    values: Fields
    problems: dict[str, str]
    problem: str = ""
    result: Any = None

    def text(self, field: str, otherwise: str = "") -> str:
        return self.values.get(field, [otherwise])[0]

    def chosen(self, field: str) -> list[str]:
        return self.values.get(field, [])

    @property
    def failed(self) -> bool:
        return bool(self.problem or self.problems)


def request_from(operation: Operation[Any, Any], fields: Fields, path: dict[str, str]) -> Any:
    """Blank fields are left out, so that defaults hold, except where leaving out would mean that the old text stays.

    Fields that start with `_` are the console's own.
    """
    wanted: Any = operation.request
    kinds = _kinds(wanted)
    document: dict[str, Any] = {}
    for name, texts in fields.items():
        kind = kinds.get(name, "text")
        if not name.startswith("_") and ((said := _said(kind, texts)) or kind == "clearable"):
            document[name] = said  # one that the request does not have is refused by name
    return checked(operation, document | {name: text for name, text in path.items() if name in kinds})


def checked(operation: Operation[Any, Any], document: dict[str, Any]) -> Any:
    """The request that a document describes, held against the request's marks; numbers may be texts."""
    return read_message(operation.request, document)


def read_message(kind: Any, document: dict[str, Any]) -> Any:
    """The same for a message that is a part of a request."""
    try:
        return _adapter(kind).validate_json(json.dumps(document), strict=False)
    except ValidationError as error:
        raise Mistyped(_problems(error)) from None


def _said(kind: str, texts: list[str]) -> str | list[str]:
    if kind == "tuple":
        return [word for text in texts for word in re.split(r"[\s,]+", text) if word]
    text = texts[-1]
    return f"{text}Z" if kind == "moment" and _WITHOUT_ZONE.fullmatch(text) else text


@lru_cache(maxsize=1024)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@lru_cache(maxsize=1024)
def _kinds(request: Any) -> dict[str, str]:
    return {name: _kind(hint) for name, hint in get_type_hints(request, include_extras=True).items()}


def _kind(hint: Any) -> str:
    """`tuple`, `moment`, `clearable` (a text that may be None, which means: leave it) or `text`; looks through marks."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _kind(parts[0])
    if origin in (Union, types.UnionType):
        plain = {get_args(part)[0] if get_origin(part) is Annotated else part for part in parts}
        return "clearable" if plain == {str, types.NoneType} else next(map(_kind, plain - {types.NoneType}))
    return "tuple" if origin is tuple else "moment" if hint is Moment else "text"


def _problems(error: ValidationError) -> dict[str, str]:
    problems: dict[str, str] = {}
    for entry in error.errors(include_url=False, include_input=False)[:20]:
        field = str(entry["loc"][0]) if entry["loc"] else "_form"
        problems.setdefault(field, _sentence(entry))  # type: ignore[arg-type]
    return problems


def _sentence(entry: dict[str, Any]) -> str:
    """Pydantic's finding in the words of a person who filled in a form."""
    limits = entry.get("ctx", {})
    match entry["type"]:
        case "missing" | "missing_argument":
            return "Please fill this in."
        case "string_pattern_mismatch" if limits.get("pattern", "").startswith(
            ("^[a-z0-9][a-z0-9._-]", "^([a-z0-9][a-z0-9._-]")
        ):
            return "Use small letters, digits, dots, dashes and underscores, beginning with a letter or digit; at most 100."
        case "string_pattern_mismatch" if limits.get("pattern") == "^[A-Z]{2}$":
            return "Two capital letters, for example AE."
        case "string_pattern_mismatch" if said := SAID_OF_PATTERNS.get(limits.get("pattern", "")):
            return f"This {said}."
        case "string_too_long":
            return f"At most {limits['max_length']} characters."
        case "too_short":
            return f"Choose at least {limits['min_length']}."
        case "extra_forbidden" | "unexpected_keyword_argument":
            return "This form has no such field."
        case _:
            return f"{str(entry['msg'])[:200]}."
