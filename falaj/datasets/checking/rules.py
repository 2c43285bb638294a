"""Checks as questions in SQL, that a data worker answers, and their findings in words. No value of a row is in the words."""

import dataclasses
from collections.abc import Mapping, Sequence

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.datasets.mentions import mentioned
from falaj.datasets.operations.checks import Check, Plain
from falaj.datasets.rewriting import quoted
from falaj.tables.schemas import Schema, listed
from falaj.tables.types import FLOATS

_NEEDED = {
    "range": ("columns",),
    "set": ("columns", "values"),
    "unique": ("columns",),
    "nulls": ("columns",),
    "fresh": ("columns", "seconds"),
    "refers": ("columns", "dataset", "references"),
    "sql": ("sql",),
}
_OPTIONAL = {"range": ("least", "most"), "nulls": ("share",)}
_DEFAULTS: dict[str, object] = {
    "columns": (), "least": None, "most": None, "values": (), "share": 0.0, "seconds": 0, "dataset": "", "references": (),
    "sql": "",
}  # fmt: skip
_TIMES = '"rows with it"'


@value
class Question:
    """`counts` finds one number, of rows that break the check; `shows` finds these rows, where there are any to show."""

    counts: str
    shows: str
    says: str


def refuse_nonsense(checks: Sequence[Check]) -> None:
    """Raises `Invalid` for a check that says too little, too much or something twice."""
    seen: set[str] = set()
    for check in checks:
        if check.name in seen:
            raise Invalid(f"There are two checks called {check.name!r}: rename one of them.")
        seen.add(check.name)
        needed = _NEEDED[check.kind]
        if missing := [field for field in needed if not getattr(check, field)]:
            raise Invalid(f"Check {check.name!r} is of the kind {check.kind!r} and needs {' and '.join(missing)}.")
        allowed = (*needed, *_OPTIONAL.get(check.kind, ()))
        if wrong := [field for field, none in _DEFAULTS.items() if field not in allowed and getattr(check, field) != none]:
            raise Invalid(f"Check {check.name!r} is of the kind {check.kind!r}, which has no {wrong[0]}.")
        _refuse_wrong_numbers(check)


def others(check: Check, own: str) -> frozenset[str]:
    """Names of other datasets that it could speak of."""
    if check.kind == "refers":
        return frozenset({check.dataset}) - {own}
    return frozenset(word for word in mentioned(check.sql) if "@" not in word) - {own} if check.kind == "sql" else frozenset()


def renamed(check: Check, renames: Mapping[str, str], own: str) -> Check:
    """The same of columns that are called otherwise now. What a SELECT of its own calls them stays as it was written."""
    columns = tuple(renames.get(name, name) for name in check.columns)
    references = tuple(renames.get(name, name) for name in check.references) if check.dataset == own else check.references
    return dataclasses.replace(check, columns=columns, references=references)


def question(check: Check, table: str, schema: Schema, now: Moment) -> Question:
    """Raises `Invalid` where it names a column that there is not."""
    for column in check.columns:
        schema.column(column)
    return _QUESTIONS[check.kind](check, quoted(table), schema, now)


def _range(check: Check, table: str, schema: Schema, _: Moment) -> Question:
    ends = []
    for name in check.columns:
        column = quoted(name)
        ends += [f"{column} < {_literal(check.least)}"] if check.least is not None else []
        ends += [f"{column} > {_literal(check.most)}"] if check.most is not None else []
        ends += [f"isnan({column})"] if schema.column(name).type in FLOATS else []
    bounds = [f"at least {check.least}"] if check.least is not None else []
    bounds += [f"at most {check.most}"] if check.most is not None else []
    return _rows(table, " OR ".join(ends), f"{_named(check)} must be {' and '.join(bounds)}")


def _set(check: Check, table: str, _: Schema, __: Moment) -> Question:
    values = ", ".join(_literal(one) for one in check.values)
    wrong = " OR ".join(f"{quoted(column)} NOT IN ({values})" for column in check.columns)
    said = listed(tuple(str(one) for one in check.values))
    return _rows(table, wrong, f"{_named(check)} must be one of {said}")


