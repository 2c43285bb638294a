"""What columns look like they hold: by their names, and by some of their values, which a data worker counts and never tells."""

import re
from collections.abc import Sequence
from typing import Any, Final

from falaj.base.values import value
from falaj.datasets.operations.classes import ColumnClass, Hint
from falaj.datasets.rewriting import quoted
from falaj.tables.schemas import Column
from falaj.tables.types import INTEGERS

ROWS: Final = 2000  # that are looked at
_ENOUGH: Final = 0.5  # of the values


@value
class _Kind:
    """`holds` is a condition in SQL about a value `v`, a text without spaces around it."""

    what: str
    kind: ColumnClass
    holds: str
    names: re.Pattern[str]


def _matches(pattern: str) -> str:
    return f"regexp_full_match(v, '{pattern}')"


def _card() -> str:
    """With its check digit: every second from behind counts twice, less nine where that has two digits."""
    digits = "regexp_replace(v, '[ -]', '', 'g')"
    counted = f"TRY_CAST(substr(reverse({digits}), i::INT, 1) AS INT) * (CASE WHEN i % 2 = 0 THEN 2 ELSE 1 END)"
    less = f"(CASE WHEN {counted} > 9 THEN {counted} - 9 ELSE {counted} END)"
    right = f"list_sum([{less} FOR i IN range(1, length({digits}) + 1)]) % 10 = 0"
    return f"(regexp_full_match(v, '[2-6][0-9 -]+') AND length({digits}) BETWEEN 13 AND 19 AND {right})"


def _kind(what: str, kind: ColumnClass, *names: str, holds: str = "false") -> _Kind:
    return _Kind(what=what, kind=kind, holds=holds, names=re.compile(rf"(^|_)({'|'.join(names)})(_|$)"))


_IBAN: Final = "[A-Z]{2}[0-9]{2} ?([A-Z0-9]{4} ?){2,7}[A-Z0-9]{1,4}"
_PHONE: Final = "([+]|00)[1-9][0-9 ()-]{7,17}|0[1-9][0-9 -]{7,10}"
KINDS: Final = (
    _kind("e-mail addresses", "personal", "e_?mail", "mail", holds=_matches("[^@ ]+@[^@ ]+[.][^@ ]+")),
    _kind("Emirates IDs", "personal", "emirates_?id", "eid", holds=_matches("784-?[0-9]{4}-?[0-9]{7}-?[0-9]")),
    _kind("card numbers", "sensitive", "card", "card_?number", "pan", holds=_card()),
    _kind("bank accounts", "sensitive", "iban", holds=_matches(_IBAN)),
    _kind("phone numbers", "personal", "phone", "mobile", "msisdn", "tel", holds=_matches(_PHONE)),
    _kind("names of people", "personal", "(first|last|full|family|given|middle)_?name", "surname"),
    _kind("birth dates", "personal", "dob", "birth_?(date|day)", "date_of_birth", "born"),
    _kind("addresses", "personal", "address", "street"),
    _kind("passports", "personal", "passport", "passport_?(no|number)", "ssn", "national_?id"),
    _kind("pay, health or belief", "sensitive", "salary", "diagnosis", "religion", "ethnicity"),
)


def looked_at(columns: Sequence[Column]) -> list[Column]:
    """Those whose values can be any of these."""
    return [column for column in columns if column.type == "text" or column.type in INTEGERS]


def question(table: str, columns: Sequence[Column]) -> str:
    """One row: for every column how many values were looked at, and how many of them are of each kind."""
    counts = []
    for place, column in enumerate(columns):
        spelled = f"trim(CAST({quoted(column.name)} AS VARCHAR))"
        holds = (kind.holds.replace("(v,", f"(c{place},") for kind in KINDS)
        counts.append((spelled, [f"count(*) FILTER ({one})" for one in holds]))
    inner = ", ".join(f"{spelled} AS c{place}" for place, (spelled, _) in enumerate(counts))
    outer = [
        f"{one} AS n{place}_{number}"
        for place, (_, each) in enumerate(counts)
        for number, one in enumerate([f"count(c{place})", *each])
    ]
    return f"SELECT {', '.join(outer)} FROM (SELECT {inner} FROM {quoted(table)} LIMIT {ROWS})"  # nosec B608 - confined


def hints(columns: Sequence[Column], asked: Sequence[Column], answer: Sequence[Any]) -> tuple[Hint, ...]:
    """One of each column at most: by its values, or else by its name."""
    width = len(KINDS) + 1
    found: dict[str, Hint] = {}
    for place, column in enumerate(asked):
        there, *each = (int(number) for number in answer[place * width : (place + 1) * width])
        for kind, number in zip(KINDS, each, strict=True):
            if there and number / there >= _ENOUGH and column.name not in found:
                found[column.name] = _hint(column, kind, number / there)
    for column in columns:
        for kind in KINDS:
            if column.name not in found and kind.names.search(_snake(column.name)):
                found[column.name] = _hint(column, kind, 0.0)
    return tuple(found[column.name] for column in columns if column.name in found)


def _hint(column: Column, kind: _Kind, share: float) -> Hint:
    return Hint(column=column.name, what=kind.what, kind=kind.kind, share=round(share, 4))


def _snake(name: str) -> str:
    """`customerEmail` and `Customer E-mail` as `customer_email`."""
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().replace("e-mail", "email"))
