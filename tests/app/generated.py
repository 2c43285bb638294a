"""Requests and results made from their declared types: whatever a declaration admits, and nothing else."""

import dataclasses
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from falaj.base.clock import DAY, Moment
from falaj.base.values import Items, Range, Text

# Any character that UTF-8 has, but for NUL, which no text may hold.
ANY_CHARACTER = st.characters(exclude_characters="\x00", codec="utf-8")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(ANY_CHARACTER, max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(ANY_CHARACTER, max_size=5), inner, max_size=3),
    max_leaves=5,
)
PLAIN = {
    str: st.text(ANY_CHARACTER, max_size=30),
    int: st.integers(-(2**53), 2**53),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    NoneType: st.none(),
    Any: JSON,
    Moment: st.integers(0, 50_000 * DAY).map(Moment),
}


@cache
def values_of(hint: Any) -> st.SearchStrategy[Any]:
    if get_origin(hint) is Annotated:
        return _marked(*get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        return st.one_of(*(values_of(part) for part in get_args(hint)))
    if get_origin(hint) is Literal:
        return st.sampled_from(get_args(hint))
    if get_origin(hint) is tuple and get_args(hint)[-1] is not Ellipsis:
        return st.tuples(*(values_of(part) for part in get_args(hint)))
    if get_origin(hint) is tuple:
        return st.lists(values_of(get_args(hint)[0]), max_size=3).map(tuple)
    if get_origin(hint) is dict:
        key, inner = get_args(hint)
        return st.dictionaries(values_of(key), values_of(inner), max_size=3)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    if dataclasses.is_dataclass(hint):
        hints = get_type_hints(hint, include_extras=True)
        return st.builds(hint, **{field.name: values_of(hints[field.name]) for field in dataclasses.fields(hint)})
    return PLAIN[hint]


def _marked(inner: Any, *marks: Any) -> st.SearchStrategy[Any]:
    for mark in marks:
        if isinstance(mark, Range) and inner is float:
            return _floats(mark)
        if isinstance(mark, Range):
            return st.integers(mark.least, mark.most)
        if isinstance(mark, Items):
            part = values_of(get_args(inner)[0])
            return st.lists(part, min_size=mark.least, max_size=min(mark.most, mark.least + 3)).map(tuple)
        if isinstance(mark, Text):
            return _text(mark)
    return values_of(inner)


def _floats(mark: Range) -> st.SearchStrategy[float]:
    """A bound that no float has exactly is not among them."""
    return st.floats(float(mark.least), float(mark.most)).filter(lambda one: mark.least <= one <= mark.most)


def _text(mark: Text) -> st.SearchStrategy[str]:
    if mark.pattern is None or mark.pattern == Text().pattern:
        return st.text(ANY_CHARACTER, min_size=mark.shortest, max_size=min(mark.longest, mark.shortest + 40))
    fitting = st.from_regex(mark.pattern.removesuffix("$") + r"\Z")  # in Python, `$` would let a newline follow
    return fitting.filter(lambda text: mark.shortest <= len(text) <= mark.longest)
