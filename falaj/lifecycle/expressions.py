"""What arguments refer to, and what comes of it: the only place that reads `{"$": ...}`. Pure."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from falaj.base.errors import Invalid, PermanentError
from falaj.base.values import value
from falaj.lifecycle.operations.words import OPERATORS
from falaj.lifecycle.writing import check

MARK: Final = "$"
EACH: Final = "*"  # of a list, in the place of a number
MOST_WORK: Final = 1_000_000
_DEEPEST: Final = 30
_PLACE: Final = r"-?[0-9]{1,9}"  # in a list
_OF_TWO: Final = ("==", "!=", "<", "<=", ">", ">=", "in")
_ROOTS: Final = ("parameters", "steps", "item", "run", "trigger", "called", "answer")


class Unresolved(PermanentError):
    """What an argument refers to is not there, or is not of a kind that this could be done with."""


@value
class Reference:
    """`path` begins with one of the roots. `optional`: what it speaks of may have been skipped."""

    path: tuple[str, ...]
    optional: bool = False

    @property
    def step(self) -> str:
        return self.path[1] if self.path[0] == "steps" and len(self.path) > 1 else ""


def references(given: Any) -> Iterator[Reference]:
    """All that it speaks of. Raises `Invalid` where it is not written as it has to be."""
    yield from _references(given, optional=False, depth=0)


def _references(given: Any, *, optional: bool, depth: int) -> Iterator[Reference]:
    if depth > _DEEPEST:
        raise Invalid(f"Arguments may be nested {_DEEPEST} deep at most.")
    if isinstance(given, Mapping):
        if MARK in given:
            inside = _parts(given)
            if isinstance(inside, Reference):
                yield Reference(path=inside.path, optional=optional)
                return
            for one in inside:
                yield from _references(one, optional=optional or given[MARK] == "first", depth=depth + 1)
            return
        given = list(given.values())
    if isinstance(given, list | tuple):
        for one in given:
            yield from _references(one, optional=optional, depth=depth + 1)


class Work:
    """How much is worked out at once: a short definition could ask for hours of it, while all other runs wait."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_WORK

    @property
    def done(self) -> int:
        return MOST_WORK - self.left

    def take(self, much: int) -> None:
        self.left -= much
        if self.left < 0:
            raise Unresolved("That is too much to be worked out: do it in a step with a function.")


def resolve(given: Any, scope: Mapping[str, Any], work: Work | None = None) -> Any:
    """The same with everything in its place. `scope` has the roots; of `steps`, those that were skipped are not there."""
    return _resolved(given, scope, work or Work())


def _resolved(given: Any, scope: Mapping[str, Any], work: Work) -> Any:
    work.take(1)
    if isinstance(given, Mapping):
        if MARK in given:
            inside = _parts(given)
            return _found(inside, scope, work) if isinstance(inside, Reference) else _computed(given[MARK], inside, scope, work)
        return {name: _resolved(one, scope, work) for name, one in given.items()}
    if isinstance(given, list | tuple):
        return [_resolved(one, scope, work) for one in given]
    return given


def _parts(given: Mapping[str, Any]) -> "Reference | list[Any]":
    mark, of = given[MARK], given.get("of")
    if mark in OPERATORS:
        wanted = 2 if mark in _OF_TWO else 1 if mark in ("not", "count") else None
        if set(given) != {MARK, "of"} or not isinstance(of, list) or (wanted is not None and len(of) != wanted) or not of:
            many = "some values" if wanted is None else "one value" if wanted == 1 else "two values"
            raise Invalid(f"{mark!r} takes {many}, written as a list: {{'$': {mark!r}, 'of': [...]}}.")
        return of
    path = tuple(mark.split(".")) if isinstance(mark, str) and len(mark) <= 1000 else ()
    if set(given) != {MARK} or not path or path[0] not in _ROOTS or not all(path):
        raise Invalid(f"{str(mark)[:100]!r} is neither a way such as steps.train.version nor one of {', '.join(OPERATORS)}.")
    return Reference(path=path)


def _found(reference: Reference, scope: Mapping[str, Any], work: Work) -> Any:
    return _at(scope, list(reference.path), ".".join(reference.path), work)


def _at(at: Any, parts: list[str], whole: str, work: Work) -> Any:
    """By its parts, the longest first where a name has dots of its own; `*` is each of a list."""
    while parts:
        work.take(len(parts))
        if isinstance(at, Mapping):
            taken = next((count for count in range(len(parts), 0, -1) if ".".join(parts[:count]) in at), 0)
            if not taken:
                break
            at, parts = at[".".join(parts[:taken])], parts[taken:]
        elif isinstance(at, list | tuple) and parts[0] == EACH:
            work.take(len(at))
            return [_at(one, parts[1:], whole, work) for one in at]
        elif isinstance(at, list | tuple) and re.fullmatch(_PLACE, parts[0]) and -len(at) <= int(parts[0]) < len(at):
            at, parts = at[int(parts[0])], parts[1:]
        else:
            break
    if parts:
        raise Unresolved(f"There is no {whole}: what stands before {parts[0]!r} has none.")
    return at


def _computed(operator: str, of: list[Any], scope: Mapping[str, Any], work: Work) -> Any:
    if operator == "first":
        return _first(of, scope, work)
    if operator in ("and", "or"):
        stops = operator == "or"
        return next((stops for one in of if bool(_resolved(one, scope, work)) is stops), not stops)
    values = [_resolved(one, scope, work) for one in of]
    if operator == "text":
        return _text(values, work)
    if operator == "not":
        return not values[0]
    if operator != "count":
        work.take(sum(map(_size, values)))
    try:
        return _of_values(operator, values)
    except TypeError:
        kinds = " and ".join(type(one).__name__ for one in values)
        raise Unresolved(f"{operator!r} cannot be done with {kinds}.") from None


def _text(values: list[Any], work: Work) -> str:
    check(values)
    made = "".join(one if isinstance(one, str) else json.dumps(one) for one in values)
    work.take(len(made) // 4)
    return made


def _size(given: Any) -> int:
    """As it matters for comparing: of how many it is made."""
    size, open_ = 0, [given]
    while open_ and size <= MOST_WORK:
        one = open_.pop()
        if isinstance(one, Mapping | list | tuple):
            size += len(one)
            open_ += one.values() if isinstance(one, Mapping) else one
    return size


def _of_values(operator: str, values: list[Any]) -> Any:
    left, right = values[0], values[-1]
    match operator:
        case "count":
            return len(left)
        case "==":
            return left == right
        case "!=":
            return left != right
        case "in":
            return left in right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right


def _first(of: list[Any], scope: Mapping[str, Any], work: Work) -> Any:
    """Of whatever was not skipped."""
    for one in of:
        if all(not found.step or found.step in scope["steps"] for found in references(one)):
            return _resolved(one, scope, work)
    raise Unresolved("None of those that it takes the first of is there: all were skipped.")
