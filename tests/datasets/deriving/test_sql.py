"""Versions derived by SQL: made once of the same rows, linked to them, checked, and no way around what is hidden."""

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from falaj.base.clock import HOUR
from falaj.base.errors import Conflict, FalajError, Forbidden, Invalid, NotFound
from falaj.client.derivations import derive
from falaj.datasets.operations import checks, classes, deriving
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.tidying import PRUNE_VERSIONS, PruneVersions
from falaj.datasets.operations.versions import RESTORE_VERSION, OneVersion
from falaj.governance.projects.operations import SHOW_PROJECT, OneProject
from falaj.governance.roles import Role
from falaj.lineage.graph import Node, ancestors
from tests.datasets.platform import PROJECT, Platform
from tests.datasets.test_client import Line

USERS = b"user,country,email\n1,AE,a@example.com\n2,OM,b@example.com\n"
CLICKS = b"user,amount\n1,2\n1,3\n2,10\n"
SPENT = "SELECT country, sum(amount) AS spent FROM clicks JOIN users USING (user) GROUP BY country ORDER BY country"


def derived(platform: Platform, sql: str = SPENT, *inputs: str, token: str = "", **fields: Any) -> deriving.Derived:
    given = {"project": PROJECT, "dataset": "spent", "sql": sql, "inputs": inputs, **fields}
    return platform.call(deriving.DERIVE, deriving.Derive(**given), token)


def told(platform: Platform) -> None:
    platform.write(USERS, dataset="users")
    platform.write(CLICKS, dataset="clicks")


def hidden(platform: Platform, kind: str = "personal", dataset: str = "users", column: str = "email") -> None:
    one = classes.Classified(column=column, kind=kind)  # type: ignore[arg-type]
    platform.call(classes.CLASSIFY_COLUMNS, classes.ClassifyColumns(project=PROJECT, dataset=dataset, columns=(one,)))


def kinds(platform: Platform, dataset: str = "spent") -> dict[str, str]:
    found = platform.call(classes.SHOW_CLASSES, OneDataset(project=PROJECT, dataset=dataset)).columns
    return {one.column: one.kind for one in found}


def test_what_sql_finds_is_a_version_and_not_made_again_of_the_same_rows(platform: Platform) -> None:
    told(platform)
    first = derived(platform)
    assert (first.version.version, first.cached, first.inputs) == (1, False, ("clicks@1", "users@1"))
    assert platform.rows(name="spent") == [("AE", 5), ("OM", 10)]
    again = derived(platform)
    assert (again.version.version, again.cached) == (1, True)
    assert again.version.derivation is not None
    assert (again.version.derivation.kind, again.version.derivation.code) == ("sql", SPENT)
    platform.write(b"user,amount\n2,1\n", dataset="clicks")
    newer = derived(platform)
    assert (newer.version.version, newer.cached, newer.inputs) == (2, False, ("clicks@2", "users@1"))
    assert platform.rows(name="spent") == [("AE", 5), ("OM", 11)]
    other = derived(platform, SPENT.replace("sum", "max"))
    assert (other.version.version, other.cached) == (3, False)
    pinned = derived(platform, SPENT, "clicks@1")  # made before, and current again
    assert (pinned.version.version, pinned.cached, pinned.version.mode, pinned.version.current) == (4, True, "restore", True)
    assert (pinned.version.digest, platform.rows(name="spent")) == (first.version.digest, [("AE", 5), ("OM", 10)])
    assert derived(platform, SPENT, "clicks@1").version.version == 4
    assert derived(platform, anew=True).version.version == 5
    leaf = platform.leaves("dataset.derive")[1]
    assert leaf["facts"]["cached"] is True


def test_the_same_rows_in_a_restored_input_are_the_same_and_pruned_results_are_made_again(small: Platform) -> None:
    told(small)
    derived(small)
    small.write(b"user,amount\n2,1\n", dataset="clicks")
    derived(small)
    small.call(RESTORE_VERSION, OneVersion(project=PROJECT, dataset="clicks", version="1"))
    again = derived(small)
    assert (again.cached, again.version.version) == (True, 3)
    small.call(PRUNE_VERSIONS, PruneVersions(project=PROJECT, dataset="spent", keep=1))
    newer = derived(small, SPENT, "clicks@2")
    assert (newer.cached, newer.version.version) == (False, 4)


