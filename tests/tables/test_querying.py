"""Queries find over sealed parts what DuckDB finds in a table of its own, whatever Arrow would make of the condition."""

import collections
import datetime
import decimal
import math
import tempfile

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings

from falaj.base.errors import Invalid, TooLarge
from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.errors import Altered
from falaj.tables.orders import PartToRead, TableToRead
from falaj.tables.querying import OutOfTime, Querying
from tests.tables.test_parts import KEY, people, sealed
from tests.tables.values import tables

_D, _S = decimal.Decimal, datetime.timedelta(seconds=1)
ROWS = pa.table(
    {
        "i": pa.array([1, None, -5, 2**62, 0] * 50),
        "u": pa.array([1, None, 2**64 - 1, 0, 7] * 50, pa.uint64()),
        "f": pa.array([1.5, None, math.nan, math.inf, -math.inf] * 50),
        "g": pa.array([0.1, None, math.nan, -0.0, 0.0] * 50, pa.float32()),
        "s": pa.array(["a", None, "", "ü", "b"] * 50),
        "y": pa.array([b"a", None, b"", b"\xff", b"b"] * 50),
        "b": pa.array([True, None, False, True, False] * 50),
        "m": pa.array([0, None, -1, 1774745999999999, 1774746000000000] * 50, pa.timestamp("us", "UTC")),
        "d": pa.array([0, None, -1, 20000, 20001] * 50, pa.date32()),
        "t": pa.array([0, None, 1, 3_600_000_000, 86_399_999_999] * 50, pa.time64("us")),
        "c": pa.array([_D("1.50"), None, _D("-2.25"), _D("0.00"), _D("99999999.99")] * 50, pa.decimal128(10, 2)),
        "n": pa.array([_S, None, 0 * _S, -86400 * _S, 3 * 86400 * _S] * 50, pa.duration("us")),
        "q": pa.array([{"z": 1.5}, None, {"z": math.nan}, {"z": None}, {"z": -1.0}] * 50),
        "l": pa.array([[1], None, [], [1, None], [2]] * 50),
    }
)
CONDITIONS = """
i > 0 | i = 1 | i IS NULL | i <> 1 | i IN (1, 0) | i BETWEEN -5 AND 1 | i NOT IN (1) | i = 1 OR i IS NULL | abs(i) = 5
u >= 18446744073709551615 | u = 7 | i > u::HUGEINT
f > 1 | f >= 1.5 | f < 1 | f <= 'inf'::DOUBLE | f = 'nan'::DOUBLE | f <> 1.5 | f > 'inf'::DOUBLE | f < 'nan'::DOUBLE | NOT f > 1
g = 0.1::FLOAT | g = 0 | g > 0 | g <= 'nan'::FLOAT | f IN (1.5, 'nan'::DOUBLE) | f IS NULL
s = 'a' | s > 'a' | s >= '' | s IN ('a', 'ü') | s LIKE 'a%' | s <> 'a' | y = 'a'::BLOB | y > 'a'::BLOB | b | NOT b | b IS NULL
m > '2026-03-29 00:59:59.999999+00' | m = '2026-03-29 01:00:00+00' | m < '1970-01-01 00:00:00+00'
m >= '2026-03-29 03:00:00+02'
m::DATE = '2026-03-29' | d > '2024-01-01' | d = '2024-10-04' | d < DATE '1970-01-01' | t > '00:00:01' | t = '01:00:00'
c > 1.5 | c = 1.5 | c < 0 | c >= 99999999.99 | c IN (1.50) | c > 1.499 | n > INTERVAL 1 SECOND | n < INTERVAL 0 SECOND
q.z > 1 | q.z > 'inf'::DOUBLE | q.z <= 'nan'::DOUBLE | q.z = 1.5 | q.z IS NULL | l = [1] | i > 0 AND f > 1 AND s = 'a'
(i = 1 OR f > 100) AND b
"""


def table(*contents, schema):
    """Parts behind descriptors that live as long as the test's process needs them."""
    parts = []
    for content in contents:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the test
        file.write(content)
        file.flush()
        parts.append((file, PartToRead(file=file.fileno(), key=KEY, object_id="a" * 32)))
    return [file for file, _ in parts], TableToRead(schema=schema, parts=tuple(part for _, part in parts))


def rows(asked, sql):
    _, found = asked.batches(sql, seconds=60)
    return [tuple(row.values()) for batch in found for row in batch.to_pylist()]


def test_conditions_mean_the_same_wherever_they_are_looked_at():
    theirs = duckdb.connect()
    theirs.execute("SET TimeZone = 'UTC'")
    theirs.register("given", ROWS)
    theirs.execute("CREATE TABLE t AS SELECT * FROM given")
    files, ours = table(sealed(ROWS)[0], schema=from_arrow(ROWS.schema))
    conditions = [one.strip() for line in CONDITIONS.strip().splitlines() for one in line.split("|")]
    with Querying({"t": ours}, memory_bytes=1 << 30, threads=2) as asked:
        for condition in conditions:
            sql = f"SELECT count(*) a, count(i) b, count(f) c FROM t WHERE {condition}"
            assert rows(asked, sql) == theirs.execute(sql).fetchall(), condition
        for file in files:
            file.close()
    theirs.close()


