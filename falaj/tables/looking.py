"""What one SELECT reads, found in its text by DuckDB's own parser before anything is run: which tables, which words it has that
could be columns, and whether it answers the same each time.

Nothing is bound: what is told is never less than what is read. Whoever hides a column that this does not name has it null.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from falaj.tables.orders import KNOWN, Looked
from falaj.tables.statements import dicts, parsed, refuse_unknown, tables_of

_CHANCE: Final = frozenset({"random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7"})
_CLOCK: Final = frozenset(
    {
        "now", "today", "current_date", "current_time", "current_timestamp", "current_localtime", "current_localtimestamp",
        "get_current_time", "get_current_timestamp", "transaction_timestamp", "localtime", "localtimestamp", "ago",
    }
)  # fmt: skip
_WHOLE: Final = ("PIVOT", "SHOW_REF")


def looked_through(sql: str) -> Looked:
    """Raises `Invalid` unless it is one SELECT, of functions and types that are known."""
    statement = parsed(sql)
    tables = tables_of(statement)
    refuse_unknown(sql, tables)
    nodes = list(dicts(statement))
    stars = [one for one in nodes if one.get("class") == "STAR"]
    excluded = [{str(name).lower() for name in one.get("exclude_list") or ()} for one in stars]
    columns = [[name.lower() for name in one["column_names"]] for one in nodes if one.get("class") == "COLUMN_REF"]
    return Looked(
        tables=tuple(sorted(tables)),
        words=frozenset(_words(statement)),
        wide=any(_takes_whole_rows(one) for one in nodes) or _names_rows(nodes, columns),
        stars=bool(stars),
        excluded=frozenset(set.intersection(*excluded)) if excluded else frozenset(),
        outputs=_outputs(statement["node"]),
        known=any(names[-1] == KNOWN for names in columns),
        changes=any(_changes(one) for one in nodes) or any(names[-1] in _CLOCK for names in columns),
    )


def _takes_whole_rows(one: dict[str, Any]) -> bool:
    """Whether columns are read without a word of theirs: all of them, or by their place."""
    kind = one.get("type")
    return (
        kind in _WHOLE
        or one.get("class") == "POSITIONAL_REFERENCE"
        or one.get("ref_type") == "NATURAL"
        or bool(one.get("column_name_alias"))
        or (kind == "STAR" and bool(one.get("columns") or one.get("rename_list") or one.get("qualified_exclude_list")))
    )


def _names_rows(nodes: Iterable[dict[str, Any]], columns: Iterable[list[str]]) -> bool:
    """A table's own name where a column could stand is its whole row."""
    tables = [one for one in nodes if one.get("type") in ("BASE_TABLE", "SUBQUERY", "TABLE_FUNCTION") and "class" not in one]
    rows = {str(one.get(key) or "").lower() for one in tables for key in ("table_name", "alias")}
    return any(names[-1] in rows for names in columns)


def _changes(one: dict[str, Any]) -> bool:
    """Whether it may be something else the next time: by chance, or as time goes by."""
    name = str(one.get("function_name") or "").lower()
    return name in _CHANCE | _CLOCK or (name == "age" and len(one.get("children") or ()) == 1) or bool(one.get("sample"))


def _outputs(node: dict[str, Any]) -> tuple[frozenset[str], ...] | None:
    """The words that each column of the answer is made of; None where a column may come from anywhere."""
    plain = node["type"] == "SELECT_NODE" and not node["cte_map"]["map"] and _is_plain(node["from_table"])
    if not plain or any(one.get("class") in ("STAR", "POSITIONAL_REFERENCE") for one in dicts(node["select_list"])):
        return None
    found = [set(_words(one)) for one in node["select_list"]]
    called = {str(one["alias"]).lower(): words for one, words in zip(node["select_list"], found, strict=True) if one["alias"]}
    for _ in found:  # a column may be made of one that stands before it, by the name it has there
        for words in found:
            words |= set().union(*(called[word] for word in words & called.keys()))
    return tuple(frozenset(words) for words in found)


def _is_plain(table: dict[str, Any]) -> bool:
    """Tables and joins of such."""
    if table["type"] == "JOIN":
        return _is_plain(table["left"]) and _is_plain(table["right"])
    return bool(table["type"] == "BASE_TABLE")


def _words(tree: Any) -> Iterator[str]:
    """Every text in it that could be a column's name, but for what a star leaves out."""
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one.lower()
        elif isinstance(one, dict):
            waiting += [value for key, value in one.items() if key != "exclude_list"]
        elif isinstance(one, list):
            waiting += one
