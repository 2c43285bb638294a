"""What may be tried: parameters and the values each may have, as people write them and as studies keep them."""

import itertools
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from falaj.base.errors import Invalid
from falaj.base.values import value

Chosen: TypeAlias = float | int | str
Params: TypeAlias = dict[str, Chosen]
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_NUMBER: Final = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_RANGE: Final = re.compile(rf"(log:)?({_NUMBER})\.\.({_NUMBER})(?::({_NUMBER}))?")
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_MOST_CHOICES: Final = 1000
_RANGES: tuple[str, ...] = ("int", "float")
_MOST: Final = sys.float_info.max
_MOST_WHOLE: Final = 2**53  # beyond, a float does not hold every whole number
MOST_POINTS: Final = 100_000  # of a grid
EXAMPLES: Final = "write it like lr=log:1e-5..1e-1, layers=1..4, width=32..256:32 or act=relu,tanh"


@value
class Dimension:
    """A parameter. `choice` has `choices`; the others go from `low` to `high`, both included; `step` 0 is none."""

    name: str
    kind: Literal["float", "int", "choice"]
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    step: float = 0.0
    choices: tuple[Chosen, ...] = ()

    def read(self, text: str) -> Chosen | None:
        """A value as it was written down; None where it is none of this space."""
        if self.kind == "choice":
            return next((choice for choice in self.choices if str(choice) == text), None)
        try:
            number = int(text) if self.kind == "int" else float(text)
        except ValueError:
            return None
        return number if self.low <= number <= self.high else None

    def points(self) -> tuple[Chosen, ...]:
        """Every value, in order. Raises `Invalid` where there are infinitely many."""
        if self.kind == "choice":
            return self.choices
        if not self.step and self.kind == "float":
            raise Invalid(
                f"A grid tries every value, and {self.name} has no end of them: say a step, as in "
                f"{self.name}={self.low:g}..{self.high:g}:{(self.high - self.low) / 4:g}, or the values themselves."
            )
        step = self.step or 1
        apart = (self.high - self.low) / step
        if apart >= MOST_POINTS:
            raise Invalid(f"{self.name} has over {MOST_POINTS:,} values, more than any grid; say a larger step.")
        count = math.floor(apart + 1e-9) + 1
        numbers = [self.low + place * step for place in range(count)]
        return tuple(int(number) for number in numbers) if self.kind == "int" else tuple(numbers)

    def told(self) -> str:
        """As it would be written to mean this."""
        if self.kind == "choice":
            return ",".join(map(str, self.choices))
        ends = f"{self.low!r}..{self.high!r}" if self.kind == "float" else f"{int(self.low)}..{int(self.high)}"
        return ("log:" if self.log else "") + ends + (f":{self.step:g}" if self.step else "")


Space: TypeAlias = tuple[Dimension, ...]


def read_space(given: Mapping[str, str | Sequence[Any]]) -> Space:
    """Texts are ranges or choices as people write them; lists are choices."""
    if not given:
        raise Invalid(f"Nothing is to be searched: say what may be set, {EXAMPLES}.")
    space = tuple(_dimension(name, wanted) for name, wanted in given.items())
    if len(fixed(space)) == len(space):
        said = ", ".join(f"{one.name}={one.told()}" for one in space)
        raise Invalid(f"Nothing is to be searched: {said} leaves one trial and no other. Say what may be tried; {EXAMPLES}.")
    return space


def fixed(space: Space) -> list[Dimension]:
    """Those with one value alone, which are given and not searched."""
    return [one for one in space if one.kind == "choice" and len(one.choices) == 1]


def _dimension(name: str, wanted: str | Sequence[Any]) -> Dimension:
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name!r} is no name of a parameter; {EXAMPLES}.")
    if not isinstance(wanted, str):
        return _choices(name, tuple(wanted))
    text = wanted.strip()
    if found := _RANGE.fullmatch(text):
        return _range(name, text, *found.groups())
    if ".." in text or text.startswith("log:"):
        raise Invalid(f"{name}={text} is no range; {EXAMPLES}.")
    return _choices(name, tuple(_word(part.strip()) for part in text.split(",")))


