"""MLflow's language is read as MLflow reads it, and never raises anything but Invalid."""

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.database.filters import MOST_COMPARISONS, Comparison, Ordering, Searchable, parse_filter, parse_order

RUNS = Searchable(
    texts=frozenset({"run_id", "run_name", "status", "user_id"}),
    numbers=frozenset({"start_time", "end_time"}),
    aliases={"created": "start_time", "Created": "start_time", "Run Name": "run_name"},
    kinds=frozenset({"metric", "param", "tag", "dataset"}),
)
MODELS = Searchable(texts=frozenset({"name"}))
# What a database can keep: no NUL, no half of a surrogate pair.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))


def parse(text: str) -> tuple[Comparison, ...]:
    return parse_filter(text, RUNS)


def only(text: str) -> tuple[str, str, str, object]:
    (found,) = parse(text)
    return found.kind, found.key, found.comparator, found.value


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("metrics.auc > 0.9", ("metric", "auc", ">", 0.9)),
        ("metric.auc>=-1e-3", ("metric", "auc", ">=", -0.001)),
        ("metrics.`val loss` < .5", ("metric", "val loss", "<", 0.5)),
        ('metrics."val loss" != 1', ("metric", "val loss", "!=", 1)),
        ("metrics.train/loss = 1", ("metric", "train/loss", "=", 1)),
        ("`metrics`.auc = 1", ("metric", "auc", "=", 1)),
        ("metrics.system.cpu = 1", ("metric", "system.cpu", "=", 1)),
        ("metrics.auc > 1e400", ("metric", "auc", ">", math.inf)),
        ("params.depth = '4'", ("param", "depth", "=", "4")),
        ('parameters.depth != "4"', ("param", "depth", "!=", "4")),
        ("param.depth LiKe '%4_'", ("param", "depth", "LIKE", "%4_")),
        ("tags.mlflow.runName ilike 'A%'", ("tag", "mlflow.runName", "ILIKE", "A%")),
        ("tag.`mlflow.user`='x'", ("tag", "mlflow.user", "=", "x")),
        ("tags.team IS NULL", ("tag", "team", "IS NULL", None)),
        ("params.team is  not\tnull", ("param", "team", "IS NOT NULL", None)),
        ("status = 'RUNNING'", ("attribute", "status", "=", "RUNNING")),
        ("attributes.status != 'FAILED'", ("attribute", "status", "!=", "FAILED")),
        ("attr.start_time > 1700000000000", ("attribute", "start_time", ">", 1700000000000)),
        ("run.created <= 5", ("attribute", "start_time", "<=", 5)),
        ("`Run Name` = 'x'", ("attribute", "run_name", "=", "x")),
        ("run_id IN ('a', 'b')", ("attribute", "run_id", "IN", ("a", "b"))),
        ('run_id not  in ("a",)', ("attribute", "run_id", "NOT IN", ("a",))),
        ("datasets.name = 'iris'", ("dataset", "name", "=", "iris")),
        ("dataset.context LIKE 'tr%'", ("dataset", "context", "LIKE", "tr%")),
        ("tags.quote = 'it''s'", ("tag", "quote", "=", "it's")),
        ('tags.quote = "it\'s"', ("tag", "quote", "=", "it's")),
        ("tags.path = 'C:\\'", ("tag", "path", "=", "C:\\")),
        ("tags.evil = '; DROP TABLE runs; -- '", ("tag", "evil", "=", "; DROP TABLE runs; -- ")),
    ],
)
def test_a_comparison_is_read(text: str, found: tuple[str, str, str, object]) -> None:
    assert only(text) == found


def test_comparisons_are_joined_by_and() -> None:
    found = parse(" metrics.a > 1 and params.b = 'x AND y' AND tags.c IS NULL ")
    assert [(one.kind, one.key) for one in found] == [("metric", "a"), ("param", "b"), ("tag", "c")]


