"""Drift is called when it is large and sure, and hardly ever otherwise."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.training.checks import check, profile
from falaj.training.checks.profiles import POINTS, profile_from
from tests.training.checks.tables import drawn, some

APART = ["patient", "day"]


def found(table, reference, **how):
    findings = check(table, reference=reference, ignore=APART, **how)
    return {(one.check, one.column): one for one in findings.of("drift") if one.severity != "fine"}


def test_tables_of_one_source_are_called_drifted_at_most_once_in_a_hundred_times():
    alarms = sum(bool(found(drawn(200, 2 * seed), drawn(200, 2 * seed + 1))) for seed in range(300))
    assert alarms <= 3


def test_many_rows_do_not_make_a_small_change_matter():
    table, reference = drawn(60_000, 1), drawn(60_000, 2)
    table["first"] = table["first"] + 0.05
    calm = check(table, reference=reference, ignore=APART)
    assert calm.worst == "fine"
    assert calm.of("drift.data")[0].figures["largest"] < 0.1


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_what_changed_is_named_with_numbers(seed):
    table, reference = drawn(400, seed), drawn(400, seed + 1)
    random = np.random.default_rng(seed)
    table["first"] = table["first"] * 0.5 + 2
    table["second"] = np.where(random.random(400) < 0.5, np.nan, table["second"])
    table["colour"] = random.choice(["red", "violet"], 400)
    table["target"] = np.ones(400, dtype=int)
    named = found(table, reference)
    expected = {("drift.data", "first"), ("drift.missing", "second"), ("drift.data", "colour"), ("drift.categories", "colour")}
    assert expected | {("drift.label", "target")} <= set(named)
    assert "the median from" in named["drift.data", "first"].sentence
    assert "'violet'" in named["drift.categories", "colour"].sentence
    assert all(one.severity == "problem" for key, one in named.items() if key in expected)


def test_of_a_target_with_two_values_the_share_is_told():
    table, reference = drawn(400, 1), drawn(400, 2)
    table["target"], reference["target"] = (np.arange(400) % 10 < often for often in (9, 4))
    label = found(*(each | {"target": each["target"].astype(int)} for each in (table, reference)))
    assert label["drift.label", "target"].sentence.startswith("target moved: the share of 1 from 40.0% to 90.0%, ")


def test_columns_that_came_went_or_turned_into_another_kind_are_named():
    table, reference = drawn(100, 1), drawn(100, 2)
    del table["second"]
    table["new"] = table["first"]
    table["whole"] = np.array([f"n{number}" for number in table["whole"]])
    (schema,) = check(table, reference=reference, ignore=APART).of("drift.schema")
    assert schema.severity == "problem"
    assert schema.sentence == (
        "columns differ from the reference: second is missing; new is new; whole was of kind number and is category"
    )


def test_rare_categories_that_turn_up_as_always_are_no_drift():
    random = np.random.default_rng(3)
    table, reference = ({"word": random.zipf(1.6, 2000).astype(str)} for _ in range(2))
    assert not found(table, reference)


def test_a_stored_profile_says_the_same_as_the_table_and_holds_no_more_than_it_should():
    reference = drawn(5000, 7)
    kept = json.loads(json.dumps(profile(some(reference, np.arange(5000))).as_document(), allow_nan=False))
    for table in (drawn(500, 8), drawn(500, 9) | {"first": np.zeros(500)}):
        assert check(table, reference=reference) == check(table, reference=kept)
    assert max(len(column["points"]) for column in kept["columns"]) == POINTS
    with pytest.raises(Invalid, match="version 7"):
        profile_from({"version": 7, "columns": []})


def test_without_a_reference_test_is_held_against_train():
    shifted = drawn(300, 2) | {"first": np.full(300, 9.0)}
    (moved,) = [one for one in check(drawn(300, 1), shifted, ignore=APART).of("drift") if one.column == "first"]
    assert moved.severity == "problem"
