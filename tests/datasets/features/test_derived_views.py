"""Feature views over SQL: their rows are made of datasets as they are now, and nothing that was not known leaks through."""

from typing import Any

import pytest

from falaj.base.clock import HOUR
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound
from falaj.datasets.operations import checks, classes, features
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.derivations import FunctionUsed, code_digest
from falaj.governance.roles import Role
from falaj.tables.forms import Form
from falaj.tables.joining.views import Feature, View
from tests.datasets.features.stories import applied, at, clicks, joined, labels
from tests.datasets.platform import PROJECT, Platform, arrow
from tests.tables.joining import oracle

SQL = """
SELECT c.user, c.happened, greatest(c.seen, r.told) AS known, c.amount * r.rate AS worth
FROM clicks c JOIN rates r ON r.country = c.country
"""
RATES: dict[str, list[Any]] = {"country": ["AE", "OM"], "told": [5, 50], "rate": [2.0, 10.0]}
FEATURES = (
    Feature(name="last_worth", column="worth"),
    Feature(name="worth_all", column="worth", function="sum"),
    Feature(name="recent", function="count", period=20 * HOUR),
)


def rates(rows: dict[str, list[Any]] | None = None) -> bytes:
    given = rows or RATES
    return arrow(**{name: at(some) if name == "told" else some for name, some in given.items()})


def story(platform: Platform) -> None:
    platform.write(clicks(country=["AE", "OM", "AE", "AE", "XX"]), dataset="clicks")
    platform.write(rates(), dataset="rates")
    platform.write(labels(), dataset="labels")


def over_sql(platform: Platform, **fields: Any) -> features.FeatureView:
    given = {"view": "worth", "dataset": "", "sql": SQL, "known": "known", "features": FEATURES, **fields}
    return applied(platform, **given)


def test_a_view_over_sql_of_two_datasets_has_the_values_of_the_oracle(platform: Platform) -> None:
    story(platform)
    made = over_sql(platform)
    assert (made.dataset, made.sql, [column.name for column in made.columns]) == (
        "worth-rows",
        SQL,
        ["user", "last_worth", "worth_all", "recent"],
    )
    found = joined(platform, "worth")
    assert found.sources == ("worth-rows@1",)
    assert values(platform) == expected(platform, made)
    assert joined(platform, "worth").cached
    platform.write(rates({"country": ["XX"], "told": [40], "rate": [3.0]}), dataset="rates")
    assert joined(platform, "worth").sources == ("worth-rows@2",)  # what it is made of has a newer version
    assert values(platform) == expected(platform, made)
    done = platform.call(features.MATERIALISE, features.Materialise(project=PROJECT, view="worth"))
    assert done.source == "worth-rows@2"


def expected(platform: Platform, made: features.FeatureView) -> list[tuple[Any, ...]]:
    """By nested loops over plain Python: the SQL's rows, and the bitemporal join of them."""
    prices = platform.rows(name="rates")
    rows = [
        {"user": user, "happened": happened, "known": max(seen, known), "worth": None if amount is None else amount * rate}
        for user, happened, seen, amount, country in platform.rows(name="clicks")
        for of, known, rate in prices
        if of == country
    ]
    asked = [dict(zip(("user", "asked", "bought"), row, strict=True)) for row in platform.rows(name="labels")]
    view = View(name="worth", keys=made.keys, event=made.event, known=made.known, features=made.features)
    return [tuple(map(oracle.bits, row.values())) for row in oracle.expected(asked, "asked", [(view, rows)])]


def values(platform: Platform) -> list[tuple[Any, ...]]:
    return [tuple(map(oracle.bits, row)) for row in platform.rows(name="training")]


