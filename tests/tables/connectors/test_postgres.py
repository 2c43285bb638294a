"""A real Postgres read as Arrow: every type as it is, little memory, and clear words where it cannot be."""

import datetime as dt
import time
import uuid
from decimal import Decimal

import psycopg
import pyarrow as pa
import pytest

from falaj.base.errors import Invalid
from falaj.tables.connectors.asking import Asked
from falaj.tables.connectors.opened import Opened, SourceUnavailable
from falaj.tables.connectors.opening import opened
from falaj.tables.forms import Form
from tests.servers.postgres import PostgresServer


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url.replace("+psycopg", "")


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def connections(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("select 1 from pg_stat_activity where application_name = 'falaj'").fetchall()
    return len(found)


def rows(source: Opened) -> list[dict[str, object]]:
    return source.reader().read_all().to_pylist()


def test_types_and_values_are_kept(url: str):
    number = uuid.UUID("0f8b1cde-26a1-4c0d-8f3e-4b1f3a0f9d11")
    run(
        url,
        "create type flow as enum ('slow', 'fast')",
        "create domain litres as int check (value > 0)",
        """create table wells (id bigint, small smallint, depth real, exact double precision, price numeric(12, 3), wide
        numeric(50, 5), huge numeric(3, -2), ok boolean, name text, code char(3), raw bytea, day date, at timestamptz,
        clock time, "local" timestamp, kind flow, volume litres, facts jsonb, more json, uid uuid)""",
        f"""insert into wells values (9223372036854775807, -5, 1.5, 0.1, 1234.5, 12345678901234567890123456789012345678901234.5,
        12300, true, 'بئر', 'ab', '\\x00ff', '2026-11-16', '2026-11-16 12:00:00+04', '09:30:00.000001', '2026-11-16 09:30',
        'fast', 7, '{{"a": [1]}}', '{{"b":2}}', '{number}')""",
        "insert into wells (id) values (1)",
    )
    source = opened(url, Asked(table="wells"))
    assert [str(field.type) for field in source.schema] == [
        "int64", "int16", "float", "double", "decimal128(12, 3)", "decimal256(50, 5)", "decimal128(5, 0)", "bool", "string",
        "string", "binary", "date32[day]", "timestamp[us, tz=UTC]", "time64[us]", "timestamp[us]", "string", "int32", "string",
        "string", "string",
    ]  # fmt: skip
    full, empty = rows(source)
    assert list(full.values()) == [
        9223372036854775807, -5, 1.5, 0.1, Decimal("1234.500"), Decimal("12345678901234567890123456789012345678901234.50000"),
        Decimal(12300), True, "بئر", "ab ", b"\x00\xff", dt.date(2026, 11, 16), dt.datetime(2026, 11, 16, 8, tzinfo=dt.UTC),
        dt.time(9, 30, 0, 1), dt.datetime.fromisoformat("2026-11-16T09:30"), "fast", 7, '{"a": [1]}', '{"b":2}', str(number),
    ]  # fmt: skip
    assert list(empty.values()) == [1, *[None] * 19]


def test_a_query_gives_its_rows_and_a_table_may_be_in_a_schema(url: str):
    run(url, "create schema sales", "create table sales.orders (id int)", "insert into sales.orders values (1), (2)")
    assert rows(opened(url, Asked(table="sales.orders"))) == [{"id": 1}, {"id": 2}]
    source = opened(
        url.replace("postgresql://", "postgres://"), Asked(query="select id * 2 as id from sales.orders where '%'='%';")
    )
    assert rows(source) == [{"id": 2}, {"id": 4}]
    assert source.shown.startswith("postgresql:///") or source.shown.startswith("postgres:///")
    empty = opened(url, Asked(query="select id from sales.orders where false"))
    assert (empty.schema, rows(empty)) == (pa.schema([("id", pa.int32())]), [])


def test_what_tables_here_do_not_have_is_refused_column_by_column(url: str):
    run(url, "create table odd (id int, tags text[], pause interval, free numeric, place point, sizes int[])")
    with pytest.raises(Invalid) as caught:
        opened(url, Asked(table="odd"))
    said = str(caught.value)
    for part in ("'tags' is an array (text[])", "'pause' is an interval", "'free' is numeric", "place::text", "int4[]"):
        assert part in said
    typed = Asked(query="select free from odd", form=Form(types={"free": "decimal(20, 2)"}))
    run(url, "insert into odd (free) values (1.25), (null)")
    assert rows(opened(url, typed)) == [{"free": Decimal("1.25")}, {"free": None}]
    run(url, "insert into odd (free) values (0.125)")
    with pytest.raises(Invalid, match=r"'free' is decimal\(20, 2\), and row 3 holds Decimal\('0.125'\)"):
        rows(opened(url, typed))
    with pytest.raises(Invalid, match="no column 'fee'"):
        opened(url, Asked(query="select free from odd", form=Form(types={"fee": "text"})))


@pytest.mark.parametrize("value", ["'infinity'::timestamptz", "'NaN'::numeric(5, 2)", "'0044-03-15 BC'::date"])
def test_values_that_no_column_holds_are_told(url: str, value: str):
    with pytest.raises(Invalid):
        rows(opened(url, Asked(query=f"select {value} as odd")))


def test_rows_are_fetched_as_they_are_asked_for(url: str):
    """The query would fail near its end, and never comes there: were it gathered on either side, it would."""
    query = "select n, repeat('x', 100) as pad, 1 / (1999999 - n) as late from generate_series(1, 2000000) n"
    source = opened(url, Asked(query=query))
    read = [next(source.batches) for _ in range(3)]
    assert 4096 < sum(batch.num_rows for batch in read) < 500_000
    assert all(batch.nbytes < 32 << 20 for batch in read)
    source.batches.close()  # type: ignore[attr-defined]
    while connections(url):  # the server notices a little later
        time.sleep(0.05)


def test_wide_rows_come_a_few_at_a_time(url: str):
    """A hundred narrow ones say nothing of those behind them."""
    query = "select n, repeat('x', case when n > 100 then 500000 else 10 end) as pad from generate_series(1, 600) n"
    sizes = [(batch.num_rows, batch.nbytes) for batch in opened(url, Asked(query=query)).batches]
    assert sum(count for count, _ in sizes) == 600
    assert max(size for _, size in sizes) < 64 << 20


def test_the_database_is_only_read(url: str):
    run(url, "create table kept (id int)")
    for query in ("delete from kept returning id", "select id from kept; drop table kept"):
        with pytest.raises(Invalid):
            rows(opened(url, Asked(query=query)))
    assert rows(opened(url, Asked(table="kept"))) == []


def test_mistakes_are_told_without_the_password(url: str, postgres_server: PostgresServer):
    with pytest.raises(Invalid, match='"nowhere" does not exist'):
        opened(url, Asked(table="nowhere"))
    with pytest.raises(Invalid, match="syntax error"):
        opened(url, Asked(query="selec 1"))
    with pytest.raises(Invalid, match=r"a table .* or a query"):
        opened(url, Asked())
    secret = url.replace("falaj@", "nobody:geheim@")
    with pytest.raises(Invalid, match='"nobody" does not exist') as caught:
        opened(secret, Asked(table="wells"))
    assert "geheim" not in str(caught.value)
    with pytest.raises(SourceUnavailable) as gone:
        opened("postgresql://reader:geheim@127.0.0.1:1/sales", Asked(table="wells"))
    assert "geheim" not in str(gone.value)


def test_a_wrong_password_is_told_without_it(url: str, postgres_server: PostgresServer):
    rules = postgres_server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    run(url, "create role reader login password 'richtig'")
    try:
        rules.write_text("local all reader scram-sha-256\n" + before)
        run(url, "select pg_reload_conf()", "select pg_sleep(0.2)")
        assert rows(opened(url.replace("falaj@", "reader:richtig@"), Asked(query="select 1 as one"))) == [{"one": 1}]
        with pytest.raises(Invalid, match="lets nobody in") as caught:
            opened(url.replace("falaj@", "reader:geheim@"), Asked(query="select 1 as one"))
        assert "geheim" not in str(caught.value)
    finally:
        rules.write_text(before)
        run(url, "select pg_reload_conf()", "drop role reader")


def test_a_connection_that_is_cut_is_told(url: str):
    source = opened(url, Asked(query="select n, repeat('x', 100) from generate_series(1, 1000000) n"))
    next(source.batches)
    run(url, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'falaj'")
    with pytest.raises(SourceUnavailable, match="No version was made"):
        for _ in source.batches:
            pass
    reader = opened(url, Asked(query="select n, repeat('x', 100) from generate_series(1, 1000000) n")).reader()
    reader.read_next_batch()
    run(url, "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'falaj'")
    with pytest.raises(SourceUnavailable):  # through Arrow's reader as well, which is what is sent
        reader.read_all()
