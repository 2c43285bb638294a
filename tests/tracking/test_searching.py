"""Searches find what MLflow's language says, in the order it says, whatever stands in the literals."""

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from falaj.base.clock import SECOND, Moment
from falaj.base.errors import Invalid
from falaj.tracking import searching
from falaj.tracking.operations import runs as declared
from falaj.tracking.operations.words import Metric, Tag
from falaj.tracking.store import curves
from tests.tracking.room import EARLY, Caller, Room, metric

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=20)


@pytest.fixture
def five(amal: Caller) -> Caller:
    """Runs a (oldest) to e (youngest)."""
    amal.run_with("a", metrics={"auc": 0.9, "loss": 1}, params={"depth": "4", "Path": "C:\\x"}, tags={"team": "risk"})
    amal.run_with("b", metrics={"auc": 0.8, "loss": math.nan}, params={"depth": "10"}, tags={"team": "Risk"})
    amal.run_with("c", metrics={"auc": math.inf}, params={"depth": "a_b"}, user="amal")
    amal.run_with("d", metrics={"loss": -math.inf}, params={"depth": "axb"}, tags={"team": "r%k"})
    amal.run_with("e", metrics={"auc": math.nan, "loss": 1})
    return amal


FOUND = {
    "": "edcba",
    "metrics.auc > 0.8": "ca",
    "metrics.auc >= 0.8": "cba",
    "metrics.auc < 1e400": "ba",
    "metrics.auc = 0.9": "a",
    "metrics.auc != 0.9": "ecb",
    "metrics.auc = 0": "",
    "metrics.auc <= 0": "",
    "metrics.loss < 0 AND metrics.loss >= -1e999": "d",
    "metrics.auc > 0 AND metrics.loss = 1": "a",
    "metrics.none != 1": "",
    "params.depth = '4'": "a",
    "params.depth != '4'": "dcb",
    "params.depth LIKE 'a_b'": "dc",
    "params.depth LIKE 'A%'": "",
    "params.depth ILIKE 'A%'": "dc",
    "params.depth IN ('4', '10')": "ba",
    "params.depth NOT IN ('4', '10')": "dc",
    "params.depth IS NULL": "e",
    "params.depth IS NOT NULL AND tags.team IS NULL": "c",
    "params.`Path` LIKE 'C:\\%'": "a",
    "params.\"Path\" = 'C:\\x'": "a",
    "params.path IS NOT NULL": "",
    "tags.team = 'risk'": "a",
    "tags.team LIKE 'r%k'": "da",
    "tags.team LIKE '[r]%k'": "",
    "tags.team LIKE '*k'": "",
    "tags.team ILIKE 'RISK'": "ba",
    "tags.mlflow.runName = 'a'": "a",
    "run_name LIKE 'a'": "a",
    "attributes.`Run Name` IN ('a', 'b')": "ba",
    "user_id = 'amal'": "c",
    "user_id != 'amal'": "edba",
    "status = 'RUNNING'": "edcba",
    "status = 'running'": "",
    f"start_time > {EARLY // 1000 + 3000}": "ed",
    f"attributes.created <= {EARLY // 1000 + 1000}": "a",
    f"start_time > {EARLY // 1000 + 3000}.5": "ed",
    "start_time > 99999999999999999999": "",
    "end_time > 0": "",
    "run_id NOT IN ('x')": "edcba",
}


def test_a_filter_finds_what_it_says(five: Caller) -> None:
    assert {filter: "".join(five.search(filter)) for filter in FOUND} == FOUND


ORDERED = {
    ("metrics.auc DESC",): "cabed",
    ("metrics.auc",): "baced",
    ("metrics.loss ASC",): "deabc",
    ("metrics.loss DESC",): "eadbc",
    ("params.depth ASC",): "bacde",
    ("params.depth DESC",): "dcabe",
    ("tags.team ASC",): "bdaec",
    ("start_time ASC",): "abcde",
    ("attributes.run_name DESC",): "edcba",
    ("user_id DESC", "metrics.auc ASC"): "cbaed",
    ("metrics.loss ASC", "start_time ASC"): "daebc",
    ("metrics.none",): "edcba",
    ("end_time DESC",): "edcba",
}