def test_a_derived_version_is_linked_to_what_it_was_made_of(small: Platform) -> None:
    told(small)
    made = derived(small).version
    project = small.call(SHOW_PROJECT, OneProject(project=PROJECT)).id
    walk = small.database.read(lambda work: ancestors(work, project, Node(kind="dataset", id=made.lineage)))
    assert {one.id for one in walk.nodes} == {small.version(name=name).lineage for name in ("users", "clicks")}
    assert {edge.relation for edge in walk.edges} == {"derived"}


def test_what_is_another_answer_each_time_is_made_each_time(small: Platform) -> None:
    told(small)
    for call in ("random()", "now()", "current_date", "uuid()"):
        sql = f"SELECT user, {call} AS moment FROM users"
        assert [derived(small, sql).cached for _ in range(2)] == [False, False]


def test_a_derived_version_that_breaks_a_check_is_in_quarantine_and_released_as_what_it_is(small: Platform) -> None:
    told(small)
    derived(small)
    rule = checks.Check(name="little", kind="range", columns=("spent",), most=10)
    small.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset="spent", checks=(rule,)))
    small.write(b"user,amount\n2,1\n", dataset="clicks")
    for number in (2, 3):  # what is in quarantine is not answered
        bad = derived(small)
        assert (bad.version.quarantined, bad.version.version, bad.cached) == (True, number, False)
        assert [one.check for one in bad.version.findings] == ["little"]
    assert small.dataset("spent").current == 1
    small.call(checks.RELEASE_VERSION, OneVersion(project=PROJECT, dataset="spent", version="3"))
    assert (derived(small).version.version, derived(small).cached) == (4, True)


def test_what_was_made_before_is_held_against_the_checks_of_today(small: Platform) -> None:
    told(small)
    derived(small)
    derived(small, SPENT.replace("sum", "max"))
    rule = checks.Check(name="little", kind="range", columns=("spent",), most=4)
    small.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset="spent", checks=(rule,)))
    back = derived(small)
    assert (back.cached, back.version.quarantined) == (False, True)
    assert small.dataset("spent").current == 2


LAUNDERED = [
    "SELECT email AS x FROM users",
    "SELECT * FROM users",
    "FROM users",
    "SELECT * REPLACE (email AS country) FROM users",
    "SELECT users FROM users",
    "SELECT u.x FROM users AS u(a, b, x)",
    "SELECT COLUMNS('e.*') FROM users",
    "SELECT struct_extract(u, 'email') AS x FROM users u",
    "SELECT x FROM (SELECT user, EMAIL AS x FROM users)",
    "WITH q AS (SELECT * FROM users) SELECT country FROM q",
    "SELECT user FROM users WHERE email LIKE 'a%'",
    "SELECT count(*) AS n FROM users GROUP BY #1",
    "SELECT user FROM users NATURAL JOIN clicks",
    "SELECT user, 1 AS a FROM users ORDER BY email",
    "SELECT string_agg(email, ',') AS x FROM users",
    "SELECT unnest([u]) AS x FROM users u",
]


def test_hidden_columns_are_neither_derived_nor_answered_from_what_others_derived(small: Platform) -> None:
    told(small)
    hidden(small)
    narrow = small.token(("dataset.read", "dataset.write"))
    for sql in LAUNDERED:
        for _ in range(2):  # the second time somebody who may see it has made it
            with pytest.raises((Forbidden, Invalid)) as refused:
                derived(small, sql, token=narrow)
            assert "example.com" not in str(refused.value)
            with contextlib.suppress(Invalid):
                derived(small, sql)


def test_who_may_only_write_learns_nothing_of_the_rows_by_how_many_there_are(small: Platform) -> None:
    told(small)
    blind = small.token(("dataset.write",))
    for sql in ("SELECT user FROM users WHERE country = 'AE'", "SELECT unnest(range(amount)) AS n FROM clicks"):
        for _ in range(2):  # the second time it has been made
            with pytest.raises(Forbidden, match=r"dataset\.read"):
                derived(small, sql, token=blind)
            derived(small, sql)


