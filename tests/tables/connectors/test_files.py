"""Databases that are files: SQLite, whose values have types of their own, and DuckDB."""

import datetime as dt
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from falaj.base.errors import Invalid, NotFound
from falaj.tables.connectors.asking import Asked
from falaj.tables.connectors.opening import opened
from falaj.tables.forms import Form


def rows(source: str, **asked: Any) -> list[dict[str, object]]:
    return opened(source, Asked(**asked)).reader().read_all().to_pylist()


@pytest.fixture
def lite(tmp_path: Path) -> str:
    connection = sqlite3.connect(tmp_path / "wells.db")
    connection.execute(
        "create table wells (id integer primary key, name varchar(20), depth double, price decimal(10, 2), ok boolean, "
        "day date, at datetime, raw blob, any)"
    )
    values = [
        (1, "بئر", 1.5, 12.34, 1, "2026-11-16", "2026-11-16 09:30:00", b"\x00\xff", 7),
        (2, None, 2, 5, 0, None, "2026-11-16T10:30:00.5", None, 7.5),
    ]
    connection.executemany("insert into wells values (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
    connection.commit()
    connection.close()
    return f"sqlite:///{tmp_path}/wells.db".replace("sqlite:///", "sqlite:////", 1).replace("/////", "////")


def test_a_table_of_sqlite_has_the_types_it_declares(lite: str):
    source = opened(lite, Asked(table="wells"))
    assert [str(field.type) for field in source.schema] == [
        "int64", "string", "double", "decimal128(10, 2)", "bool", "date32[day]", "timestamp[us]", "binary", "double",
    ]  # fmt: skip
    first, second = source.reader().read_all().to_pylist()
    assert list(first.values()) == [
        1, "بئر", 1.5, Decimal("12.34"), True, dt.date(2026, 11, 16),
        dt.datetime.fromisoformat("2026-11-16T09:30"), b"\x00\xff", 7.0,
    ]  # fmt: skip
    assert (second["price"], second["at"]) == (Decimal("5.00"), dt.datetime.fromisoformat("2026-11-16T10:30:00.5"))
    assert source.shown == "sqlite:///wells.db, table wells"


def test_a_query_has_the_types_of_its_first_rows_or_those_that_are_said(lite: str):
    assert rows(lite, query="select id * 2 as twice, upper('a') as a, null as none from wells where id = 1") == [
        {"twice": 2, "a": "A", "none": None}
    ]
    assert rows(
        lite,
        query="select id, '2026-11-16T12:00:00+04:00' as at from wells limit 1",
        form=Form(types={"id": "text", "at": "moment"}),
    ) == [{"id": "1", "at": dt.datetime(2026, 11, 16, 8, tzinfo=dt.UTC)}]


def test_a_value_of_another_type_is_told_by_its_row(lite: str, tmp_path: Path):
    connection = sqlite3.connect(tmp_path / "wells.db")
    connection.execute("insert into wells (id, depth) values (3, 'deep')")
    connection.commit()
    with pytest.raises(Invalid, match="'depth' is float64, and row 3 holds 'deep'"):
        rows(lite, table="wells")
    assert rows(lite, table="wells", form=Form(types={"depth": "text"}))[2]["depth"] == "deep"
    connection.execute("update wells set depth = 3, at = '2026-11-16T12:00:00Z' where id = 3")
    connection.commit()
    connection.close()
    with pytest.raises(Invalid, match="'at' is moment, and row 3"):
        rows(lite, table="wells")


def test_sqlite_is_only_read_and_mistakes_are_told(lite: str, tmp_path: Path):
    with pytest.raises(Invalid, match="readonly"):
        rows(lite, query="delete from wells returning id")
    with pytest.raises(Invalid, match="one statement"):
        rows(lite, query="select 1; select 2")
    with pytest.raises(Invalid, match="no such table"):
        rows(lite, table='wells" where 1; --')
    with pytest.raises(Invalid, match="no such table"):
        rows(lite, table="nowhere")
    with pytest.raises(NotFound, match=r"no file nothing\.db"):
        rows("sqlite:///nothing.db", table="wells")
    (tmp_path / "text.db").write_text("no database at all, but long enough to look like something")
    with pytest.raises(Invalid, match="not a database"):
        rows(f"sqlite:///{tmp_path}/text.db", table="wells")
    assert not Path("nothing.db").exists()


def test_sqlite_rows_are_fetched_as_they_are_asked_for(lite: str):
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n"
    source = opened(lite, Asked(query=endless))
    read = [next(source.batches)["i"].to_pylist() for _ in range(3)]
    assert [number for numbers in read for number in numbers] == list(range(1, 1 + sum(map(len, read))))
    assert all(len(numbers) < 150_000 for numbers in read)


@pytest.fixture
def duck(tmp_path: Path) -> str:
    file = tmp_path / "wells.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(
            "create table wells (id bigint, price decimal(12, 3), seen timestamptz, kind enum ('slow', 'fast'), tags int[])"
        )
        connection.execute(
            "insert into wells values (1, 1.5, '2026-11-16 12:00:00+04', 'fast', [1, 2]), (2, null, null, null, null)"
        )
        connection.execute('create view "cheap AS" (id, "at AS") as select id, seen from wells where price < 100')
    return f"duckdb:///{file}"