def _unique(check: Check, table: str, _: Schema, __: Moment) -> Question:
    columns = ", ".join(quoted(column) for column in check.columns)
    groups = f"SELECT {columns}, count(*) AS {_TIMES} FROM {table} GROUP BY {columns} HAVING count(*) > 1"  # nosec B608 - confined
    return Question(
        counts=f"SELECT coalesce(sum({_TIMES}), 0)::BIGINT FROM ({groups})",  # nosec B608 - confined
        shows=f"{groups} ORDER BY {_TIMES} DESC",
        says=f"{_named(check)} must be different in every row",
    )


def _nulls(check: Check, table: str, _: Schema, __: Moment) -> Question:
    """Only columns that have too many count."""
    wrong = " OR ".join(
        f"({column} IS NULL AND (SELECT count(*) - count({column}) > {check.share!r} * count(*) FROM {table}))"  # nosec B608
        for column in map(quoted, check.columns)
    )
    most = f"be absent from at most {check.share:.4%} of the rows".replace(".0000%", "%")
    return _rows(table, wrong, f"{_named(check)} must {most if check.share else 'be there in every row'}")


def _fresh(check: Check, table: str, _: Schema, now: Moment) -> Question:
    """One row breaks it where none is new enough."""
    bound = Moment(now - check.seconds * SECOND)
    column = quoted(check.columns[0])
    newest = f"SELECT max({column}) AS newest FROM {table}"  # nosec B608 - confined
    return Question(
        counts=f"SELECT count(*) FROM ({newest}) WHERE newest IS NULL OR newest < TIMESTAMPTZ '{bound}'",  # nosec B608
        shows=newest,
        says=f"the newest {_named(check)} must be no older than {bound}",
    )


def _refers(check: Check, table: str, _: Schema, __: Moment) -> Question:
    other = quoted(check.dataset)
    pairs = zip(check.columns, check.references, strict=True)
    same = " AND ".join(f"there.{quoted(ours)} = this.{quoted(theirs)}" for theirs, ours in pairs)
    known = " AND ".join(f"this.{quoted(column)} IS NOT NULL" for column in check.columns)
    broken = f"FROM {table} AS this WHERE {known} AND NOT EXISTS (SELECT 1 FROM {other} AS there WHERE {same})"  # nosec B608
    return Question(
        counts=f"SELECT count(*) {broken}",
        shows=f"SELECT this.* {broken}",
        says=f"{_named(check)} must be in {check.dataset} ({', '.join(check.references)})",
    )


def _sql(check: Check, _: str, __: Schema, ___: Moment) -> Question:
    asked = check.sql.strip().rstrip(";")
    return Question(
        counts=f"SELECT count(*) FROM (\n{asked}\n)",  # nosec B608 - confined
        shows=f"SELECT * FROM (\n{asked}\n)",  # nosec B608 - confined
        says="its SELECT must find no rows",
    )


_QUESTIONS = {
    "range": _range,
    "set": _set,
    "unique": _unique,
    "nulls": _nulls,
    "fresh": _fresh,
    "refers": _refers,
    "sql": _sql,
}


def _rows(table: str, wrong: str, says: str) -> Question:
    broken = f"FROM {table} WHERE {wrong}"
    return Question(counts=f"SELECT count(*) {broken}", shows=f"SELECT * {broken}", says=says)


def _named(check: Check) -> str:
    return ", ".join(check.columns)


def _literal(one: Plain | None) -> str:
    if isinstance(one, bool):
        return "true" if one else "false"
    if isinstance(one, str):
        return "'" + one.replace("'", "''") + "'"
    return repr(one)


def _refuse_wrong_numbers(check: Check) -> None:
    if check.kind == "range" and check.least is None and check.most is None:
        raise Invalid(f"Check {check.name!r} needs least, most, or both.")
    if check.kind == "fresh" and len(check.columns) != 1:
        raise Invalid(f"Check {check.name!r} needs one column of moments or dates.")
    if check.kind == "refers" and len(check.columns) != len(check.references):
        raise Invalid(f"Check {check.name!r} has {len(check.columns)} columns, and {len(check.references)} references.")
    if not 0 <= check.share < 1:
        raise Invalid(f"Check {check.name!r}: share lies between 0 and 1, such as 0.05 for five in a hundred.")
    for bound in (check.least, check.most, *check.values):
        if isinstance(bound, float) and not abs(bound) < float("inf"):
            raise Invalid(f"Check {check.name!r}: {bound} is no bound.")
