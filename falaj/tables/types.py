"""The words for types: `int64`, `float64`, `text`, `bool`, `moment`, `date`, `decimal(18, 4)`, `list(int64)`,
`record("a": text)`.

A `moment` is a point in time (microseconds UTC), whatever zone it was written in. `unknown` is a column that only ever
was null.
"""

import json
import re
from typing import Final

from falaj.base.errors import Invalid
from falaj.base.values import value

INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS: Final = ("float32", "float64")
PLAIN: Final = (*INTEGERS, *FLOATS, "text", "bytes", "bool", "moment", "date", "time", "duration", "unknown")
_DEEPEST: Final = 20
_PIECES: Final = re.compile(r'\s*(?:([a-z][a-z0-9]*)|(\d{1,9})|("(?:[^"\\]|\\.)*")|([(),:]))')
_EXACT: Final = {"float32": 24, "float64": 53}  # bits of an integer that it holds exactly


@value
class Type:
    """`word` with what stands in its parentheses: of a decimal its digits and those behind the point, of a vector its
    length, of a list, vector or record the types within, of a record their names."""

    word: str
    sizes: tuple[int, ...] = ()
    inner: tuple["Type", ...] = ()
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        within = [str(one) for one in self.inner]
        if self.names:
            within = [f"{json.dumps(name, ensure_ascii=False)}: {one}" for name, one in zip(self.names, within, strict=True)]
        within += [str(size) for size in self.sizes]
        return f"{self.word}({', '.join(within)})" if within else self.word


def parse(text: str, *, of: str = "") -> Type:
    """Raises `Invalid`, naming the column it is the type `of`."""
    try:
        reading = _Reading(text)
        found = reading.type(0)
        reading.end()
        return found
    except ValueError as error:
        where = f"Column {of!r}: " if of else ""
        known = ", ".join(PLAIN)
        raise Invalid(
            f"{where}{text[:200]!r} is no type: {error}. Types are {known}, decimal(18, 4), list(int64), vector(float32, 128), "
            'record("name": text).'
        ) from None


def fits(narrow: Type, *, into: Type) -> bool:
    """Whether every value of the one is a value of the other, too."""
    if narrow == into or narrow.word == "unknown":
        return True
    if narrow.word in INTEGERS:
        return _integer_fits(narrow.word, into)
    if narrow.word == "float32":
        return into.word == "float64"
    if narrow.word == "decimal" and into.word == "decimal":
        (digits, behind), (most, most_behind) = narrow.sizes, into.sizes
        return behind <= most_behind and digits - behind <= most - most_behind
    if narrow.word == into.word and narrow.sizes == into.sizes and narrow.names == into.names and narrow.inner:
        return all(fits(one, into=other) for one, other in zip(narrow.inner, into.inner, strict=True))
    return False


def _integer_fits(narrow: str, into: Type) -> bool:
    signed, bits = not narrow.startswith("u"), int(narrow.lstrip("uint"))
    if into.word in INTEGERS:
        into_signed, into_bits = not into.word.startswith("u"), int(into.word.lstrip("uint"))
        return bits < into_bits if into_signed and not signed else bits <= into_bits and signed == into_signed
    if into.word in _EXACT:
        return bits - signed <= _EXACT[into.word]
    if into.word == "decimal":
        return into.sizes[0] - into.sizes[1] >= len(str(2 ** (bits - signed)))
    return False


class _Reading:
    """A text, read from its start; raises `ValueError`."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0

    def type(self, depth: int) -> Type:
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")
        word = self._next(1, "a type")
        if word in PLAIN:
            return Type(word=word)
        if word not in ("decimal", "list", "vector", "record"):
            raise ValueError(f"{word!r} is not known")
        self._sign("(")
        if word == "decimal":
            digits, behind = self._number(), self._number_behind()
            if not (1 <= digits <= 76 and behind <= digits):
                raise ValueError("a decimal has 1 to 76 digits, of which those behind the point are some")
            made = Type(word=word, sizes=(digits, behind))
        elif word == "record":
            made = self._record(depth)
        else:
            inner = self.type(depth + 1)
            made = Type(word=word, inner=(inner,), sizes=(self._number_behind(),) if word == "vector" else ())
        self._sign(")")
        return made

    def _record(self, depth: int) -> Type:
        names, inner = [], []
        while True:
            names.append(str(json.loads(self._next(3, "a name in double quotes"))))
            self._sign(":")
            inner.append(self.type(depth + 1))
            if not self._peek(","):
                break
            self._sign(",")
        if len(set(names)) < len(names):
            raise ValueError("a record has a name twice")
        return Type(word="record", inner=tuple(inner), names=tuple(names))

    def end(self) -> None:
        if self._text[self._at :].strip():
            raise ValueError(f"something follows it: {self._text[self._at :][:50]!r}")

    def _number(self) -> int:
        return int(self._next(2, "a number"))

    def _number_behind(self) -> int:
        self._sign(",")
        return self._number()

    def _sign(self, sign: str) -> None:
        if self._next(4, repr(sign)) != sign:
            raise ValueError(f"{sign!r} is expected")

    def _peek(self, sign: str) -> bool:
        return self._text[self._at :].lstrip().startswith(sign)

    def _next(self, group: int, expected: str) -> str:
        found = _PIECES.match(self._text, self._at)
        if found is None or found[group] is None:
            raise ValueError(f"{expected} is expected at {self._text[self._at :][:20]!r}")
        self._at = found.end()
        return found[group]