def test_an_order_puts_nan_and_what_is_missing_last(five: Caller) -> None:
    for limit in (1, 2, 3, 100):
        assert {order: "".join(five.search("", *order, limit=limit)) for order in ORDERED} == ORDERED


def test_a_filter_on_the_metric_that_orders_and_on_others(five: Caller) -> None:
    assert five.search("metrics.auc > 0.1 AND metrics.auc < 5", "metrics.auc DESC") == ["a", "b"]
    assert five.search("metrics.auc != 0.9", "metrics.auc DESC") == ["c", "b", "e"]
    assert five.search("metrics.auc != 0.9", "metrics.auc DESC", limit=1) == ["c", "b", "e"]
    assert five.search("metrics.loss = 1", "metrics.auc DESC", limit=1) == ["a", "e"]
    assert five.search("params.depth LIKE '%' AND metrics.auc > 0", "metrics.auc ASC") == ["b", "a", "c"]


def test_only_the_experiments_asked_for_are_searched(room: Room, amal: Caller) -> None:
    one, two = amal.new_experiment("one"), amal.new_experiment("two")
    for number in (0, one, two):
        amal.run_with(f"in {number}", metrics={"auc": number}, experiment=number)
    room.caller("beta").run_with("other", metrics={"auc": 9})
    assert amal.search("metrics.auc >= 0", "metrics.auc DESC", experiments=(0, one, two)) == ["in 2", "in 1", "in 0"]
    assert amal.search("metrics.auc >= 0", "metrics.auc DESC", experiments=(one,)) == ["in 1"]
    assert amal.search(experiments=(two, one, one)) == ["in 2", "in 1"]
    assert amal.search(experiments=()) == amal.search(experiments=(77,)) == []


def test_deleted_runs_are_found_where_they_are_asked_for(five: Caller) -> None:
    (run,) = [one.info.id for one in five.call(declared.SEARCH_RUNS, filter="run_name = 'a'").items]
    five.call(declared.DELETE_RUN, run=run)
    assert five.search("metrics.auc > 0", "metrics.auc DESC") == ["c", "b"]
    assert five.search("metrics.auc > 0", "metrics.auc DESC", state="all") == ["c", "a", "b"]
    assert five.search("metrics.auc > 0", state="deleted") == ["a"]
    assert five.search(f"run_id IN ('{run}')", state="all") == ["a"]


def test_a_cursor_is_good_for_its_own_search_only(five: Caller) -> None:
    page = five.call(declared.SEARCH_RUNS, order=("metrics.auc DESC",), limit=2)
    assert page.next
    for other in ({"filter": "metrics.auc > 0"}, {"order": ("metrics.auc",)}, {"experiments": (0, 1)}, {"state": "all"}):
        with pytest.raises(Invalid, match="another search"):
            five.call(declared.SEARCH_RUNS, **{"order": ("metrics.auc DESC",), "limit": 2, "cursor": page.next, **other})
    for nonsense in ("x", "WyIiLC0xXQ", page.next[:-3]):
        with pytest.raises(Invalid, match="start again without one"):
            five.call(declared.SEARCH_RUNS, cursor=nonsense)


def test_a_page_has_everything_about_its_runs(amal: Caller) -> None:
    runs = [
        amal.run_with(f"r{number}", metrics={"m": number, "n": math.nan}, params={"p": str(number)}, tags={"t": str(number)})
        for number in range(4)
    ]
    items = amal.call(declared.SEARCH_RUNS, order=("start_time",)).items
    assert [one.info.id for one in items] == runs
    for number, (one, run) in enumerate(zip(items, runs, strict=True)):
        shown = amal.show(run)
        assert (one.info, one.params, one.tags) == (shown.info, shown.params, shown.tags)
        assert one.metrics[0] == Metric(key="m", value=number, timestamp=0, step=0)
        assert math.isnan(one.metrics[1].value)


