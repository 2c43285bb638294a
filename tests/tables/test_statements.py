"""What a SELECT consists of is known before it is run, wherever in it something stands."""

import duckdb
import pytest

from falaj.base.errors import Invalid
from falaj.tables.functions import FUNCTIONS, TABLE_FUNCTIONS
from falaj.tables.statements import refuse_unknown, refuse_unlike_condition

NEVER = """
arrow_scan arrow_scan_dumb pandas_scan python_map_function json_execute_serialized_sql json_serialize_sql json_serialize_plan
json_deserialize_sql query query_table duckdb_functions duckdb_settings duckdb_secrets pragma_table_info read_csv read_text
read_blob read_parquet read_json glob getenv sniff_csv parquet_scan parquet_metadata current_setting getvariable write_log
finalize combine seq_scan pg_sleep sleep_ms stats
"""
PLACES = """
SELECT {} | SELECT * FROM t WHERE {} = 1 | SELECT 1 ORDER BY {} | SELECT 1 LIMIT (SELECT {}) | SELECT a FROM t GROUP BY {}
SELECT 1 HAVING {} | SELECT 1 QUALIFY {} | WITH w AS (SELECT {}) SELECT 1 | SELECT 1 UNION ALL SELECT {} | VALUES ({})
SELECT sum(a) FILTER ({}) FROM t | SELECT string_agg(a, ',' ORDER BY {}) FROM t | SELECT sum(a) OVER (ORDER BY {}) FROM t
SELECT lag(a, 1, {}) OVER () FROM t | SELECT sum(a) OVER (ROWS {} PRECEDING) FROM t | SELECT * FROM range({})
SELECT list_transform(l, x -> {}) FROM t | SELECT [x FOR x IN l IF {}] FROM t | SELECT a[{}] FROM t
SELECT DISTINCT ON ({}) a FROM t
SELECT * REPLACE ({} AS a) FROM t | SELECT COLUMNS(x -> {}) FROM t | SELECT CASE WHEN a THEN 1 ELSE {} END FROM t
SELECT a FROM t JOIN t AS u ON {} | SELECT a FROM t, LATERAL (SELECT {}) | SELECT EXISTS (SELECT {}) | SELECT CAST({} AS INT)
SUMMARIZE SELECT {} | SELECT * FROM (SELECT {}) PIVOT (sum(a) FOR b IN ('x')) | UNPIVOT (SELECT {}) ON x | SELECT {{'a': {}}}
WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT {} FROM r) SELECT * FROM r | SELECT TRY({}) | SELECT {} COLLATE de
"""
SOUND = """
SELECT * FROM T | WITH w AS (SELECT 1 AS a), v AS (SELECT a FROM w) SELECT * FROM w JOIN v USING (a)
WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 3) SELECT * FROM r | TABLE t | VALUES (1, 'a')
SELECT quantile_cont(a, 0.5), approx_count_distinct(b), count(*) FROM t GROUP BY ALL ORDER BY 1 DESC NULLS LAST LIMIT 10%
SELECT row_number() OVER (PARTITION BY a ORDER BY b) FROM t QUALIFY rank() OVER (ORDER BY a) = 1
SELECT extract(year FROM d), d AT TIME ZONE 'UTC', INTERVAL 3 DAY, DATE '2026-01-01', substring(s FROM 1 FOR 2) FROM t
SELECT s SIMILAR TO 'a' FROM t
SELECT s::JSON -> 'a', s ->> 'b', x::DECIMAL(10, 2), y::FLOAT[3], z::STRUCT(a INT, b TEXT[]), m::MAP(TEXT, INT) FROM t
SELECT * EXCLUDE (a), COLUMNS('b.*') FROM t | FROM t PIVOT (sum(a) FOR b IN ('x', 'y')) | UNPIVOT t ON a, b | DESCRIBE t
SELECT * FROM unnest([1, 2]) AS u(x), generate_series(1, 3) | SELECT * FROM t TABLESAMPLE 10%
SELECT a FROM t EXCEPT ALL SELECT 1
"""
CONDITIONS = """
id = 1 | id = 1 -- why | true | name LIKE 'a%' AND id IN (1, 2) | before.id > 3 | list_contains([1, 2], id) | q.z IS NULL
len([x FOR x IN l IF x > 2]) > 0 | name = '''); --' | day < now() - INTERVAL 30 DAY | id::VARCHAR = '3' | (id = 1) OR (id = 2)
"""
NO_CONDITIONS = """
id = 1), false) UNION ALL BY NAME SELECT id, email FROM before -- | id = 1), false) UNION ALL SELECT 1 WHERE coalesce((id = 1
id = 1) OR (id = 2 | id, 2 | id AS x | id = 1 FROM before | id = 1 WHERE true | id = 1 ORDER BY 1 | id LIMIT 1 | DISTINCT id
id = 1 UNION SELECT 2 | id = 1; SELECT 2 | id = 1 /* | id IN (SELECT 1) | EXISTS (SELECT 1) | error((SELECT 1)) | error(name)
* | COLUMNS(*) = 1 | #1 = 1 | row_number() OVER () = 1 | $1 | getenv('x') = 'a' | id::POINTER IS NULL
"""
OF_HIDDEN = """
email = 'a' | EMAIL = 'a' | before."Email" = 'a' | CAST(email AS INT) = 1 | TRY(email) IS NULL | before::VARCHAR LIKE '%a%'
to_json(before) IS NULL | main.before IS NULL | struct_extract(before, 'email') = 'a' | id = 1 OR length(email) = 3
"""


