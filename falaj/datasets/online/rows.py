"""Feature values as bytes and back, bit for bit. Which features there are is known by a digest in front, so that a row of other
features is told instead of misread.

Values are Python's own: whole numbers for integers, moments (microseconds UTC), dates (days since 1970), times and durations
(microseconds); floats, texts, bytes, truths and decimals; lists for lists and vectors, dictionaries for records.
"""

import hashlib
import operator
import struct
from collections.abc import Sequence
from decimal import InvalidOperation
from typing import Any, Final

from falaj.base.errors import Invalid, TooLarge
from falaj.base.values import value
from falaj.datasets.online.errors import OtherFeatures, RowAltered
from falaj.datasets.online.packing import Block, a_truth
from falaj.tables import types

MOST_FEATURES: Final = 1000
MOST_ROW_BYTES: Final = 256 << 10
_DIGEST_BYTES: Final = 8  # it tells mistakes, not attacks: the row is authenticated as a whole
_WRONG: Final = (struct.error, TypeError, ValueError, AttributeError, OverflowError, KeyError)
_PART: Final = struct.Struct("<BI")


@value
class Field:
    """`type` is a word of `falaj.tables.types`."""

    name: str
    type: str


class Schema:
    """The features of a view, in their order. Thread-safe."""

    def __init__(self, fields: Sequence[Field]) -> None:
        names = [field.name for field in fields]
        if not fields or len(fields) > MOST_FEATURES or len(set(names)) < len(names):
            raise Invalid(f"A view has 1 to {MOST_FEATURES} features, each with a name of its own; these are {names[:20]}.")
        kinds = [types.parse(field.type, of=field.name) for field in fields]
        self.fields = tuple(fields)
        said = repr([(name, str(kind)) for name, kind in zip(names, kinds, strict=True)])
        self._digest = hashlib.sha256(said.encode()).digest()[:_DIGEST_BYTES]
        self._block = Block(kinds)

    def pack(self, values: Sequence[Any]) -> bytes:
        try:
            packed = self._digest + self._block.pack(values)
        except _WRONG:
            raise Invalid(self._what_is_wrong(values)) from None
        if len(packed) > MOST_ROW_BYTES:
            raise TooLarge(f"A row of {len(packed)} bytes is larger than the online store keeps: {MOST_ROW_BYTES}.")
        return packed

    def unpack(self, packed: bytes) -> tuple[Any, ...]:
        if not packed.startswith(self._digest):
            raise OtherFeatures("The row was materialised with other features than are asked for; materialise the view again.")
        try:
            return self._block.unpack(packed, _DIGEST_BYTES)
        except (struct.error, ValueError, InvalidOperation):
            raise RowAltered("A row does not hold what its features are.") from None

    def _what_is_wrong(self, values: Sequence[Any]) -> str:
        if len(values) != len(self.fields):
            return f"A row has {len(values)} values, and the view {len(self.fields)} features."
        for field, one in zip(self.fields, values, strict=True):
            try:
                Block([types.parse(field.type)]).pack([one])
            except _WRONG:
                return (
                    f"Feature {field.name!r} is of type {field.type}, which a value of type {type(one).__name__} does not fit."
                )
        return "A value does not fit its feature."


class EntityKey:
    """The columns a view knows its entities by. Integers of every width are one and the same, so that a column may widen."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = tuple(fields)
        self._kinds = [types.parse(field.type, of=field.name).word for field in fields]
        wrong = [field for field, kind in zip(fields, self._kinds, strict=True) if kind not in _KEY_KINDS]
        if wrong or not fields:
            named = f"{wrong[0].name!r} is of type {wrong[0].type}" if wrong else "this view names none"
            raise Invalid(f"Entities are known by columns of type {', '.join(_KEY_KINDS)}; {named}.")

    def pack(self, entity: Sequence[Any]) -> bytes:
        """As bytes that no other entity of the view has."""
        if len(entity) != len(self._fields):
            names = ", ".join(field.name for field in self._fields)
            raise Invalid(f"An entity of this view is known by {names}; {len(entity)} values were given.")
        parts = []
        for field, kind, one in zip(self._fields, self._kinds, entity, strict=True):
            try:
                content = _key_part(kind, one)
            except _WRONG:
                raise Invalid(
                    f"{field.name!r} is of type {field.type}, which a value of type {type(one).__name__} does not fit."
                ) from None
            parts.append(_PART.pack(_KEY_KINDS[kind], len(content)) + content)
        return b"".join(parts)


_KEY_KINDS: Final = {**dict.fromkeys(types.INTEGERS, 1), "text": 2, "bytes": 3, "bool": 4, "moment": 5, "date": 6}


def _key_part(kind: str, one: Any) -> bytes:
    if kind == "text":
        return str.encode(one)
    if kind == "bytes":
        return bytes(memoryview(one))
    if kind == "bool":
        return b"\1" if a_truth(one) else b"\0"
    if isinstance(one, bool):
        raise TypeError
    return b"%d" % operator.index(one)
