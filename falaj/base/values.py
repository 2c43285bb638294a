"""Frozen values and the marks their fields may carry.

Requests and results are plain frozen dataclasses, so that a room declares them without a vendor; `api` and `client` read them
through pydantic, which finds the marks below by its own protocol.
"""

import dataclasses
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """A frozen, keyword-only dataclass.

    What all of them can share is written here once: dataclasses would generate and compile it for each of hundreds of classes,
    and the platform would start a tenth later.
    """
    if cls.__doc__ is None:
        cls.__doc__ = ""  # else one is made from the signature, which takes as long as the rest
    own = vars(cls)
    made: Any = dataclasses.dataclass(frozen=True, kw_only=True, slots=True, repr=False, eq=False)(cls)
    names = tuple(field.name for field in dataclasses.fields(made))
    made.__value_fields__ = names
    for method in (_repr, _eq, _hash):
        name = f"__{method.__name__.strip('_')}__"
        if name not in own:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _fields_of(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__value_fields__])


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__value_fields__)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    return _fields_of(self) == _fields_of(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_fields_of(self))


class Message:
    """Base of requests and results: unknown fields and wrong types are refused, nothing is coerced."""

    __slots__ = ()
    __pydantic_config__ = {"extra": "forbid", "strict": True, "ser_json_inf_nan": "strings"}


@value
class Nothing(Message):
    """A request without fields, or a result without any."""


# Postgres keeps no text with a NUL in it.
ANY_TEXT = r"^[^\x00]*$"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text:
    """Limits of a string."""

    pattern: str | None = ANY_TEXT
    shortest: int = 0
    longest: int = 1000

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        limits = {"pattern": self.pattern, "min_length": self.shortest, "max_length": self.longest}
        return handler(source) | {name: limit for name, limit in limits.items() if limit is not None}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Range:
    """Limits of a number, both included."""

    least: int
    most: int

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler(source) | {"ge": self.least, "le": self.most}


class AnyNumber:
    """Mark of a float that need not be finite. JSON has no such numbers: they come as `"NaN"`, `"Infinity"`, `"-Infinity"`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        words = {"type": "literal", "expected": ["NaN", "Infinity", "-Infinity"]}
        spelled = {"type": "function-after", "function": {"type": "no-info", "function": float}, "schema": words}
        number = handler(source)
        return {"type": "union", "mode": "left_to_right", "choices": [number, spelled], "serialization": number}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Items:
    """Limits of a tuple's length. Reading ends at the first item that is wrong: a megabyte of wrong ones takes seconds."""

    least: int = 0
    most: int = 100

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler(source) | {"min_length": self.least, "max_length": self.most, "fail_fast": True}


class Personal:
    """Mark of a field that may name or describe a person: it enters the ledger as a salted commitment."""


class Secret:
    """Mark of a field that never enters the ledger or a log in any form."""


NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,99}$"
NAME_OR_NONE_PATTERN = r"^([a-z0-9][a-z0-9._-]{0,99})?$"
ID_PATTERN = r"^[0-9a-f]{32}$"

Name = Annotated[str, Text(pattern=NAME_PATTERN, longest=100)]
NameOrNone = Annotated[str, Text(pattern=NAME_OR_NONE_PATTERN, longest=100)]
Id = Annotated[str, Text(pattern=ID_PATTERN, longest=32)]
Note = Annotated[str, Text(longest=2000), Personal()]
Number = Annotated[float, AnyNumber()]


def marks(cls: type, field: str) -> tuple[Any, ...]:
    """The marks that a field's annotation carries, outermost first."""
    hint = get_type_hints(cls, include_extras=True)[field]
    return tuple(getattr(hint, "__metadata__", ()))
