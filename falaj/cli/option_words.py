"""Values held against their declaration before they leave, so that what is wrong is told by the option that gave it."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from falaj.base.errors import Invalid
from falaj.wire.wording import in_words

T = TypeVar("T")


def held_to(kind: type[T], given: T, options: Mapping[str, str]) -> T:
    """`options` names those that are called otherwise than their field: by the field, or by `field.part` of it."""
    adapter = TypeAdapter(kind)
    try:
        return adapter.validate_json(adapter.dump_json(given, warnings=False))
    except ValidationError as error:
        first: dict[str, Any] = dict(error.errors(include_url=False)[0])
        words = in_words(first) or first["msg"]
        raise Invalid(f"{_option(first['loc'], options)} {words}, and is {first['input']!r}.") from None


def _option(place: tuple[int | str, ...], options: Mapping[str, str]) -> str:
    names = [part for part in place if isinstance(part, str)]
    for end in range(len(names), 0, -1):
        if (known := options.get(".".join(names[:end]))) is not None:
            return known
    return f"--{names[-1].replace('_', '-')}"
