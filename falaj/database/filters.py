"""MLflow's filter and order language, read into values; each room's store turns those into SQL with bound parameters.

A filter is comparisons joined by AND. Keys may stand in backticks or double quotes, texts stand in single or double quotes; a
quote that is doubled means one. Nothing inside a literal has a meaning.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final, Literal, NoReturn, TypeAlias, cast, get_args

from falaj.base.errors import Invalid
from falaj.base.values import value

Kind: TypeAlias = Literal["attribute", "metric", "param", "tag", "dataset"]
Comparator: TypeAlias = Literal["=", "!=", ">", ">=", "<", "<=", "LIKE", "ILIKE", "IN", "NOT IN", "IS NULL", "IS NOT NULL"]
Literals: TypeAlias = str | int | float | tuple[str, ...] | None

MOST_COMPARISONS: Final = 50
LONGEST_PATTERN: Final = 5000  # SQLite takes no patterns above 50,000 bytes
OF_NUMBERS: Final[tuple[str, ...]] = ("=", "!=", ">", ">=", "<", "<=")
OF_TEXTS: Final[tuple[str, ...]] = ("=", "!=", "LIKE", "ILIKE", "IN", "NOT IN")
OF_PRESENCE: Final[tuple[str, ...]] = ("IS NULL", "IS NOT NULL")
DATASET_KEYS: Final = frozenset({"name", "digest", "context"})
_PREFIXES: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(("attribute", "attributes", "attr", "run"), "attribute"),
    **dict.fromkeys(("metric", "metrics"), "metric"),
    **dict.fromkeys(("param", "params", "parameter", "parameters"), "param"),
    **dict.fromkeys(("tag", "tags"), "tag"),
    **dict.fromkeys(("dataset", "datasets"), "dataset"),
}

_SPACE: Final = re.compile(r"\s*")
# Possessive, so that a quote which is never closed is one, and not a text that ended earlier.
_TEXT: Final = re.compile(r"""'(?:[^']|'')*+'|"(?:[^"]|"")*+\"""")
_BARE: Final = r"""[^\s'"`=!<>~(),;]+"""
_IDENTIFIER: Final = re.compile(rf"""(?:(?P<prefix>`\w+`|\w+)\.)?(?P<key>`(?:[^`]|``)*+`|"(?:[^"]|"")*+"|{_BARE})""")
_COMPARATOR: Final = re.compile(r"[=!<>~]+|(?:NOT\s+IN|IS\s+NOT\s+NULL|IS\s+NULL|ILIKE|LIKE|IN)\b", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?(?![\w.])", re.IGNORECASE | re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_AND: Final = re.compile(r"AND\b", re.IGNORECASE)
_DIRECTION: Final = re.compile(r"(?:ASC|DESC)\b", re.IGNORECASE)
_ANYTHING: Final = re.compile(r"\S{1,30}")


@value
class Searchable:
    """What things can be searched by: attributes that are texts or numbers, other spellings of them, and further kinds."""

    texts: frozenset[str]
    numbers: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)
    kinds: frozenset[str] = frozenset({"tag"})


@value
class Comparison:
    """`value` is a number for metrics and numeric attributes, texts for IN and NOT IN, None for IS [NOT] NULL."""

    kind: Kind
    key: str
    comparator: Comparator
    value: Literals


@value
class Ordering:
    kind: Kind
    key: str
    descending: bool = False


def parse_filter(text: str, searchable: Searchable) -> tuple[Comparison, ...]:
    """The comparisons that must all hold; none for a filter that says nothing. Raises `Invalid` and nothing else."""
    reader = _Reader("filter", text, searchable)
    found: list[Comparison] = []
    while not reader.at_end or found:
        found.append(_comparison(reader))
        if len(found) > MOST_COMPARISONS:
            raise Invalid(f"The filter has more than {MOST_COMPARISONS} comparisons; search in several steps.")
        if reader.at_end:
            break
        if reader.take(_AND) is None:
            reader.fail("AND or the end (comparisons are joined by AND alone, without parentheses)")
    return tuple(found)


def parse_order(clauses: Sequence[str], searchable: Searchable) -> tuple[Ordering, ...]:
    """The orderings, the first one first. Raises `Invalid` and nothing else."""
    found: list[Ordering] = []
    for clause in clauses:
        reader = _Reader("order", clause, searchable)
        kind, key = _identifier(reader)
        if kind == "dataset":
            raise Invalid(f"Runs cannot be ordered by datasets, as {clause[:100]!r} asks; they can be filtered by them.")
        direction = reader.take(_DIRECTION)
        if not reader.at_end:
            reader.fail("ASC, DESC or the end")
        if any((kind, key) == (known.kind, known.key) for known in found):
            raise Invalid(f"The order names {kind} {key[:100]!r} twice.")
        found.append(Ordering(kind=kind, key=key, descending=direction is not None and direction.upper() == "DESC"))
    return tuple(found)