def test_a_table_and_a_query_of_duckdb_are_read(duck: str):
    assert rows(duck, table="wells") == [
        {
            "id": 1,
            "price": Decimal("1.500"),
            "seen": dt.datetime(2026, 11, 16, 8, tzinfo=dt.UTC),
            "kind": "fast",
            "tags": [1, 2],
        },
        {"id": 2, "price": None, "seen": None, "kind": None, "tags": None},
    ]
    assert rows(duck, query="select count(*) as n from main.wells") == [{"n": 2}]
    assert rows(duck, query='select id from "cheap AS"') == [{"id": 1}]
    assert [row["id"] for row in rows(duck, table="cheap AS")] == [1]


def test_duckdb_is_only_read_and_reaches_nothing_else(duck: str, tmp_path: Path):
    (tmp_path / "other.csv").write_text("id\n1\n")
    for query in (
        "drop table wells",
        f"from read_csv('{tmp_path}/other.csv')",
        "from nowhere",
        "from nowhere.wells",
        "attach 'x.db'",
        "from query('select 1')",
        "select getenv('HOME')",
        "from duckdb_settings()",
        "set threads = 1",
    ):
        with pytest.raises(Invalid):
            rows(duck, query=query)
    with pytest.raises(Invalid, match="'pause'"):
        rows(duck, query="select interval 1 month as pause")


@pytest.mark.parametrize(
    "body", ["select * from read_csv('{folder}/other.csv')", "select * from query('select 1')", "select getenv('HOME')"]
)
def test_views_of_a_duckdb_file_are_held_against_the_same_rules(duck: str, body: str, tmp_path: Path):
    (tmp_path / "other.csv").write_text("id\n1\n")
    with duckdb.connect(duck.removeprefix("duckdb:///")) as connection:
        connection.execute("create macro getenv(x) as x")
        connection.execute(f"create view inner_one as {body.format(folder=tmp_path)}")
        connection.execute("create view others as select * from inner_one")
    assert len(rows(duck, table="wells")) == 2  # what nobody asks for harms nobody
    for asked in ({"table": "others"}, {"table": "main.others"}, {"query": "select count(*) as n from others"}):
        with pytest.raises(Invalid, match="The view 'inner_one' of the file is not allowed"):
            rows(duck, **asked)


@pytest.mark.parametrize(
    "macro", ["lower(x) as (select content from read_text('/x'))", "range(x) as table from read_text('/x')"]
)
def test_a_macro_of_a_duckdb_file_is_not_taken_for_what_is_harmless(duck: str, macro: str):
    with duckdb.connect(duck.removeprefix("duckdb:///")) as connection:
        connection.execute(f"create macro {macro}")
        connection.execute("create macro duckdb_functions() as table select 'nothing' as function_name, true as internal")
    with pytest.raises(Invalid, match="drop it there first"):
        rows(duck, query="select lower('A') as a from range(1)")


def test_duckdb_rows_are_made_as_they_are_asked_for(duck: str):
    before = pa.total_allocated_bytes()
    source = opened(duck, Asked(query="select range as i, repeat('x', 1000) as pad from range(100000000)"))
    for _ in range(3):
        next(source.batches)
    assert pa.total_allocated_bytes() - before < 1 << 30
    source.batches.close()  # type: ignore[attr-defined]
