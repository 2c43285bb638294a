"""Frozen values and the marks their fields may carry.

Requests and results are plain frozen dataclasses, so that a room declares them without a vendor; `api` and `client` read them
through pydantic, which finds the marks below by its own protocol.
"""

import dataclasses
import inspect
from functools import cache
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def value(cls: type[T]) -> type[T]:
    """A frozen, keyword-only dataclass with slots.

    What all of them can share is written here once, and `__init__` is compiled when the first one is made: dataclasses would
    generate and compile six methods for each of hundreds of classes, and the platform would start a fifth later.
    """
    if cls.__doc__ is None:
        cls.__doc__ = ""  # else one is made from the signature, which takes as long as the rest
    own = vars(cls)
    made: Any = dataclasses.dataclass(kw_only=True, slots=True, init=False, repr=False, eq=False)(cls)
    made.__value_fields__ = tuple([field.name for field in dataclasses.fields(made)])
    made.__signature__ = _Signature()
    methods = (_first_init(made), _repr, _eq, _hash, _setattr, _delattr, _getstate, _setstate)
    for method in methods:
        name = f"__{method.__name__.strip('_')}__"
        if name not in own:
            setattr(made, name, method)
    return made  # type: ignore[no-any-return]


def _first_init(cls: Any) -> Any:
    """Stands in for the `__init__` of a class of which nothing was made yet."""

    def _init(self: Any, /, *arguments: Any, **given: Any) -> None:
        cls.__init__ = _compiled_init(cls)
        cls.__init__(self, *arguments, **given)

    return _init


def _compiled_init(cls: Any) -> Any:
    """What dataclasses would have generated."""
    names: dict[str, Any] = {"_set_": object.__setattr__, "_missing_": dataclasses.MISSING}
    arguments, lines = [], ["    pass"]
    for field in dataclasses.fields(cls):
        name = argument = given = field.name
        if field.default is not dataclasses.MISSING:
            names[f"_default_{name}_"] = field.default
            argument = f"{name}=_default_{name}_"
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_factory_{name}_"] = field.default_factory
            argument = f"{name}=_missing_"
            given = f"_factory_{name}_() if {name} is _missing_ else {name}"
        arguments.append(argument)
        lines.append(f"    _set_(_self_, {name!r}, {given})")
    if hasattr(cls, "__post_init__"):
        lines.append("    _self_.__post_init__()")
    head = f"def __init__(_self_, {', '.join(['*', *arguments]) if arguments else ''}):"
    exec("\n".join([head, *lines]), names)  # nosec B102 - of our own field names alone, as dataclasses does
    made = names["__init__"]
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    return made


class _Signature:
    """What `help` and completion show of a value's class."""

    def __get__(self, instance: Any, owner: Any) -> inspect.Signature:
        if instance is not None:  # one that can be called has the signature of its own `__call__`
            raise AttributeError("__signature__")
        whole = inspect.signature(_compiled_init(owner))
        return whole.replace(parameters=list(whole.parameters.values())[1:])


def _fields_of(self: Any) -> tuple[Any, ...]:
    return tuple([getattr(self, name) for name in self.__value_fields__])


def _repr(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__value_fields__)
    return f"{type(self).__qualname__}({shown})"


def _eq(self: Any, other: Any) -> Any:
    return _fields_of(self) == _fields_of(other) if type(self) is type(other) else NotImplemented


def _hash(self: Any) -> int:
    return hash(_fields_of(self))


def _setattr(self: Any, name: str, new: Any) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> tuple[Any, ...]:
    return _fields_of(self)


def _setstate(self: Any, state: tuple[Any, ...]) -> None:
    for name, one in zip(self.__value_fields__, state, strict=True):
        object.__setattr__(self, name, one)


class Message:
    """Base of requests and results: unknown fields and wrong types are refused, nothing is coerced."""

    __slots__ = ()
    __pydantic_config__ = {"extra": "forbid", "strict": True, "ser_json_inf_nan": "strings"}


@value
class Nothing(Message):
    """A request without fields, or a result without any."""


# Postgres keeps no text with a NUL in it.
ANY_TEXT = r"^[^\x00]*$"
# By pattern, what its mark says: who finds a text wrong is told the pattern alone.
SAID_OF_PATTERNS: dict[str, str] = {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Text:
    """Limits of a string. `says` is the pattern in words for people, as a sentence about the field goes on: `must be ...`."""

    pattern: str | None = ANY_TEXT
    shortest: int = 0
    longest: int = 1000
    says: str = ""

    def __post_init__(self) -> None:
        if self.says and self.pattern is not None:
            SAID_OF_PATTERNS[self.pattern] = self.says

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


@cache
def marks(cls: type, field: str) -> tuple[Any, ...]:
    """The marks that a field's annotation carries, outermost first. Kept: whoever answers asks this of every field."""
    hint = get_type_hints(cls, include_extras=True)[field]
    return tuple(getattr(hint, "__metadata__", ()))