@given(tables())
@settings(max_examples=30)
def test_every_type_comes_out_as_it_went_in(rows_given):
    files, ours = table(sealed(rows_given)[0], schema=from_arrow(rows_given.schema))
    with Querying({"t": ours}, memory_bytes=1 << 30, threads=2) as asked:
        fitting, found = asked.batches("SELECT * FROM t", seconds=60)
        assert [row for batch in found for row in batch.to_pylist()] == rows_given.to_pylist()
        for column, wanted in zip(fitting.schema.columns, from_arrow(rows_given.schema).columns, strict=True):
            assert column.type == wanted.type or wanted.type == "unknown"
    for file in files:
        file.close()


def test_only_the_columns_that_are_asked_for_are_decrypted():
    content = bytearray(sealed(people(50_000))[0])
    content[len(content) * 3 // 4] ^= 1  # within the names, which lie behind the numbers
    files, ours = table(bytes(content), schema=from_arrow(people(0).schema))
    with Querying({"t": ours}, memory_bytes=1 << 30, threads=2) as asked:
        assert rows(asked, "SELECT sum(n)::BIGINT FROM t") == [(50_000 * 49_999 // 2,)]
        with pytest.raises(Altered):
            rows(asked, "SELECT max(name) FROM t")
    for file in files:
        file.close()


def test_time_is_limited_also_while_rows_are_fetched():
    with Querying({}, memory_bytes=1 << 30, threads=1) as asked:
        _, found = asked.batches("SELECT * FROM range(100000000000)", seconds=0.2)
        with pytest.raises(OutOfTime, match=r"more than 0\.2 seconds"):
            collections.deque(found, maxlen=0)
        with pytest.raises(TooLarge, match="more than 1024 MiB"):
            rows(asked, "SELECT a.range, list(b.range) FROM range(3) a, range(1000000000) b GROUP BY ALL")
        with pytest.raises(Invalid, match="planted"):
            rows(asked, "SELECT CASE WHEN range = 5000000 THEN error('planted') ELSE range::VARCHAR END x FROM range(6000000)")


def test_what_sql_has_no_type_for_is_said():
    wide = pa.table({"a": pa.array([decimal.Decimal(1)], pa.decimal256(50, 2))})
    files, ours = table(sealed(wide)[0], schema=from_arrow(wide.schema))
    with pytest.raises(Invalid, match=r"Column 'a' is decimal\(50, 2\), and queries have at most 38 digits"):
        Querying({"t": ours}, memory_bytes=1 << 30, threads=1)
    for file in files:
        file.close()


def test_names_are_taken_as_they_are():
    odd = pa.table({'a"b': [1], "select": [2], "ü 'x'": [3]})
    files, ours = table(sealed(odd)[0], schema=from_arrow(odd.schema))
    with Querying({'t"; DROP VIEW x; --': ours, "s@3": ours}, memory_bytes=1 << 30, threads=1) as asked:
        assert rows(asked, 'SELECT * FROM "t""; DROP VIEW x; --"') == [(1, 2, 3)]
        assert rows(asked, 'SELECT "select" + "a""b" FROM "s@3"') == [(3,)]
        with pytest.raises(Invalid, match="does not exist"):
            rows(asked, "SELECT * FROM nobody")
    for file in files:
        file.close()


def test_what_is_wrong_with_a_query_is_told_in_one_line():
    with Querying({}, memory_bytes=1 << 30, threads=1) as asked:
        with pytest.raises(Invalid, match=r'near "@" \(line 2: FROM s@3\)\. A version is named in double quotes: "flights@3"'):
            rows(asked, "SELECT 1\nFROM s@3")
        with pytest.raises(Invalid, match=r"'nobody' does not exist here\. No dataset of the project is called so"):
            rows(asked, "SELECT * FROM nobody")


def test_a_statement_made_elsewhere_with_addresses_in_it_is_not_run():
    """It would call what lies at an address. That the tree can be made here, and is refused there, is the point."""
    text = "SELECT * FROM arrow_scan(1099511627776, 1099511627776, 1099511627776)"
    (tree,) = duckdb.execute("SELECT json_serialize_sql(?)", [text]).fetchone()
    pointing = tree.replace('"BIGINT"', '"POINTER"')
    assert pointing.count("POINTER") == 3
    with Querying({}, memory_bytes=1 << 30, threads=1) as asked:
        for sql in (
            text,
            f"SELECT * FROM json_execute_serialized_sql('{pointing}')",
            f"SELECT json_deserialize_sql('{pointing}')",
        ):
            with pytest.raises(Invalid, match=r"The function .* is not allowed"):
                rows(asked, sql)