def _comparison(reader: "_Reader") -> Comparison:
    kind, key = _identifier(reader)
    numeric = kind == "metric" or (kind == "attribute" and key in reader.searchable.numbers)
    allowed = OF_NUMBERS if numeric else OF_TEXTS + (OF_PRESENCE if kind in ("param", "tag") else ())
    comparator = _comparator(reader, f"{kind} {key[:100]!r}", allowed)
    if comparator in OF_PRESENCE:
        return Comparison(kind=kind, key=key, comparator=comparator, value=None)
    if numeric:
        found = _number(reader)
        number = int(found) if kind == "attribute" and _INTEGER.fullmatch(found) else float(found)
        return Comparison(kind=kind, key=key, comparator=comparator, value=number)
    if comparator in ("IN", "NOT IN"):
        return Comparison(kind=kind, key=key, comparator=comparator, value=_texts(reader))
    literal = _text(reader)
    if comparator in ("LIKE", "ILIKE") and len(literal) > LONGEST_PATTERN:
        raise Invalid(f"A pattern of {len(literal)} characters is too long; {LONGEST_PATTERN} are possible.")
    return Comparison(kind=kind, key=key, comparator=comparator, value=literal)


def _identifier(reader: "_Reader") -> tuple[Kind, str]:
    start = reader.position
    found = reader.match(_IDENTIFIER)
    if found is None:
        reader.fail("what to compare, like metrics.auc, params.depth, tags.`my tag` or status")
    prefix = (found["prefix"] or "attribute").strip("`")
    key = _unquoted(found["key"])
    kind = _PREFIXES.get(prefix)
    if kind is None or (kind != "attribute" and kind not in reader.searchable.kinds):
        usable = ", ".join(f"{name}s.…" for name in get_args(Kind) if name == "attribute" or name in reader.searchable.kinds)
        reader.fail(f"one of {usable}", at=start, found=found[0])
    if not key:
        reader.fail("a name between the quotes", at=start, found=found[0])
    if kind == "attribute":
        key = reader.searchable.aliases.get(key, key)
        known = reader.searchable.texts | reader.searchable.numbers
        if key not in known:
            reader.fail(f"one of the attributes {', '.join(sorted(known))}", at=start, found=found[0])
    if kind == "dataset" and key not in DATASET_KEYS:
        reader.fail(f"one of the datasets' {', '.join(sorted(DATASET_KEYS))}", at=start, found=found[0])
    return kind, key


def _comparator(reader: "_Reader", subject: str, allowed: tuple[str, ...]) -> Comparator:
    start = reader.position
    found = reader.take(_COMPARATOR)
    spelled = " ".join(found.upper().split()) if found is not None else ""
    if spelled not in allowed:
        reader.fail(f"one of {', '.join(allowed)} for {subject}", at=start, found=found)
    return cast(Comparator, spelled)


def _number(reader: "_Reader") -> str:
    found = reader.take(_NUMBER)
    if found is None:
        reader.fail("a number")
    return found


def _text(reader: "_Reader") -> str:
    found = reader.take(_TEXT)
    if found is None:
        reader.fail("a text in quotes, like 'this'")
    return _unquoted(found)


def _texts(reader: "_Reader") -> tuple[str, ...]:
    if not reader.take_sign("("):
        reader.fail("a list in parentheses, like ('this', 'that')")
    found = [_text(reader)]
    while reader.take_sign(","):
        if reader.take_sign(")"):
            return tuple(found)
        found.append(_text(reader))
    if not reader.take_sign(")"):
        reader.fail("a comma or the closing parenthesis")
    return tuple(found)


def _unquoted(text: str) -> str:
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote) if quote in "'\"`" else text


class _Reader:
    """A text and how far it was read."""

    def __init__(self, what: str, text: str, searchable: Searchable) -> None:
        self.what = what
        self.searchable = searchable
        self.position = 0
        self._text = text
        if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise Invalid(f"The {what} has a character in it that no database keeps: NUL or half of a pair.")
        self._skip_space()

    @property
    def at_end(self) -> bool:
        return self.position == len(self._text)

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self.position)
        if found is not None:
            self.position = found.end()
            self._skip_space()
        return found

    def take(self, pattern: re.Pattern[str]) -> str | None:
        found = self.match(pattern)
        return None if found is None else found[0]

    def take_sign(self, sign: str) -> bool:
        if not self._text.startswith(sign, self.position):
            return False
        self.position += 1
        self._skip_space()
        return True

    def fail(self, expected: str, *, at: int | None = None, found: str | None = None) -> NoReturn:
        position = self.position if at is None else at
        if found is None:
            here = _ANYTHING.match(self._text, position)
            found = here[0] if here else None
        seen = "the end" if found is None else repr(found[:100])
        raise Invalid(f"The {self.what} cannot be read at character {position + 1}: expected {expected}, found {seen}.")

    def _skip_space(self) -> None:
        space = _SPACE.match(self._text, self.position)
        self.position = space.end() if space else self.position