def each(text):
    return [one.strip() for line in text.strip().splitlines() for one in line.split(" | ")]


@pytest.mark.parametrize("place", each(PLACES))
def test_a_function_that_is_not_known_is_refused_wherever_it_stands(place):
    refuse_unknown(place.format("abs(1)"), ["t"])
    for called in ("getenv('x')", "main.GetEnv('x')", 'system.main."getenv"(1)'):
        with pytest.raises(Invalid, match=r"(?i)function getenv is not allowed"):
            refuse_unknown(place.format(called), ["t"])


@pytest.mark.parametrize("name", NEVER.split())
def test_what_reads_or_runs_something_else_is_never_known(name):
    for sql in (f"SELECT {name}(1)", f"SELECT * FROM {name}(1)", f"SELECT a.{name}() FROM t"):
        with pytest.raises(Invalid, match=f"function {name} is not allowed"):
            refuse_unknown(sql, ["t"])


def test_no_function_that_is_known_takes_an_address():
    pointing = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE list_contains(parameter_types, 'POINTER')"
    found = {name for (name,) in duckdb.execute(pointing).fetchall()}
    assert "arrow_scan" in found
    assert not found & (FUNCTIONS | TABLE_FUNCTIONS)


@pytest.mark.parametrize("sql", each(SOUND))
def test_ordinary_queries_are_not_refused(sql):
    refuse_unknown(sql, ["t"])


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM main.t", "write its name alone"),
        ("SELECT * FROM information_schema.tables", "write its name alone"),
        ("SELECT * FROM duckdb_tables", "does not exist here. There are: t"),
        ("SELECT * FROM (WITH duckdb_views AS (SELECT 1) SELECT 1), duckdb_views", "does not exist"),
        ("WITH sqlite_master AS (SELECT * FROM sqlite_master) SELECT 1", "does not exist"),
        ("SHOW TABLES", "not shown"),
        ("FROM (SHOW TABLES)", "not shown"),
        ("SELECT 1::POINTER", "type POINTER is not allowed"),
        ("SELECT NULL::STRUCT(a POINTER[])", "type POINTER is not allowed"),
        ("SELECT NULL::MAP(INT, main.pointer)", "type pointer is not allowed"),
        ("SELECT sum(a) EXPORT_STATE FROM t", "state of sum"),
        ("SELECT $1", "PARAMETER"),
        ("SELECT 1; SELECT 2", "2 statements"),
        ("EXPLAIN ANALYZE SELECT 1", "one SELECT"),
        ("SELECT " + "NOT " * 900 + "true", "deeply"),
    ],
)
def test_tables_types_and_statements_that_are_not_given_are_refused(sql, said):
    with pytest.raises(Invalid, match=said):
        refuse_unknown(sql, ["t"])


def test_a_condition_is_one_expression_about_a_row():
    for text in each(CONDITIONS):
        refuse_unlike_condition(text, ["email"])
    for text in each(NO_CONDITIONS):
        with pytest.raises(Invalid):
            refuse_unlike_condition(text, [])


def test_a_condition_asks_nothing_of_hidden_columns():
    for text in each(OF_HIDDEN):
        refuse_unlike_condition(text, [])
        with pytest.raises(Invalid, match="classified"):
            refuse_unlike_condition(text, ["eMail"])