def _range(name: str, text: str, log: str | None, low: str, high: str, step: str | None) -> Dimension:
    whole = all(_WHOLE.fullmatch(part) for part in (low, high, step or "1"))
    least, most, apart = float(low), float(high), float(step or 0)
    if not all(map(math.isfinite, (least, most, apart))):
        raise Invalid(f"{name}={text} goes beyond all numbers; say smaller ends.")
    if whole and max(abs(least), abs(most)) > _MOST_WHOLE:
        raise Invalid(f"{name}={text} goes beyond the whole numbers that can be searched; end it below {_MOST_WHOLE:,}.")
    if least >= most:
        raise Invalid(f"{name}={text} is empty: {low} is not below {high}. One value alone is written {name}={low}.")
    if log and least <= 0:
        raise Invalid(f"{name}={text} cannot be logarithmic: {low} has no logarithm. Begin above 0.")
    if log and step:
        raise Invalid(f"{name}={text} is logarithmic and has a step; leave one of them out.")
    if step is not None and not 0 < apart <= most - least:
        raise Invalid(f"{name}={text} has steps of {step}; they are above 0 and no longer than the range.")
    kind: Literal["int", "float"] = "int" if whole else "float"
    return Dimension(name=name, kind=kind, low=least, high=most, log=bool(log), step=apart)


def _choices(name: str, choices: tuple[Any, ...]) -> Dimension:
    if not choices or "" in choices:
        raise Invalid(f"{name} has an empty choice; {EXAMPLES}.")
    if not all(isinstance(choice, str | float | bool) or is_number(choice) for choice in choices):
        raise Invalid(f"The choices of {name} are to be texts or numbers.")
    if len({str(choice) for choice in choices}) < len(choices):
        raise Invalid(f"{name} has a choice twice: {', '.join(map(str, choices))}.")
    if len(choices) > _MOST_CHOICES:
        raise Invalid(f"{name} has {len(choices)} choices; {_MOST_CHOICES} are possible.")
    return Dimension(name=name, kind="choice", choices=choices)


def _word(text: str) -> Chosen:
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if re.fullmatch(_NUMBER, text) else text


def read_params(space: Space, texts: Mapping[str, str]) -> Params | None:
    """The parameters of a trial as they were written down; None where one is missing or lies outside."""
    found = {one.name: one.read(texts[one.name]) for one in space if one.name in texts}
    known = {name: chosen for name, chosen in found.items() if chosen is not None}
    return known if len(known) == len(space) else None


def example(space: Space) -> Params:
    """Some point of it."""
    ends: dict[str, Chosen] = {one.name: int(one.low) if one.kind == "int" else one.low for one in space}
    return ends | {one.name: one.choices[0] for one in space if one.kind == "choice"}


def written(chosen: Chosen) -> str:
    """So that reading it gives the same number again."""
    return repr(chosen) if isinstance(chosen, float) else str(chosen)


def grid_size(space: Space) -> int:
    size = math.prod(len(one.points()) for one in space)
    if size > MOST_POINTS:
        raise Invalid(f"This grid has {size:,} points; {MOST_POINTS:,} are possible. Say larger steps, or another sampler.")
    return size


def grid(space: Space) -> Iterator[Params]:
    """Every combination; the last parameter changes fastest."""
    for chosen in itertools.product(*(one.points() for one in space)):
        yield dict(zip((one.name for one in space), chosen, strict=True))


def as_document(space: Space) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "kind": one.kind, "choices": list(one.choices)}
        if one.kind == "choice"
        else {"name": one.name, "kind": one.kind, "low": one.low, "high": one.high, "log": one.log, "step": one.step}
        for one in space
    ]


def from_document(document: Sequence[Mapping[str, Any]]) -> Space:
    """Raises whatever comes of a document that says no space: others than those who wrote it may have changed it."""
    return tuple(_checked(Dimension(**{**one, "choices": tuple(one.get("choices", ()))})) for one in document)


def _checked(one: Dimension) -> Dimension:
    """Held against what people may write."""
    if not _NAME.fullmatch(one.name):
        raise Invalid(f"{one.name!r} is no name of a parameter.")
    if one.kind == "choice":
        return _choices(one.name, one.choices)
    said: Any = one  # as a document has it, which may be anything
    numbers = all(map(is_number, _numbers(one)))
    if said.kind not in _RANGES or type(said.log) is not bool or not numbers:
        raise Invalid(f"{one.name} is neither a range nor a choice.")
    if one.low >= one.high or one.step < 0 or (one.log and one.low <= 0):
        raise Invalid(f"{one.name} is an empty range.")
    if one.step > one.high - one.low or (one.log and one.step):
        raise Invalid(f"{one.name} has a step that is none of its range's.")
    if one.kind == "int" and not all(float(each).is_integer() and abs(each) <= _MOST_WHOLE for each in _numbers(one)):
        raise Invalid(f"{one.name} is of whole numbers, and says others.")
    return one


def _numbers(one: Dimension) -> tuple[float, float, float]:
    return one.low, one.high, one.step


def is_number(said: object) -> bool:
    """A finite one, as JSON has it: not true or false, and none that a float cannot hold."""
    return type(said) in (int, float) and -_MOST <= said <= _MOST  # type: ignore[operator]
