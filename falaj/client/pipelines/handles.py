"""What stands in a pipeline, while it is written down, for all that is known only once it runs: references, and conditions made
of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from falaj.client.pipelines.kinds import PARTS, THINGS, goes_for, plain, told
from falaj.client.pipelines.places import Place, here, wrong
from falaj.lifecycle.expressions import MARK
from falaj.lifecycle.operations.words import Kind

_ORDERED: Final = ("<", "<=", ">", ">=")


class Handle:
    """Its attributes and items are handles of what is in it; comparisons of it, joined by `&`, `|` and `~`, are conditions."""

    __slots__ = ("_kind",)
    _kind: Kind

    def __getattr__(self, name: str) -> Handle:
        if name.startswith("_"):
            raise AttributeError(name)
        known = PARTS.get(self._kind)
        if known is not None and name not in known:
            raise wrong(
                f"{told(self._kind)} has {_listed(known)}, and no {name!r}; [{name!r}] takes it as the platform has it."
            )
        if known is None and self._kind != "any":
            raise wrong(f"{self!r} is {told(self._kind)}, which has no {name!r}.")
        return self._part(name, "any" if known is None else known[name])

    def __getitem__(self, key: Any) -> Handle:
        if not isinstance(key, str | int):
            raise wrong(f"{self!r}[{key!r}]: one part of it is taken by its name or its number.")
        if self._kind not in ("any", "list", *THINGS):
            raise wrong(f"{self!r} is {told(self._kind)}, which has no parts.")
        return self._part(str(key), self._item_kind() if isinstance(key, int) else "any")

    def _part(self, name: str, kind: Kind) -> Handle:
        raise wrong(f"{self!r} has no parts that could be named before it is known.")

    def _item_kind(self) -> Kind:
        return "any"

    def _written(self) -> Any:
        raise NotImplementedError

    def __eq__(self, other: object) -> Handle:  # type: ignore[override]
        return Combined("==", (self, other))

    def __ne__(self, other: object) -> Handle:  # type: ignore[override]
        return Combined("!=", (self, other))

    def __lt__(self, other: object) -> Handle:
        return Combined("<", (self, other))

    def __le__(self, other: object) -> Handle:
        return Combined("<=", (self, other))

    def __gt__(self, other: object) -> Handle:
        return Combined(">", (self, other))

    def __ge__(self, other: object) -> Handle:
        return Combined(">=", (self, other))

    def __and__(self, other: object) -> Handle:
        return Combined("and", (self, other))

    def __or__(self, other: object) -> Handle:
        return Combined("or", (self, other))

    __rand__, __ror__ = __and__, __or__

    def __invert__(self) -> Handle:
        return Combined("not", (self,))

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise wrong(
            f"{self!r} is known only once the pipeline runs, so that `if`, `and`, `or` and `not` cannot ask for it: write "
            "`with falaj.when(...):`, and join conditions by &, | and ~, each in brackets."
        )

    def __len__(self) -> NoReturn:
        raise wrong(f"How many there are in {self!r} is known only once the pipeline runs: falaj.count(...) stands for it.")

    def __iter__(self) -> NoReturn:
        raise wrong(
            f"What is in {self!r} is known only once the pipeline runs: falaj.each(step, ...) does a step for each of it."
        )

    def __contains__(self, _: object) -> NoReturn:
        raise wrong(f"What is in {self!r} is known only once the pipeline runs: falaj.among(one, ...) is the condition.")

    def __format__(self, _: str) -> NoReturn:
        raise wrong(
            f"{self!r} is known only once the pipeline runs, so that no text can hold it yet: falaj.text(...) joins both."
        )

    def __setattr__(self, name: str, given: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, given)
            return
        raise wrong(f"{self!r} is what a step hands on, which nobody can change.")

    def _not_here(self, *_: object) -> NoReturn:
        raise wrong(f"{self!r} is known only once the pipeline runs: compute with it in a step.")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = __call__ = _not_here


class Parameter(Handle):
    """What whoever starts a run says. `path` is of a part of it."""

    __slots__ = ("_name", "_path")

    def __init__(self, name: str, kind: Kind, path: tuple[str, ...] = ()) -> None:
        self._name, self._kind, self._path = name, kind, path

    def __repr__(self) -> str:
        return ".".join((self._name, *self._path))

    def _part(self, name: str, kind: Kind) -> Handle:
        return Parameter(self._name, kind, (*self._path, name))

    def _written(self) -> Any:
        return {MARK: ".".join(("parameters", self._name, *self._path))}


class Root(Handle):
    """`item`, `called`, `answer`: what there is within a step."""

    __slots__ = ("_path",)

    def __init__(self, path: tuple[str, ...], kind: Kind = "any") -> None:
        self._path, self._kind = path, kind

    def __repr__(self) -> str:
        return ".".join(self._path)

    def _part(self, name: str, kind: Kind) -> Handle:
        return Root((*self._path, name), kind)

    def _written(self) -> Any:
        return {MARK: ".".join(self._path)}


@dataclass(eq=False)
class Recorded:
    """A step while its pipeline is written down: it may still be called otherwise, or come after others."""

    name: str
    kind: str
    result: Kind
    place: Place
    arguments: dict[str, Any] = field(default_factory=dict)
    after: list[Recorded] = field(default_factory=list)
    held: list[Recorded] = field(default_factory=list)  # approvals and waits that are written above it
    when: list[Any] = field(default_factory=list)
    each: Any = None
    until: Any = None
    named: Place | None = None
    more: dict[str, Any] = field(default_factory=dict)  # further fields of the step, as it is declared


class Made(Handle):
    """What a step hands on."""

    __slots__ = ("_path", "_recorded")

    def __init__(self, recorded: Recorded, kind: Kind, path: tuple[str, ...] = ()) -> None:
        self._recorded, self._kind, self._path = recorded, kind, path

    def __repr__(self) -> str:
        return ".".join((self._recorded.name, *self._path))

    def after(self, *others: Handle) -> Made:
        """Done only once these are over, though nothing of theirs is needed."""
        _come_after([self._recorded], others)
        return self

    def named(self, name: str) -> Made:
        """What the step is called, in place of its function's name."""
        self._recorded.name, self._recorded.named = name, here()
        return self

    def _part(self, name: str, kind: Kind) -> Handle:
        return Made(self._recorded, kind, (*self._path, name))

    def _item_kind(self) -> Kind:
        return self._recorded.result if self._recorded.each is not None and not self._path else "any"

    def _written(self) -> Any:
        return {MARK: ".".join(("steps", self._recorded.name, *self._path))}


