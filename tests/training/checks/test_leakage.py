"""Planted leaks are found, every time; where nothing is planted, nothing is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

from falaj.base.errors import Invalid
from falaj.training.checks import check
from tests.training.checks.tables import beside, drawn, some

FEW = settings(max_examples=15, deadline=None)
SEEDS = st.integers(0, 10_000)
APART = {"entity": "patient", "time": "day"}


def severities(findings, name):
    return [one.severity for one in findings.of(name)]


@FEW
@given(SEEDS)
def test_rows_of_one_source_that_were_split_cleanly_leak_nothing(seed):
    findings = check(drawn(300, seed), drawn(120, seed + 1, begin=300), **APART)
    assert {one.severity for one in findings.of("leakage")} == {"fine"}
    findings.must_pass("leakage", at="note")


@FEW
@given(SEEDS, st.integers(1, 40))
def test_rows_that_stand_on_both_sides_are_counted(seed, count):
    train, test = drawn(300, seed), drawn(120, seed + 1, begin=300)
    copied = some(train, np.random.default_rng(seed).choice(300, count, replace=False))
    found = check(train, beside(test, copied), entity="patient").of("leakage.duplicates")[0]
    assert found.figures["rows"] == count
    assert found.severity == ("problem" if count / (120 + count) >= 0.01 else "warning")
    assert f"{count} of them with the same target" in found.sentence


@FEW
@given(SEEDS)
def test_rows_that_were_rounded_are_found_as_nearly_the_same(seed):
    random = np.random.default_rng(seed)
    train = drawn(300, seed) | {"third": random.normal(size=300)}
    test = drawn(120, seed + 1) | {"third": random.normal(size=120)}
    copied = some(train, np.arange(0, 300, 15))
    copied["first"], copied["third"] = (copied[name].astype(np.float32).astype(np.float64) for name in ("first", "third"))
    found = check(train, beside(test, copied), ignore=["patient", "day"]).of("leakage.near")[0]
    assert (found.severity, found.figures["rows"]) == ("problem", 20)


@FEW
@given(SEEDS)
def test_entities_and_times_on_both_sides_are_found(seed):
    train, test = drawn(300, seed), drawn(120, seed + 1, begin=299)
    findings = check(train, test, **APART)
    assert severities(findings, "leakage.entities") == ["problem"]
    assert severities(findings, "leakage.time") == ["warning"]
    assert findings.of("leakage.time")[0].figures["share"] == pytest.approx(1 / 300)
    late = check(drawn(300, seed, begin=1000), test, time="day")
    assert severities(late, "leakage.time") == ["problem"]


def test_keys_that_are_on_both_sides_together_are_found():
    train, test = drawn(100, 1), drawn(50, 2, begin=80)
    assert severities(check(train, test, keys=["patient", "day"]), "leakage.keys") == ["problem"]
    assert severities(check(train, drawn(50, 2, begin=100), keys=["patient", "day"]), "leakage.keys") == ["fine"]


LEAKS = {
    "copied": lambda target, random: target.copy(),
    "renamed": lambda target, random: np.where(target > 0, "yes", "no"),
    "turned": lambda target, random: 5.0 - 3 * target,
    "almost": lambda target, random: target + random.normal(scale=0.1, size=len(target)),
    "gaps": lambda target, random: np.where(target > 0, random.normal(size=len(target)), np.nan),
    "inside": lambda target, random: np.where(
        target > 0, random.uniform(-0.2, 0.2, len(target)), random.choice([-1, 1], len(target))
    ),
}


@pytest.mark.parametrize("leak", LEAKS)
@settings(max_examples=5, deadline=None)
@given(seed=SEEDS)
def test_a_column_that_gives_the_target_away_is_named(leak, seed):
    random = np.random.default_rng(seed)
    train, test = drawn(300, seed), drawn(150, seed + 1)
    for side in (train, test):
        side["told"] = LEAKS[leak](side["target"], random)
    (found,) = check(train, test, ignore=["patient", "day"]).of("leakage.target")
    assert (found.column, found.severity) == ("told", "problem")
    assert ("under another name" in found.sentence) == (leak in ("copied", "renamed", "turned"))


@FEW
@given(SEEDS)
def test_a_number_that_is_the_target_in_another_unit_is_named(seed):
    random = np.random.default_rng(seed)
    train, test = ({"x": random.normal(size=rows), "y": random.lognormal(size=rows)} for rows in (200, 100))
    for side in (train, test):
        side["miles"] = side["y"] * 0.62 + 3
        side["noisy"] = side["y"] + 0.02 * random.normal(size=len(side["y"])) * np.std(side["y"])
    found = {one.column: one for one in check(train, test, target="y").of("leakage.target")}
    assert "under another name" in found["miles"].sentence
    assert "almost surely" in found["noisy"].sentence
    assert set(found) == {"miles", "noisy"}


def test_scaling_that_saw_the_test_rows_leaves_a_trace():
    random = np.random.default_rng(5)
    table = random.normal(5, 3, size=(400, 3))
    clean = (table - table[:300].mean(axis=0)) / table[:300].std(axis=0)
    spoilt = (table - table.mean(axis=0)) / table.std(axis=0)
    ranged = (table - table.min(axis=0)) / np.ptp(table, axis=0)
    found = [severities(check(each[:300], each[300:]), "leakage.scaling") for each in (table, clean, spoilt)]
    assert found == [["fine"], ["fine"], ["warning"]]
    order = np.argsort(ranged[:, 0] + ranged[:, 1])  # the ends are in test
    assert severities(check(ranged[order[20:-20]], ranged[np.r_[order[:20], order[-20:]]]), "leakage.scaling") == ["warning"]


def test_rows_that_repeat_by_nature_are_no_leak_unless_more_than_that():
    random = np.random.default_rng(6)
    names = ("a", "b", "c", "d")
    train, test = ({name: random.integers(0, 4, rows) for name in names} for rows in (600, 400))
    assert severities(check(train, test), "leakage.duplicates") == ["note"]
    wide = {name: random.integers(0, 9, 600) for name in names}
    mixed = beside({name: random.integers(0, 9, 200) for name in names}, some(wide, np.arange(200)))
    assert severities(check(wide, mixed), "leakage.duplicates") == ["problem"]


def test_a_real_table_that_is_clean_is_called_clean():
    table, truth = load_breast_cancer(return_X_y=True)
    findings = check((table[:400], truth[:400]), (table[400:], truth[400:]))
    assert {one.severity for one in findings.of("leakage")} == {"fine"}
    assert 0.95 < findings.of("leakage.target")[0].figures["best"] < 0.99


def test_what_cannot_be_compared_says_so():
    train, test = drawn(50, 1), drawn(50, 2)
    with pytest.raises(Invalid, match="entities is to be compared by customer, which train has not"):
        check(train, test, entity="customer")
    with pytest.raises(Invalid, match="no order in time"):
        check(train, test, time="colour")
    with pytest.raises(Invalid, match="no rows"):
        check(train, some(test, []))
