"""Writing a pipeline down: while its function runs here, once, every step that it calls is recorded and nothing is done."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from falaj.client.pipelines.handles import Combined, Handle, Made, Recorded, Root, kind_in, must_be, written
from falaj.client.pipelines.places import here, wrong
from falaj.lifecycle.operations.triggers import Trigger
from falaj.lifecycle.operations.words import MOST_ITEMS, Kind

_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9_-]+")
_LISTS: Final = (list, tuple, range)


class Tracing:
    """One pipeline that is being written down. `root` is the folder that goes along as its source, by the digest `source`;
    `data` is that of what is no Python in it. `starts` is what shall start it by itself, by the triggers' names; None where
    nothing is said of that."""

    def __init__(self, root: Path, source: str, data: str) -> None:
        self.root, self.source, self.data = root, source, data
        self.steps: list[Recorded] = []
        self.conditions: list[Any] = []
        self.starts: dict[str, Trigger] | None = None
        self._holding: list[Recorded] = []

    def record(
        self,
        name: str,
        kind: str,
        result: Kind,
        arguments: Mapping[str, Any],
        *,
        until: Any = None,
        holds: bool = False,
        **more: Any,
    ) -> Made:
        """`more` are further fields of the step, as they are declared. What `holds`, as an approval does, holds up all that is
        written below it in the same block."""
        written([arguments, until])  # what cannot be handed on is told at its line
        recorded = Recorded(
            name=self._free(_NOT_IN_NAMES.sub("-", name.lower()).lstrip("-_0123456789").rstrip("-") or "step"),
            kind=kind,
            result=result,
            place=here(),
            arguments=dict(arguments),
            held=[one for one in self._holding if _begins(one.when, self.conditions)],
            when=list(self.conditions),
            until=until,
            more=more,
        )
        self.steps.append(recorded)
        if holds:  # what was held up by those before it is so by this one
            self._holding = [one for one in self._holding if one not in recorded.held] + [recorded]
        return Made(recorded, result)

    def _free(self, name: str) -> str:
        """The second `train` is train-2."""
        taken = {one.name for one in self.steps}
        numbered = (f"{name[:90]}-{number}" for number in range(2, len(taken) + 3))
        return name[:100] if name not in taken else next(one for one in numbered if one not in taken)


def _begins(outer: list[Any], inner: list[Any]) -> bool:
    """Whether a block lies in another, or is the same: told by the conditions around them."""
    return len(outer) <= len(inner) and all(one is other for one, other in zip(outer, inner, strict=False))


_NOW: ContextVar[Tracing | None] = ContextVar("the pipeline that is written down", default=None)


def tracing() -> Tracing | None:
    return _NOW.get()


def within(what: str) -> Tracing:
    """The pipeline that is being written down. Raises `Invalid` where there is none."""
    if (found := _NOW.get()) is None:
        raise wrong(f"{what} has a place in the function of a pipeline alone; `falaj pipeline run FILE` writes one down.")
    return found


@contextmanager
def written_down(root: Path, source: str, data: str) -> Iterator[Tracing]:
    made = Tracing(root, source, data)
    token = _NOW.set(made)
    try:
        yield made
    finally:
        _NOW.reset(token)


@contextmanager
def when(condition: Handle | bool) -> Iterator[None]:
    """`with falaj.when(score > 0.7):` - the steps in it are done where that holds, and skipped otherwise, as is whatever needs
    what they hand on; `falaj.first` takes what is there."""
    now = within("falaj.when")
    must_be(condition, "flag", "falaj.when")
    now.conditions.append(condition)
    try:
        yield
    finally:
        now.conditions.pop()


def first(*given: Any) -> Handle:
    """The first of these that was not skipped."""
    within("falaj.first")
    if not given:
        raise wrong("falaj.first takes what steps hand on, and is given nothing.")
    kinds = {kind_in(one) for one in given}
    return Combined("first", given, kinds.pop() if len(kinds) == 1 else "any")


def count(given: Any) -> Handle:
    """How many there are in a list."""
    within("falaj.count")
    must_be(given, "list", "falaj.count")
    return Combined("count", (given,), "whole")


def among(one: Any, of: Any) -> Handle:
    """Whether something is one of several: the condition that Python writes with `in`."""
    within("falaj.among")
    must_be(of, "list", "falaj.among")
    return Combined("in", (one, of), "flag")


def text(*parts: Any) -> Handle:
    """All of these, one behind the other: `falaj.text("Version ", model.version, " is better")`."""
    within("falaj.text")
    if not parts:
        raise wrong("falaj.text joins some parts, and is given none.")
    return Combined("text", parts, "text")


def each(step: Callable[..., Any], /, **arguments: Any) -> Made:
    """A step once for each item of a list, side by side; it hands on the list of what came out.

    The list is the argument that is one where the step takes a single thing. Of several lists that are written out here, the
    first items go together, then the second ones, and so on.
    """
    now = within("falaj.each")
    kinds: Mapping[str, Kind] = getattr(step, "kinds", {})
    lists = _lists_in(arguments, kinds)
    many, single = _items(lists, arguments)
    before = len(now.steps)
    made = step(**(arguments | single))
    if len(now.steps) != before + 1 or not isinstance(made, Made):
        raise wrong("falaj.each takes a step, such as a function with @falaj.step; this is made of several, or of none.")
    now.steps[before].each = many
    made._kind = "list"
    return made


def _lists_in(arguments: Mapping[str, Any], kinds: Mapping[str, Kind]) -> list[str]:
    """Of what is not said to be a list, only one that nothing else is said of can be."""
    several = [name for name, given in arguments.items() if kind_in(given) == "list" and kinds.get(name, "any") != "list"]
    unsaid = [name for name, given in arguments.items() if isinstance(given, Handle) and kind_in(given) == "any"]
    found = several or (unsaid if len(unsaid) == 1 else [])
    if not found:
        raise wrong(
            "falaj.each is given no list: one argument has the items, as in falaj.each(train, rows=rows, depth=[4, 6, 8])."
        )
    return found


def _items(lists: list[str], arguments: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The list that is gone through, and what the step is given of an item of it, by argument."""
    plain = {name: list(given) for name in lists if isinstance(given := arguments[name], _LISTS)}
    if len(plain) < len(lists) and len(lists) > 1:
        raise wrong(
            f"falaj.each is given several lists ({', '.join(lists)}), of which some are known only once the pipeline runs."
        )
    if not plain:
        return arguments[lists[0]], {lists[0]: Root(("item",))}
    lengths = {len(given) for given in plain.values()}
    if len(lengths) > 1 or not 0 < max(lengths) <= MOST_ITEMS:
        told = ", ".join(f"{name} has {len(given)}" for name, given in plain.items())
        raise wrong(f"falaj.each goes through 1 to {MOST_ITEMS:,} items, as many in each list: {told}.")
    if len(plain) == 1:
        name, items = next(iter(plain.items()))
        kinds = {kind_in(one) for one in items}
        return items, {name: Root(("item",), kinds.pop() if len(kinds) == 1 else "any")}
    rows = [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]
    return rows, {name: Root(("item", name)) for name in plain}