def test_thousands_of_runs_come_in_one_page(room: Room, amal: Caller) -> None:
    def many(work: Any) -> None:
        context = amal.context(work)
        for number in range(1200):
            request = declared.CreateRun(project="alpha", name=f"r{number}", started=number)
            room.bound["run.create"].handle(context, request)

    room.database.write(many)
    page = amal.call(declared.SEARCH_RUNS, limit=50_000)
    assert [one.info.name for one in page.items] == [f"r{number}" for number in reversed(range(1200))]
    assert all(one.tags == (Tag(key="mlflow.runName", value=one.info.name),) for one in page.items)
    assert amal.search(limit=500) == [one.info.name for one in page.items]


def test_a_filter_that_cannot_be_read_is_refused(five: Caller) -> None:
    for filter in ("metrics.auc >", "nonsense", "status = 'b'; DROP TABLE tracking_runs", "artifact_uri = 'x'"):
        with pytest.raises(Invalid, match="cannot be read at character"):
            five.search(filter)
    assert len(five.search()) == 5


HOSTILE = ["'", "''", '"', "`", ";", "--", "/* */", "'; DROP TABLE tracking_runs; --", "%", "_", "\\", "[a-z]", "*", "?", "💧"]
HOSTILE += ["%s", "%(x)s", ":x", "?1", "$1"]


def test_literals_and_keys_are_only_text(amal: Caller) -> None:
    for text in HOSTILE:
        within = amal.new_experiment(f"about {text}")
        amal.run_with("this", params={text: text}, tags={"t": text}, metrics={text: 1}, experiment=within)
        amal.run_with("that", params={"other": "other"}, tags={"t": "t"}, metrics={"t": 1}, experiment=within)
        quoted, key = "'" + text.replace("'", "''") + "'", "`" + text.replace("`", "``") + "`"
        for filter in (f"params.{key} = {quoted}", f"tags.t IN ({quoted})", f"metrics.{key} = 1", f"tags.t = {quoted}"):
            assert amal.search(filter, experiments=(within,)) == ["this"], filter
        assert "this" in amal.search(f"tags.t LIKE {quoted}", experiments=(within,))
        assert amal.search("", f"metrics.{key} ASC", experiments=(within,)) == ["this", "that"]


LIKE_PIECES = ["a", "B", "b", "%", "_", "\\", "*", "?", "[", "]", "^", "-", "é", "\n", "'"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    value=st.lists(st.sampled_from(LIKE_PIECES), max_size=6).map("".join),
    pattern=st.lists(st.sampled_from(LIKE_PIECES), max_size=6).map("".join),
)
def test_patterns_match_alike_on_both_engines(amal: Caller, value: str, pattern: str) -> None:
    def like(text: str, wanted: str) -> bool:
        if not wanted:
            return not text
        if wanted[0] == "%":
            return any(like(text[start:], wanted[1:]) for start in range(len(text) + 1))
        return bool(text) and wanted[0] in ("_", text[0]) and like(text[1:], wanted[1:])

    number = amal.new_experiment(f"{amal.call(declared.CREATE_RUN).info.id}")
    amal.run_with("x", tags={"t": value}, experiment=number)
    quoted = "'" + pattern.replace("'", "''") + "'"
    assert bool(amal.search(f"tags.t LIKE {quoted}", experiments=(number,))) == like(value, pattern)
    assert bool(amal.search(f"tags.t ILIKE {quoted}", experiments=(number,))) == like(value.lower(), pattern.lower())