def test_a_filter_that_says_nothing_admits_everything() -> None:
    assert parse("") == parse(" \n\t") == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("metrics.auc", "character 12: expected one of =, !=, >, >=, <, <= for metric 'auc', found the end"),
        ("metrics.auc >", "expected a number, found the end"),
        ("metrics.auc > 'x'", "character 15: expected a number, found \"'x'\""),
        ("metrics.auc > 1 OR metrics.b > 2", "character 17: expected AND or the end"),
        ("metrics.auc > 1 AND", "expected what to compare"),
        ("AND metrics.auc > 1", "expected one of the attributes"),
        ("(metrics.auc > 1)", "expected what to compare"),
        ("metrics.auc > 1; DROP TABLE runs", "found '; "[:8]),
        ("metrics.auc > 1 -- all", "expected AND or the end"),
        ("metrics.auc /* all */ > 1", "expected one of"),
        ("metrics.auc LIKE '1'", "found 'LIKE'"),
        ("metrics.auc == 1", "found '=='"),
        ("metrics.auc > 1x", "expected a number"),
        ("metrics.auc > nan", "expected a number"),
        ("metrics.auc IS NULL", "found 'IS NULL'"),
        ("metrics.`` > 1", "a name between the quotes"),
        ("params.depth = 4", "a text in quotes"),
        ("params.depth = 'open", "a text in quotes"),
        ("params.depth = 'open''", "a text in quotes"),
        ("params.depth > '4'", "found '>'"),
        ("nothing.depth = '4'", "expected one of attributes.…, metrics.…"),
        ("nothing = '4'", "one of the attributes end_time, run_id"),
        ("status IS NULL", "found 'IS NULL'"),
        ("status IN 'x'", "a list in parentheses"),
        ("status IN ()", "a text in quotes"),
        ("status IN ('a' 'b')", "a comma or the closing parenthesis"),
        ("datasets.size = '4'", "one of the datasets' context, digest, name"),
        ("tags.a = '\0'", "no database keeps"),
        ("tags.a = '\ud800'", "no database keeps"),
        (f"tags.a LIKE '{'x' * 6000}'", "too long"),
        (" AND ".join(["tags.a = 'x'"] * (MOST_COMPARISONS + 1)), "more than 50 comparisons"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse(text)
    assert says in str(refusal.value)


def test_a_kind_that_a_thing_does_not_have_is_refused() -> None:
    assert parse_filter("name LIKE 'a%' AND tags.x = '1'", MODELS)
    with pytest.raises(Invalid, match=r"attributes\.…, tags\.…"):
        parse_filter("metrics.auc > 1", MODELS)


@given(texts)
def test_any_text_comes_through_a_literal(text: str) -> None:
    for quote in "'\"":
        quoted = quote + text.replace(quote, quote * 2) + quote
        assert only(f"tags.a = {quoted}") == ("tag", "a", "=", text)
        assert only(f"run_id IN ({quoted},{quoted})") == ("attribute", "run_id", "IN", (text, text))


@given(texts.filter(bool))
def test_any_key_comes_through_its_quotes(key: str) -> None:
    for quote in '`"':
        quoted = quote + key.replace(quote, quote * 2) + quote
        assert only(f"metrics.{quoted} > 0") == ("metric", key, ">", 0)
        assert parse_order([f"metrics.{quoted} desc"], RUNS) == (Ordering(kind="metric", key=key, descending=True),)


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_any_number_comes_through(number: float) -> None:
    assert only(f"metrics.a = {number!r}") == ("metric", "a", "=", float(repr(number)))
    exact = number if isinstance(number, int) and abs(number) < 10**18 else float(repr(number))
    assert only(f"start_time = {number!r}") == ("attribute", "start_time", "=", exact)


PIECES = [
    "metrics.a",
    "params.`b`",
    "tags.",
    "status",
    ">",
    "=",
    "LIKE",
    "IN",
    "NOT",
    "IS",
    "NULL",
    "(",
    ")",
    ",",
    "'",
    '"',
    "`",
]
PIECES += ["1", "1e", "'x'", " ", "AND", "OR", ";", "--", "/*", "\\", "DESC", "."]


@given(st.text() | st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_no_text_raises_anything_but_invalid(text: str) -> None:
    for read in (lambda: parse(text), lambda: parse_order([text], RUNS)):
        with suppress(Invalid):
            assert isinstance(read(), tuple)


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ("metrics.auc DESC", Ordering(kind="metric", key="auc", descending=True)),
        ("metrics.`val loss` asc", Ordering(kind="metric", key="val loss")),
        ("start_time", Ordering(kind="attribute", key="start_time")),
        ("attributes.Created desc", Ordering(kind="attribute", key="start_time", descending=True)),
        ('params."a b"', Ordering(kind="param", key="a b")),
        ("tags.mlflow.user ASC", Ordering(kind="tag", key="mlflow.user")),
    ],
)
def test_an_order_is_read(clause: str, found: Ordering) -> None:
    assert parse_order([clause], RUNS) == (found,)


@pytest.mark.parametrize(
    ("clauses", "says"),
    [
        ([""], "expected what to compare"),
        (["metrics.auc up"], "expected ASC, DESC or the end, found 'up'"),
        (["metrics.auc DESC, status"], "expected ASC, DESC or the end"),
        (["metrics.auc", "metric.auc DESC"], "twice"),
        (["datasets.name"], "cannot be ordered by datasets"),
        (["size"], "one of the attributes"),
    ],
)
def test_an_order_that_cannot_be_read_is_refused(clauses: list[str], says: str) -> None:
    with pytest.raises(Invalid, match=says):
        parse_order(clauses, RUNS)
