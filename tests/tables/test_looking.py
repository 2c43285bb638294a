"""What a SELECT reads, by its text: never less than what it does."""

import duckdb
import pytest

from falaj.base.errors import Invalid
from falaj.tables.looking import looked_through

# Statements over users(id, country, email, details) and clicks(id, amount): does the answer depend on an e-mail address?
STATEMENTS = [
    ("SELECT id, country FROM users", False),
    ("SELECT count(*) FROM users", False),
    ("SELECT * EXCLUDE (email, details) FROM users", False),
    ("SELECT u.country, sum(amount) FROM clicks JOIN users u USING (id) GROUP BY ALL ORDER BY 1", False),
    ("WITH q AS (SELECT id FROM users) SELECT q.id FROM q ORDER BY id", False),
    ("SELECT id FROM users ORDER BY id LIMIT 1", False),
    ("SELECT c.id FROM clicks c WHERE EXISTS (SELECT 1 FROM users u WHERE u.id = c.id) ORDER BY ALL", False),
    ("SELECT email FROM users", True),
    ('SELECT "EMAIL" AS x FROM users', True),
    ("SELECT * FROM users", True),
    ("FROM users", True),
    ("FROM users SELECT email", True),
    ("SELECT users.* FROM users", True),
    ("SELECT u FROM users u", True),
    ("SELECT users FROM users", True),
    ("SELECT row_to_json(u) FROM users u", True),
    ("SELECT u['email'] FROM users u", True),
    ("SELECT x FROM users u(a, b, x, d)", True),
    ("SELECT COLUMNS('^e') FROM users", True),
    ("SELECT COLUMNS(c -> c LIKE 'em%') FROM users", True),
    ("SELECT * RENAME (email AS x) FROM users", True),
    ("SELECT * REPLACE (email AS country) FROM users", True),
    ("SELECT id FROM users WHERE email < 'b'", True),
    ("SELECT id FROM users ORDER BY email LIMIT 1", True),
    ("SELECT count(DISTINCT email) FROM users", True),
    ("SELECT max(id) FILTER (email < 'b') FROM users", True),
    ("SELECT first(id ORDER BY email) FROM users", True),
    ("SELECT rank() OVER (ORDER BY email) FROM users ORDER BY id", True),
    ("SELECT x FROM (SELECT email AS x FROM users)", True),
    ("WITH q AS (FROM users) SELECT q.email FROM q", True),
    ("WITH q AS (FROM users) SELECT q FROM q", True),
    ("SELECT id FROM users UNION ALL SELECT length(email) FROM users", True),
    ("SELECT a.id FROM users a JOIN users b USING (email) WHERE a.id < 2", True),
    ("SELECT value FROM (UNPIVOT (SELECT id, email FROM users) ON email)", True),
    ("SELECT (SELECT min(email) FROM users) FROM clicks", True),
    ("SELECT struct_pack(e := email) FROM users", True),
    ("SELECT [x.email FOR x IN [u]] FROM users u", True),
    ("SELECT list(u) FROM users u", True),
    ("SELECT id FROM users GROUP BY id, email HAVING email < 'b'", True),
    ("SELECT id FROM users QUALIFY row_number() OVER (ORDER BY email) = 1", True),
    ("SELECT * FROM (SELECT * FROM users) SEMI JOIN clicks USING (id)", True),
    ("SUMMARIZE users", True),
    ("SELECT details.mail FROM users", False),
]


@pytest.mark.parametrize(("sql", "depends"), STATEMENTS)
def test_a_column_that_is_not_told_changes_no_answer(sql: str, depends: bool) -> None:
    looked = looked_through(sql)
    if depends:
        assert looked.reads("email"), sql
    if not looked.reads("email"):
        answers = [_answer(sql, emails) for emails in (("a@x", "c@x"), ("q@y", "p@y"), (None, None))]
        assert answers[0] == answers[1] == answers[2]


def _answer(sql: str, emails: tuple[str | None, str | None]) -> list[tuple[object, ...]]:
    with duckdb.connect(":memory:") as connection:
        connection.execute("CREATE TABLE users (id INT, country TEXT, email TEXT, details STRUCT(mail TEXT))")
        connection.execute("INSERT INTO users VALUES (1, 'AE', ?, {mail: 'm'}), (2, 'OM', ?, {mail: 'n'})", list(emails))
        connection.execute("CREATE TABLE clicks AS SELECT * FROM (VALUES (1, 10), (2, 20), (2, 30)) t(id, amount)")
        return connection.execute(sql).fetchall()


def test_tables_are_those_that_are_read_and_no_names_of_the_query_s_own() -> None:
    looked = looked_through('WITH q AS (SELECT * FROM "b@3"), b AS (SELECT 1) SELECT * FROM q, b, Clicks, (FROM d) e')
    assert looked.tables == ("b@3", "clicks", "d")


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("SELECT random() FROM t", True),
        ("SELECT NOW() FROM t", True),
        ("SELECT current_timestamp FROM t", True),
        ("SELECT x FROM t WHERE d > current_date", True),
        ("SELECT age(x) FROM t", True),
        ("SELECT x FROM t USING SAMPLE 5", True),
        ("SELECT x FROM t TABLESAMPLE 10%", True),
        ("SELECT uuid() FROM t", True),
        ("SELECT age(x, y), date_trunc('day', x) FROM t", False),
    ],
)
def test_what_may_be_another_answer_the_next_time_is_told(sql: str, changes: bool) -> None:
    assert looked_through(sql).changes is changes


def test_what_each_column_is_made_of_is_told_where_it_can_be() -> None:
    looked = looked_through("SELECT a.id, lower(email) AS called, called || '!' AS loud, 1 AS one FROM a JOIN b USING (id)")
    assert [looked.shows(place, frozenset({"Email"})) for place in range(4)] == [False, True, True, False]
    for sql in ("SELECT * FROM a", "SELECT x FROM (SELECT 1 AS x FROM a)", "SELECT 1 AS x FROM a UNION ALL SELECT 2 FROM b"):
        assert looked_through(sql).shows(0, frozenset({"email"})), sql


def test_when_rows_became_known_is_asked_for_by_its_name_alone() -> None:
    assert looked_through("SELECT max(a._known) FROM a").known
    assert not looked_through("SELECT * FROM a").known
    assert not looked_through("SELECT '_known' FROM a").known


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "DROP TABLE a", "SELECT * FROM read_csv('a')", "SELEC 1", ""])
def test_what_is_no_select_that_may_be_run_is_refused(sql: str) -> None:
    with pytest.raises(Invalid):
        looked_through(sql)
