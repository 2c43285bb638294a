"""What a SELECT consists of, as DuckDB's own parser has it, looked through before it is run: only functions, types and tables
that are known. Some functions of DuckDB read files, run text as SQL or take addresses in memory, whatever it is set to.

Nothing is bound while a statement is looked at: the connection that parses has no tables.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import duckdb

from falaj.base.errors import Invalid
from falaj.tables.functions import FUNCTIONS, NAMED_TYPES, TABLE_FUNCTIONS, TYPES

ROWS_OF: Final = "before"
"""The table that a condition is about."""

_EXPRESSIONS: Final = frozenset(
    {
        "BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "LAMBDA",
        "OPERATOR", "POSITIONAL_REFERENCE", "STAR", "SUBQUERY", "WINDOW",
    }
)  # fmt: skip
_IN: Final = "\0"  # between a schema and a table, among names that have none of it
_NOT_IN_CONDITIONS: Final = frozenset({"SUBQUERY", "WINDOW", "STAR", "POSITIONAL_REFERENCE"})
_PARTS: Final = frozenset(
    {
        "SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "BASE_TABLE", "EMPTY", "EXPRESSION_LIST", "JOIN", "PIVOT",
        "SHOW_REF", "SUBQUERY", "TABLE_FUNCTION", "DISTINCT_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER",
        "ORDER_MODIFIER", "ORDER_DEFAULT", "ASCENDING", "DESCENDING", "ARRAY_TYPE_INFO", "DECIMAL_TYPE_INFO",
        "LIST_TYPE_INFO", "STRUCT_TYPE_INFO", "UNBOUND_TYPE_INFO",
    }
)  # fmt: skip
_ALL: Final = FUNCTIONS | TABLE_FUNCTIONS
_OF_A_BARE_SELECT: Final = frozenset({"type", "select_list", "from_table", "aggregate_handling", "cte_map"})


def refuse_unknown(sql: str, tables: Collection[str], within: Collection[tuple[str, str]] = ()) -> None:
    """Raises `Invalid` unless it is one SELECT over these tables, of functions and types that are known. `within` are tables
    that may be named with the schema they are in."""
    names = frozenset(name.lower() for name in (*tables, *map(_IN.join, within)))
    waiting = [(parsed(sql), names)]
    while waiting:
        one, seen = waiting.pop()
        if isinstance(one, dict):
            _refuse(one, seen)
            waiting += _inside(one, seen)
        elif isinstance(one, list):
            waiting += [(each, seen) for each in one]


def tables_of(statement: Any) -> frozenset[str]:
    """The tables that a SELECT reads, in small letters, without what it calls so itself."""
    waiting, found = [(statement, frozenset[str]())], set[str]()
    while waiting:
        one, seen = waiting.pop()
        if isinstance(one, dict):
            if one.get("type") == "BASE_TABLE" and (name := one["table_name"].lower()) not in seen:
                found.add(name)
            waiting += _inside(one, seen)
        elif isinstance(one, list):
            waiting += [(each, seen) for each in one]
    return frozenset(found)


def refuse_unlike_condition(text: str, hidden: Collection[str]) -> None:
    """Raises `Invalid` unless the text is one expression about a row, by itself and in parentheses alike, that asks no other
    rows, and no column that is hidden."""
    for sql in (f"SELECT\n{text}\n", f"SELECT (\n{text}\n)"):
        try:
            node = parsed(sql)["node"]
        except Invalid as error:
            raise Invalid(f"This is no condition. {error}") from None
        refuse_unknown(sql, ())
        more = [key for key, value in node.items() if key not in _OF_A_BARE_SELECT and value]
        if more or node["cte_map"]["map"] or node["from_table"]["type"] != "EMPTY" or len(node["select_list"]) != 1:
            raise Invalid("A condition is one expression that is true or false of a row, like: id = 3 AND name IS NULL")
        for one in dicts(node["select_list"]):
            _refuse_in_condition(one, frozenset(name.lower() for name in hidden))


def parsed(sql: str) -> Any:
    """The one SELECT, as a tree."""
    with duckdb.connect(":memory:", config={"enable_external_access": "false", "threads": "1"}) as connection:
        row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
    try:
        told = json.loads(row[0] if row else "", object_pairs_hook=_once)
    except RecursionError:
        raise Invalid("The query is nested too deeply: write it with fewer levels.") from None
    except ValueError:
        raise Invalid("The query cannot be looked through: write it more simply.") from None
    if told["error"]:
        raise Invalid(f"A query is one SELECT, and this cannot be read as one: {told.get('error_message', '')[:1000]}")
    if len(told["statements"]) != 1:
        raise Invalid(f"A query is one SELECT, and these are {len(told['statements'])} statements.")
    return told["statements"][0]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Invalid("The query cannot be looked through: write it more simply.")
    return found


def _inside(one: dict[str, Any], seen: frozenset[str]) -> Iterator[tuple[Any, frozenset[str]]]:
    """What it consists of, each with the tables that are seen from there: its own WITH are seen by those that follow."""
    own = seen
    for entry in (one.get("cte_map") or {}).get("map", ()):
        name, node = entry["key"].lower(), entry["value"]["query"]["node"]
        yield entry["value"], own | {name} if node["type"] == "RECURSIVE_CTE_NODE" else own
        own = own | {name}
    for key, value in one.items():
        if key != "cte_map":
            yield value, own


def _refuse(one: dict[str, Any], tables: frozenset[str]) -> None:
    kind = one.get("type")
    if "class" in one:
        if one["class"] not in _EXPRESSIONS:
            raise Invalid(f"A query cannot have this in it: {one['class']}.")
    elif isinstance(kind, str) and kind not in _PARTS:
        raise Invalid(f"A query cannot have this in it: {kind}.")
    if "function_name" in one:
        _refuse_function(one, _ALL)
    if kind == "TABLE_FUNCTION":
        _refuse_function(one["function"], TABLE_FUNCTIONS)
    if kind == "BASE_TABLE":
        _refuse_table(one, tables)
    if kind == "SHOW_REF" and not one.get("query"):
        raise Invalid("A query is one SELECT: what there is besides the given tables is not shown.")
    if "id" in one and "type_info" in one:
        _refuse_type(one)


def _refuse_function(one: dict[str, Any], known: Collection[str]) -> None:
    name = one.get("function_name", "")
    if name.lower() not in known:
        raise Invalid(f"The function {name} is not allowed in queries: it is none of those that only compute.")
    if one.get("export_state"):
        raise Invalid(f"The state of {name} is not shown: ask for its result.")


def _refuse_table(one: dict[str, Any], tables: frozenset[str]) -> None:
    name, schema = one["table_name"], one.get("schema_name")
    if one.get("catalog_name") or (schema and f"{schema}{_IN}{name}".lower() not in tables):
        raise Invalid(f"The table {name!r} is named with what it is in, and tables are in nothing here: write its name alone.")
    if not schema and name.lower() not in tables:
        there = sorted(one for one in tables if _IN not in one)
        others = f"There are: {', '.join(there)}." if there else "No dataset of the project is called so."
        raise Invalid(f"The table {name!r} does not exist here. {others}")


def _refuse_type(one: dict[str, Any]) -> None:
    said = one["id"]
    if said == "UNBOUND":
        info = one["type_info"]
        said = info["name"]
        if said.lower() in NAMED_TYPES and not info.get("schema") and not info.get("catalog"):
            return
    elif said in TYPES:
        return
    raise Invalid(f"The type {said} is not allowed in queries.")


def dicts(tree: Any) -> Iterator[dict[str, Any]]:
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield one
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()


def _refuse_in_condition(one: dict[str, Any], hidden: frozenset[str]) -> None:
    if one.get("class") in _NOT_IN_CONDITIONS:
        raise Invalid(
            "A condition is about one row and its columns by their names: it has no SELECT, no window and no * in it."
        )
    if one.get("function_name", "").lower() == "error":
        raise Invalid("The function error is not allowed in conditions.")
    if hidden and one.get("class") == "COLUMN_REF":
        _refuse_hidden([name.lower() for name in one["column_names"]], hidden)


def _refuse_hidden(names: Sequence[str], hidden: frozenset[str]) -> None:
    """The table's own name at the end stands for all of its columns."""
    if not hidden.isdisjoint(names):
        raise Invalid(f"Column {'.'.join(names)} is classified: only who may see its values can delete rows by them.")
    if names[-1] == ROWS_OF:
        raise Invalid(f"{ROWS_OF} stands for whole rows, which have classified columns: name the columns.")