def test_columns_that_nobody_asked_for_keep_nobody_from_the_others(small: Platform) -> None:
    told(small)
    hidden(small)
    narrow = small.token(("dataset.read", "dataset.write"))
    for sql in (SPENT, "SELECT * EXCLUDE (email) FROM users ORDER BY user"):
        assert derived(small, sql, token=narrow).version.rows == 2
        assert not kinds(small)
    assert small.rows(name="spent") == [(1, "AE"), (2, "OM")]


def test_what_is_made_of_classified_columns_is_classified(small: Platform) -> None:
    told(small)
    hidden(small)
    derived(small, "SELECT user, lower(email) AS called, called || '!' AS loud FROM users")
    assert kinds(small) == {"called": "personal", "loud": "personal"}
    derived(small, "SELECT user AS who, x FROM (SELECT user, email AS x FROM users)", dataset="nested")
    assert kinds(small, "nested") == {"who": "personal", "x": "personal"}
    derived(
        small, "SELECT unnest({'a': 1, 'b': 2}), email, country FROM users", dataset="moved"
    )  # one is two, and moves others
    assert kinds(small, "moved") == dict.fromkeys(("a", "b", "email", "country"), "personal")
    derived(small, "SELECT user FROM users", dataset="plain")
    hidden(small, "sensitive", column="user")
    assert derived(small, "SELECT user FROM users", dataset="plain").cached
    assert kinds(small, "plain") == {"user": "sensitive"}  # classified since, and so is what was made of it


def test_when_rows_became_known_is_a_column_where_it_is_asked_for(small: Platform) -> None:
    told(small)
    small.clock.forward(HOUR)
    small.write(b"user,amount\n1,5\n", dataset="clicks")
    sql = "SELECT user, max(_known) AS known FROM clicks GROUP BY user ORDER BY user"
    derived(small, sql)
    known = [row[1] for row in small.rows(name="spent")]
    assert known[0] - known[1] >= timedelta(hours=1)
    assert "_known" not in [column.name for column in small.query("SELECT * FROM clicks").columns]
    assert derived(small, sql).cached
    small.write(CLICKS + b"1,5\n", dataset="clicks", mode="overwrite")  # the same rows, known later
    assert not derived(small, sql).cached


REFUSED = [
    ("SELECT * FROM nowhere", (), "no dataset 'nowhere' here"),
    ("SELECT * FROM spent", (), "name another"),
    ("SELECT * FROM users", ("clicks",), "does not read 'clicks'"),
    ("SELECT * FROM users", ("users@9",), "no version 9"),
    ("SELECT * FROM users", ("users@1", "users"), "given twice"),
    ("DROP TABLE users", (), "one SELECT"),
    ("SELECT read_text('/etc/passwd') AS x", (), "not allowed"),
    ("SELECT u.user, c.user FROM users u JOIN clicks c USING (user)", (), "user"),
]


def test_what_cannot_be_derived_is_refused_and_changes_nothing(small: Platform) -> None:
    told(small)
    derived(small)
    for sql, inputs, says in REFUSED:
        with pytest.raises(FalajError, match=says):
            derived(small, sql, *inputs)
    assert small.dataset("spent").versions == 1


def test_another_project_neither_derives_from_it_nor_into_it(small: Platform) -> None:
    told(small)
    small.project("other")
    stranger = small.person("zayd", Role.SCIENTIST, project="other")
    with pytest.raises((Forbidden, NotFound)):
        derived(small, token=stranger)
    with pytest.raises(NotFound, match="no dataset 'clicks' here"):
        derived(small, token=stranger, project="other")


def test_a_notebook_derives_and_reads_what_it_derived(small: Platform) -> None:
    told(small)
    line: Any = Line(small)
    spent = derive("spent", SPENT, project=PROJECT, client=line)
    assert spent.arrow().to_pylist() == [{"country": "AE", "spent": 5}, {"country": "OM", "spent": 10}]
    assert derive("spent", SPENT, inputs=["clicks@1"], project=PROJECT, client=line).version == 1
    rule = checks.Check(name="little", kind="range", columns=("spent",), most=1)
    small.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset="spent", checks=(rule,)))
    with pytest.raises(Conflict, match=r"spent@2 is in quarantine.*little"):
        derive("spent", SPENT, anew=True, project=PROJECT, client=line)
