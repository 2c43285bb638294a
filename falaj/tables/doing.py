"""What each order does inside a data worker: told in JSON, with descriptors, answered in JSON. `worker` receives and sends."""

import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from falaj.base.errors import FalajError, TooLarge
from falaj.tables import counting
from falaj.tables.comparing import compared
from falaj.tables.elsewhere import orders as elsewhere
from falaj.tables.joining import orders as joining
from falaj.tables.looking import looked_through
from falaj.tables.making import make_part, seal
from falaj.tables.profiles import merged
from falaj.tables.querying import Querying
from falaj.tables.reading import batches
from falaj.tables.schemas import Schema
from falaj.tables.showing import shown
from falaj.tables.statements import refuse_unlike_condition
from falaj.tables.telling import heard_form, heard_key, heard_schema, heard_table, told_schema

Told = Mapping[str, Any]
_MOST_SHOWN: Final = 64 << 20
_FULL: Final = (errno.EPERM, errno.EFBIG)  # what writing beyond a file's bound is told


def make(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """The source is the first descriptor, what it is sealed into the second."""
    with open(files[0], "rb", buffering=0, closefd=False) as source, open(files[1], "wb", closefd=False) as into:
        facts = make_part(
            source,
            into,
            form=heard_form(told["form"]),
            schema=None if told["schema"] is None else heard_schema(told["schema"]),
            key=heard_key(told["key"]),
            object_id=told["object_id"],
        )
    return {**facts, "schema": told_schema(facts["schema"])}


def make_of_query(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """What a query finds, sealed into the first descriptor."""
    with _asked(told, files) as asked, open(files[0], "wb", closefd=False) as into:
        fitting, found = asked.batches(told["sql"], seconds=told["limits"]["seconds"])
        facts = seal(
            found,
            fitting.target,
            into,
            schema=None if told["schema"] is None else heard_schema(told["schema"]),
            key=heard_key(told["key"]),
            object_id=told["object_id"],
        )
    return {**facts, "schema": told_schema(facts["schema"])}


def merge_profiles(told: Told, files: Sequence[int]) -> dict[str, Any]:
    return {"profile": merged(told["profiles"], heard_schema(told["schema"]), told["renamed"])}


def compare_profiles(told: Told, files: Sequence[int]) -> dict[str, Any]:
    return {"columns": compared(told["before"], told["after"])}


def query(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """The answer goes into the first descriptor as an Arrow stream."""
    most_rows, most_bytes = told["limits"]["rows"], told["limits"]["bytes"]
    with _asked(told, files) as asked, open(files[0], "wb", closefd=False) as into:
        fitting, found = asked.batches(told["sql"], seconds=told["limits"]["seconds"])
        rows, more = 0, False
        with pa.ipc.new_stream(into, fitting.target) as stream:
            for batch in found:
                kept = batch.slice(0, most_rows - rows)
                stream.write_batch(kept)
                rows, more = rows + kept.num_rows, kept.num_rows < batch.num_rows
                if into.tell() > most_bytes:
                    raise TooLarge(f"The answer has more than {most_bytes >> 20} MiB: ask for fewer rows or columns.")
                if more:
                    break
        return {"schema": told_schema(fitting.schema), "rows": rows, "size": into.tell(), "more": more}


def query_rows(told: Told, files: Sequence[int]) -> dict[str, Any]:
    with _asked(told, files) as asked:
        fitting, found = asked.batches(told["sql"], seconds=told["limits"]["seconds"])
        return _rows(fitting.schema, found, told["limits"]["rows"], told["limits"]["bytes"])


def check_condition(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """Whether the text is a condition about one row, and about none of the hidden columns."""
    refuse_unlike_condition(told["where"], told["hidden"])
    return {}


def look_through(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """What a query reads, by its text."""
    found = looked_through(told["sql"])
    return {
        "tables": found.tables,
        "words": sorted(found.words),
        "wide": found.wide,
        "stars": found.stars,
        "excluded": sorted(found.excluded),
        "outputs": None if found.outputs is None else [sorted(words) for words in found.outputs],
        "known": found.known,
        "changes": found.changes,
    }


def preview(told: Told, files: Sequence[int]) -> dict[str, Any]:
    table = heard_table(told["table"], files)
    wanted = told["columns"] or table.schema.names
    schema = Schema(columns=tuple(table.schema.column(name) for name in wanted))
    found = batches(table, wanted, rows=min(told["rows"] + 1, 8192))
    return _rows(schema, found, told["rows"], _MOST_SHOWN)


def _rows(schema: Schema, found: Iterable[pa.RecordBatch], most: int, most_bytes: int) -> dict[str, Any]:
    rows: list[list[Any]] = []
    taken, more = 0, False
    for batch in found:
        taken += batch.nbytes
        if taken > most_bytes:
            raise TooLarge(f"The answer has more than {most_bytes >> 20} MiB: ask for fewer rows or columns.")
        rows += shown(batch.slice(0, most - len(rows) + 1))
        if len(rows) > most:
            more = True
            break
    return {"schema": told_schema(schema), "rows": rows[:most], "more": more}


def _asked(told: Told, files: Sequence[int]) -> Querying:
    tables = {name: heard_table(one, files) for name, one in told["tables"].items()}
    return Querying(tables, memory_bytes=told["memory_bytes"], threads=told["threads"])


ORDERS: Final[Mapping[str, Callable[[Told, Sequence[int]], dict[str, Any]]]] = {
    "make": make,
    "make_of_query": make_of_query,
    "merge_profiles": merge_profiles,
    "compare_profiles": compare_profiles,
    "check_condition": check_condition,
    "look_through": look_through,
    "query": query,
    "query_rows": query_rows,
    "preview": preview,
    **counting.ORDERS,
    **joining.ORDERS,
    **elsewhere.ORDERS,
}


def done(told: Told, files: Sequence[int]) -> dict[str, Any]:
    """An order's answer, or its error by the name of its kind."""
    try:
        return ORDERS[told["order"]](told, files)
    except FalajError as error:
        return {"error": type(error).__name__, "says": str(error)}
    except OSError as error:
        if error.errno in _FULL:
            return {"error": "TooLarge", "says": "The answer has more bytes than it may: ask for fewer rows or columns."}
        return {"error": "", "says": f"{type(error).__name__}: {str(error)[:500]}"}
    except MemoryError:
        return {"error": "TooLarge", "says": "This takes more memory than a data worker may have: send it in smaller pieces."}
    except Exception as error:  # noqa: BLE001 - whatever it is, whoever asked is told that it failed
        return {"error": "", "says": f"{type(error).__name__}: {str(error)[:500]}"}
