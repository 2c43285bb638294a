"""One table against another: the verdict of the live rule, every distance, and what changed of the columns."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from falaj.monitoring.checking import checked, distances_of, rows_apart, schema_changes
from falaj.monitoring.files import DEFAULTS, files_checked
from falaj.monitoring.operations.checks import ChangedColumn
from falaj.monitoring.references import ALWAYS, Column, Reference
from falaj.statistics.distances import kolmogorov_smirnov
from falaj.tables.orders import Surveyed
from falaj.tables.schemas import Column as TableColumn
from falaj.tables.schemas import Schema

ROWS = 20_000


def table(seed, **changes):
    random = np.random.default_rng(seed)
    columns = {f"x{place}": random.normal(size=ROWS) for place in range(20)}
    columns["amount"] = random.lognormal(3, 1, ROWS)
    columns["city"] = random.choice(["Ajman", "Dubai", "Sharjah"], ROWS, p=[0.2, 0.5, 0.3])
    return pa.table(columns | {name: change(columns[name], random) for name, change in changes.items()})


@pytest.fixture
def check(tmp_path):
    def judged(before, after, rule=DEFAULTS):
        pq.write_table(before, tmp_path / "before.parquet")
        pq.write_table(after, tmp_path / "after.parquet")
        return files_checked(tmp_path / "before.parquet", tmp_path / "after.parquet", rule)

    return judged


def test_rows_of_the_same_source_drift_in_no_column(check):
    found = check(table(1), table(2))
    assert len(found) == 22
    assert not any(one.outcome.drifting for one in found)


def test_what_drifted_is_named_first_with_every_distance(check):
    def moved(numbers, _):
        return numbers + 0.5

    def emptied(numbers, random):
        return np.where(random.random(ROWS) < 0.3, np.nan, numbers)

    def renamed(texts, random):
        return np.where(random.random(ROWS) < 0.4, "Fujairah", texts)

    before, after = table(1), table(2, x3=moved, amount=emptied, city=renamed)
    found = check(before, after)
    drifting = {one.outcome.column: one for one in found if one.outcome.drifting}
    assert [one.outcome.column for one in found[:3]] == [*drifting]
    assert set(drifting) == {"x3", "amount", "city"}
    moved_one = drifting["x3"].distances
    exact = kolmogorov_smirnov(before["x3"].to_numpy(), after["x3"].to_numpy())
    assert moved_one["ks"] == pytest.approx(exact, abs=0.05)
    assert moved_one["wasserstein"] == pytest.approx(0.5, abs=0.15)  # in the column's own unit
    assert drifting["amount"].outcome.missing == pytest.approx(0.3, abs=0.02)
    assert drifting["city"].outcome.outside == pytest.approx(0.4, abs=0.02)
    assert set(drifting["city"].distances) == {"psi", "jensen-shannon", "cramers-v"}
    assert all(one.distances["jensen-shannon"] < 0.05 for one in found[3:])


def test_distances_of_the_same_counts_are_nought_and_of_others_finite():
    column = Column(name="x", edges=(0.0, 1.0))
    assert set(distances_of(column, (5, 5, 5, 1), (5, 5, 5, 1)).values()) == {0.0}
    for seen in ((0, 0, 0, 9), (9, 0, 0, 0), (0, 0, 0, 0)):
        assert all(np.isfinite(one) for one in distances_of(column, (5, 5, 5, 1), seen).values())


def test_a_column_that_turned_from_number_to_text_and_one_that_is_gone_are_not_counted(check):
    before = pa.table({"x": np.arange(500.0), "y": np.arange(500.0), "n": np.arange(500)})
    after = pa.table({"x": ["one"] * 500, "n": np.arange(500.0), "new": np.arange(500)})
    assert [one.outcome.column for one in check(before, after)] == ["n"]


def test_columns_that_are_gone_new_or_of_another_type_are_told():
    def schema(**words):
        return Schema(columns=tuple(TableColumn(name=name, type=word) for name, word in words.items()))

    changes = schema_changes(
        schema(a="int64", b="text", c="text", d="bool"), schema(a="float64", c="text", e="date", f="bool"), ["f"]
    )
    assert changes == (
        ChangedColumn(column="a", before="int64", after="float64"),
        ChangedColumn(column="b", before="text", after=""),
        ChangedColumn(column="d", before="bool", after=""),
        ChangedColumn(column="e", before="", after="date"),
    )


def test_without_rows_on_either_side_nothing_is_said(check):
    rows = table(1)
    assert check(rows.slice(0, 0), rows) == []
    assert check(rows, rows.slice(0, 0)) == []


def test_a_hundred_checks_of_quiet_rows_raise_nothing():
    random = np.random.default_rng(31)
    usual = tuple(random.multinomial(10_000, np.full(20, 0.05)).tolist())
    columns = tuple(
        Column(name=f"x{n}", edges=tuple(range(18)), counts={ALWAYS: usual}, rows=10_000, settled=True) for n in range(50)
    )
    reference = Reference(key="", source="", columns=columns)
    for _ in range(100):
        counts = {one.label: random.multinomial(1000, np.full(20, 0.05)).tolist() for one in columns}
        assert not any(one.outcome.drifting for one in checked(reference, counts, DEFAULTS))


def test_two_columns_that_go_together_no_more_are_found_by_all_columns_together():
    random = np.random.default_rng(9)
    first, second = random.normal(size=(2, 4000))
    city = random.choice(["Ajman", "Dubai"], 4000)

    def sampled(y):
        return {"x": Surveyed(sampled=tuple(first)), "y": Surveyed(sampled=tuple(y)), "city": Surveyed(sampled=tuple(city))}

    columns = [Column(name="x", edges=(0.0,)), Column(name="y", edges=(0.0,)), Column(name="city", kinds=("Ajman", "Dubai"))]
    bound = 0.9 * first + np.sqrt(1 - 0.81) * second
    apart = rows_apart(columns, sampled(bound), sampled(second), DEFAULTS)
    assert (apart.rows, apart.drifting) == (4000, True)
    assert {name for name, _ in apart.named[:2]} == {"x", "y"}
    assert not rows_apart(columns, sampled(second), sampled(np.roll(second, 1)), DEFAULTS).drifting