values = st.sampled_from([0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, None])
kept = st.fixed_dictionaries({"m": values, "n": values, "p": st.sampled_from(["x", "y", None]), "started": st.integers(0, 3)})
asked = st.lists(
    st.sampled_from(
        ["metrics.m > 0", "metrics.m != 1", "metrics.n <= 0", "params.p = 'x'", "params.p IS NULL", "start_time < 2"]
    ),
    max_size=2,
    unique=True,
)
ordered = st.lists(
    st.tuples(st.sampled_from(["metrics.m", "metrics.n", "params.p", "start_time"]), st.booleans()),
    max_size=3,
    unique_by=lambda one: one[0],
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(rows=st.lists(kept, max_size=7), filters=asked, order=ordered, limit=st.integers(1, 8))
def test_a_search_agrees_with_sorting_by_hand(
    room: Room, amal: Caller, rows: list[dict[str, Any]], filters: list[str], order: list[tuple[str, bool]], limit: int
) -> None:
    number = amal.new_experiment(amal.start())
    for row in rows:
        room.now = Moment(room.now + SECOND)
        row["id"] = amal.start((row["started"] and "r") or "s", started=row["started"], experiment=number)
        points = [metric(key, row[key]) for key in "mn" if row[key] is not None]
        amal.log(row["id"], *points, params={"p": row["p"]} if row["p"] is not None else {})

    def admits(row: dict[str, Any]) -> bool:
        holds = {
            "metrics.m > 0": row["m"] is not None and row["m"] > 0,
            "metrics.m != 1": row["m"] is not None and row["m"] != 1,
            "metrics.n <= 0": row["n"] is not None and row["n"] <= 0,
            "params.p = 'x'": row["p"] == "x",
            "params.p IS NULL": row["p"] is None,
            "start_time < 2": row["started"] < 2,
        }
        return all(holds[filter] for filter in filters)

    expected = sorted(filter(admits, rows), key=lambda row: (-row["started"], row["id"]))
    for column, descending in reversed(order):
        key = column.rpartition(".")[2].replace("start_time", "started")
        whole = [row for row in expected if row[key] is not None and row[key] == row[key]]
        whole = sorted(whole, key=lambda row: row[key], reverse=descending)
        nans = [row for row in expected if row[key] is not None and row[key] != row[key]]
        expected = [*whole, *nans, *(row for row in expected if row[key] is None)]
    clauses = tuple(f"{column} {'DESC' if descending else 'ASC'}" for column, descending in order)
    found, cursor = [], ""
    while True:
        page = amal.call(
            declared.SEARCH_RUNS, experiments=(number,), filter=" AND ".join(filters), order=clauses, limit=limit, cursor=cursor
        )
        found += [one.info.id for one in page.items]
        if not (cursor := page.next):
            break
    assert found == [row["id"] for row in expected]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(text=texts)
def test_any_text_is_found_again(amal: Caller, text: str) -> None:
    number = amal.new_experiment(amal.start())
    amal.run_with("x", params={"p": text}, experiment=number)
    quoted = "'" + text.replace("'", "''") + "'"
    assert amal.search(f"params.p = {quoted}", experiments=(number,)) == ["x"]
    assert amal.search(f"params.p != {quoted}", experiments=(number,)) == []


def test_the_names_that_runs_have_are_listed(room: Room, amal: Caller) -> None:
    one = amal.new_experiment("one")
    run = amal.run_with("a", metrics={"auc": 1}, params={"depth": "4"}, tags={"team": "risk"})
    amal.log(run, metric("loss", 1), params={"depth": "4", "Alpha": "1"})
    amal.run_with("b", metrics={"auc": 1, "b/acc": 1}, params={"Rate": "1"}, experiment=one)
    room.caller("beta").run_with("c", metrics={"secret": 1}, params={"secret": "1"}, tags={"secret": "1"})
    assert amal.call(declared.LIST_KEYS) == declared.Keys(
        metrics=("auc", "loss"), params=("Alpha", "depth"), tags=("mlflow.runName", "team")
    )
    both = amal.call(declared.LIST_KEYS, experiments=(0, one))
    assert (both.metrics, both.params, both.tags) == (
        ("auc", "b/acc", "loss"),
        ("Alpha", "Rate", "depth"),
        ("mlflow.runName", "team"),
    )
    assert amal.call(declared.LIST_KEYS, experiments=(9,)) == declared.Keys(metrics=(), params=(), tags=())


def test_no_more_names_are_listed_than_one_can_look_at(amal: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "MOST_KEYS", 3)
    names = [f"n{number}" for number in range(5)]
    amal.run_with("a", metrics=dict.fromkeys(names, 1), params=dict.fromkeys(names, "1"), tags=dict.fromkeys(names, "1"))
    keys = amal.call(declared.LIST_KEYS)
    assert keys.metrics == keys.params == ("n0", "n1", "n2")
    assert len(keys.tags) == 3
    assert len(amal.read(lambda work: curves.metric_names(work, [], 10))) == 0