def test_what_was_published_late_does_not_leak_through_sql(small: Platform) -> None:
    """By the column that every table has: the moment at which its row was first published."""
    small.write(clicks({"user": [1], "happened": [-20], "amount": [1.0]}), dataset="clicks")
    small.clock.forward(100 * HOUR)
    small.write(clicks({"user": [1], "happened": [-10], "amount": [99.0]}), dataset="clicks")
    small.write(labels({"user": [1, 1, 1], "asked": [-5, 50, 150]}), dataset="labels")
    sql = "SELECT user, happened, amount, _known AS known FROM clicks"
    over_sql(small, sql=sql, features=(Feature(name="last_amount", column="amount"),))
    joined(small, "worth")
    assert [row[-1] for row in small.rows(name="training")] == [None, 1.0, 99.0]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"known": ""}, "Name the column in `known`.*_known"),
    ({"known": "when"}, "needs a column 'when'"),
    ({"sql": "SELECT * FROM nowhere"}, "no dataset 'nowhere' here"),
    ({"sql": "SELECT 1; SELECT 2"}, "one SELECT"),
    ({"sql": ""}, "is over nothing"),
    ({"dataset": "rates"}, "which has others that were not derived"),
    ({"dataset": "worth@2"}, "without a version"),
    ({"view": "v" * 98}, "too long"),
    ({"python": features.ViewFunction(source="def f(): ...", function="f")}, "choose one"),
]


def test_what_cannot_be_a_view_is_refused_and_makes_nothing(small: Platform) -> None:
    story(small)
    for fields, says in REFUSED:
        with pytest.raises((Invalid, NotFound, Conflict), match=says):
            over_sql(small, **fields)
    assert not small.call(features.LIST_VIEWS, features.ListViews(project=PROJECT)).items
    with pytest.raises(NotFound):
        small.dataset("worth-rows")


def test_rows_of_a_view_that_break_a_check_are_in_quarantine_and_in_no_training_set(small: Platform) -> None:
    story(small)
    over_sql(small)
    rule = checks.Check(name="little", kind="range", columns=("worth",), most=1000)
    small.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset="worth-rows", checks=(rule,)))
    small.write(rates({"country": ["AE"], "told": [1], "rate": [1e6]}), dataset="rates")
    with pytest.raises(Conflict, match=r"are in quarantine as version 2.*little"):
        joined(small, "worth")
    assert small.dataset("worth-rows").current == 1
    with pytest.raises(NotFound):
        small.dataset("training")


def test_hidden_columns_do_not_become_features_through_sql(small: Platform) -> None:
    story(small)
    over_sql(small)
    hidden = (classes.Classified(column="amount", kind="sensitive"),)
    small.call(classes.CLASSIFY_COLUMNS, classes.ClassifyColumns(project=PROJECT, dataset="clicks", columns=hidden))
    narrow = small.token(("dataset.read", "dataset.write"))
    with pytest.raises(Forbidden, match="amount"):
        joined(small, "worth", token=narrow)
    joined(small, "worth")
    found = small.call(classes.SHOW_CLASSES, OneDataset(project=PROJECT, dataset="training")).columns
    assert {one.column: one.kind for one in found} == {"last_worth": "sensitive", "worth_all": "sensitive"}


def test_another_project_has_no_view_over_datasets_that_are_not_its_own(small: Platform) -> None:
    story(small)
    small.project("other")
    stranger = small.person("zayd", Role.SCIENTIST, project="other")
    with pytest.raises(NotFound, match="no dataset 'clicks' here"):
        over_sql(small, token=stranger, project="other")


def test_a_view_over_a_function_says_what_it_waits_for(small: Platform) -> None:
    """The job is played here by whoever writes the rows, and says what they were made of."""
    story(small)
    function = features.ViewFunction(source="def worth(clicks, rates): ...", function="worth")
    fields = {"sql": "", "python": function, "inputs": ("clicks", "rates")}
    with pytest.raises(Conflict, match="makes of clicks@1, rates@1, and it was not run over these"):
        over_sql(small, **fields)
    used = FunctionUsed(code=code_digest(function.source, "worth", ""), function="worth", inputs=("clicks@1", "rates@1"))
    rows = arrow(user=[1], happened=at([1]), known=at([2]), worth=[7.0])
    written = small.write(rows, mode="overwrite", dataset="worth-rows", derivation=used, form=Form(format="arrow"))
    assert written.derivation is not None
    assert (written.derivation.kind, written.derivation.code) == ("python", "worth")
    over_sql(small, **fields)
    assert joined(small, "worth").sources == ("worth-rows@1",)
    small.write(rates(), dataset="rates")
    with pytest.raises(Conflict, match="rates@2, and it was not run over these"):
        joined(small, "worth")