class Combined(Handle):
    """What comes of others."""

    __slots__ = ("_of", "_operator")

    def __init__(self, operator: str, of: tuple[Any, ...], kind: Kind = "flag") -> None:
        self._operator, self._of, self._kind = operator, of, kind
        if operator in _ORDERED:
            for one in of:
                if (found := kind_in(one)) not in ("any", "text", "number", "whole"):
                    raise wrong(f"{self!r}: {told(found)} is neither more nor less than something.")
        if operator in ("and", "or", "not"):
            for one in of:
                if (found := kind_in(one)) not in ("any", "flag"):
                    raise wrong(f"{self!r}: {told(found)} is no condition; put brackets around each comparison.")

    def __repr__(self) -> str:
        if len(self._of) == 2 and self._operator not in ("first", "text"):
            return f"({self._of[0]!r} {self._operator} {self._of[1]!r})"
        return f"{self._operator}({', '.join(map(repr, self._of))})"

    def after(self, *others: Handle) -> Combined:
        """Of the first of some: all of them come after these."""
        own = steps_in(self)
        if self._operator != "first" or not own:
            raise wrong(f"{self!r} is no step, and comes after nothing; what uses it does.")
        _come_after(own, others)
        return self

    def named(self, name: str) -> NoReturn:
        raise wrong(f"{self!r} is of several steps: none of them can be called {name!r} in this way.")

    def _part(self, name: str, kind: Kind) -> Handle:
        """Of the first of some, the same part of each."""
        if self._operator != "first":
            return super()._part(name, kind)
        parts = tuple(one._part(name, kind) if isinstance(one, Handle) else one[name] for one in self._of)
        return Combined("first", parts, kind)

    def _written(self) -> Any:
        return {MARK: self._operator, "of": [written(one) for one in self._of]}


def kind_in(given: Any) -> Kind:
    """Of a handle what is said of it, of anything else what it is."""
    if isinstance(given, Handle):
        return given._kind
    if given is None:
        return "nothing"
    for kind, one in THINGS.items():
        if isinstance(given, one):
            return kind
    kinds: tuple[tuple[Any, Kind], ...] = (
        (bool, "flag"), (int, "whole"), (float, "number"), (str, "text"), ((list, tuple, range), "list"),
    )  # fmt: skip
    return next((kind for one, kind in kinds if isinstance(given, one)), "any")


def written(given: Any) -> Any:
    """As it travels. Raises `Invalid` where JSON has no word for it."""
    given = plain(given)
    if isinstance(given, Handle):
        return given._written()
    if given is None or isinstance(given, bool | int | str):
        return given
    if isinstance(given, float) and math.isfinite(given):
        return given
    if isinstance(given, list | tuple | range):
        return [written(one) for one in given]
    if isinstance(given, Mapping) and all(isinstance(name, str) and name != MARK for name in given):
        return {name: written(one) for name, one in given.items()}
    raise wrong(
        f"{str(given)[:100]!r} ({type(given).__name__}) cannot be handed to a step: that is JSON, or a version, run or "
        "endpoint as falaj has kinds for them; what is larger belongs into a dataset."
    )


def handles_in(given: Any) -> list[Handle]:
    """All that is spoken of, at any depth."""
    if isinstance(given, Combined):
        return [found for one in given._of for found in handles_in(one)]
    if isinstance(given, Handle):
        return [given]
    if isinstance(given, Mapping):
        given = list(given.values())
    return [found for one in given for found in handles_in(one)] if isinstance(given, list | tuple) else []


def steps_in(given: Any) -> list[Recorded]:
    """All steps that it speaks of."""
    return [one._recorded for one in handles_in(given) if isinstance(one, Made)]


def _come_after(own: list[Recorded], others: tuple[Handle, ...]) -> None:
    """What is said goes before what follows from where things are written."""
    for one in others:
        before = steps_in(one)
        if not before:
            raise wrong(f"{own[0].name} can come after what other steps hand on, and {one!r} is not that.")
        for recorded in own:
            recorded.after += [each for each in before if each is not recorded]
        for each in before:
            each.held = [held for held in each.held if held not in own]


def must_be(given: Any, wanted: Kind, what: str) -> None:
    """Raises `Invalid` where something of one kind is given for another."""
    found = kind_in(given)
    if not goes_for(found, wanted):
        hint = ""
        if wanted == "dataset" and found == "text":
            hint = f": give a parameter of the pipeline ({given!r} as the default of a DatasetVersion), or what a step hands on"
        raise wrong(f"{what} takes {told(wanted)}, and is given {told(found)} ({given!r}){hint}.")


def _listed(names: Mapping[str, Any]) -> str:
    return " and ".join(f".{name}" for name in names)
