"""Sentences of alerts: in the unit of a column, with the share of predictions, without values that are not for everybody."""

import math
from dataclasses import replace

import pytest

from falaj.base.clock import HOUR, MINUTE, Moment
from falaj.monitoring.checking import Apart
from falaj.monitoring.deciding import Outcome
from falaj.monitoring.explaining import (
    Happened,
    Moved,
    Where,
    drift_sentences,
    missing_sentences,
    moved_words,
    percent,
    schema_sentences,
    together_sentences,
)
from falaj.monitoring.operations.checks import ChangedColumn
from falaj.monitoring.references import Column
from falaj.monitoring.sightings import Around, Found, sightings

NOON = Moment.parse("2026-11-15T12:00:00Z")
WHERE = Where(revision=3, source="orders@2", share=0.5, rows=900, missed=100, since=Moment(NOON - HOUR // 2))
AGE = Column(name="age", edges=(0.0, 10.0, 20.0, 30.0), counts={"": (50, 50, 50, 50, 50, 0)}, settled=True)
CITY = Column(name="city", kinds=("Ajman", "Dubai"), settled=True)
OUTCOME = Outcome(column="age", effect=0.5, evidence=9.0, missing=0.0, outside=0.25, drifting=True, since=2, began=7)
AGED = Moved(column=AGE, outcome=OUTCOME, usual=(0, 50, 50, 0, 0, 0), seen=(0, 0, 25, 50, 25, 0))
MOVED = Moved(column=CITY, outcome=replace(OUTCOME, column="city", outside=0.4), usual=(80, 20, 0, 0), seen=(10, 50, 40, 0))
ANSWER = Moved(column=replace(AGE, name="y", is_output=True), outcome=OUTCOME, usual=AGED.usual, seen=AGED.seen)


def test_numbers_are_told_in_their_unit_and_kinds_without_their_names():
    assert moved_words(AGED) == (
        "age: distance 0.50; its median moved from 10 to beyond 20 (by at least 10), its values moved by at least 8.75 on "
        "average, 25 % of the rows lie beyond anything seen before."
    )
    assert moved_words(replace(AGED, seen=(0, 0, 0, 0, 0, 9))) == "age: distance 0.50; no value of it was seen lately."
    told = moved_words(MOVED)
    assert "the share of the kind that was the 1st most frequent went from 80 % to 10 %" in told
    assert "Ajman" not in told
    assert moved_words(AGED, hidden=True) == "age: distance 0.50."


def test_the_first_sentence_tells_what_is_asked_from_what_is_answered():
    both = drift_sentences(WHERE, [AGED], [ANSWER])
    assert both[0].startswith("What revision 3 is asked is not what it was in orders@2 since 2026-11-15 11:30 UTC (age)")
    assert "neither is what it answers (y)" in both[0]
    assert "though what it is asked is" in drift_sentences(WHERE, [], [ANSWER])[0]
    assert drift_sentences(WHERE, [AGED], [])[0].endswith(": age.")


def test_the_share_of_predictions_the_rows_that_were_missed_and_what_changed_are_told():
    happened = (
        Happened(at=Moment(NOON - HOUR), what="orders got version 3"),
        Happened(at=Moment(NOON - MINUTE), what="a split changed who gets what"),
    )
    told = " ".join(drift_sentences(WHERE, [AGED], [], estimate="Its likely effect: none.", happened=happened))
    assert "About 38 % of the endpoint's predictions" in told
    assert "Counted were 900 of 1000 rows of the window; 10 % were not looked at." in told
    assert "Its likely effect: none." in told
    assert "orders got version 3 (2026-11-15 11:00 UTC); a split changed who gets what (2026-11-15 11:59 UTC)." in told
    assert "skew" not in told
    assert "training-serving skew" in " ".join(drift_sentences(replace(WHERE, skewed=True), [AGED], []))


def test_what_is_missing_gone_or_of_another_type_is_told():
    gone = replace(AGED, outcome=replace(OUTCOME, missing=0.6), seen=(0, 20, 20, 0, 0, 60))
    assert "age is missing in 60 % of the rows, was in 0 %." in missing_sentences(WHERE, [gone])[0]
    told = schema_sentences(
        WHERE,
        [MOVED],
        [("age", 0.3)],
        [ChangedColumn(column="a", before="int64", after=""), ChangedColumn(column="b", before="int64", after="text")],
        "orders@3",
    )
    assert told[:4] == (
        "40 % of the rows have a value of city that orders@2 does not have.",
        "age was numbers, and is text in 30 % of the sampled rows.",
        "a is gone from orders@3; it was int64.",
        "b is text in orders@3; it was int64.",
    )


def test_rows_that_only_together_are_other_ones_are_told_with_the_columns_it_takes():
    apart = Apart(rows=300, area=0.81, chance=1e-9, named=(("age", 0.2), ("city", 0.1)), drifting=True)
    told = together_sentences(WHERE, apart)
    assert "most of all age, city." in told[0]
    assert "81 % of the time" in told[1]


@pytest.mark.parametrize(("share", "words"), [(0.0, "0 %"), (0.012, "1.2 %"), (0.33333, "33 %"), (1.0, "100 %")])
def test_shares_are_as_exact_as_people_want_them(share: float, words: str):
    assert percent(share) == words


def test_of_what_is_kept_from_people_no_number_but_the_distance_is_told():
    hidden = replace(AGED, outcome=replace(OUTCOME, missing=0.6), seen=(0, 20, 20, 0, 0, 60))
    found = Found(missing=(hidden,), unseen=(MOVED,), texts=(("age", 0.3),))
    told = {one.kind: one for one in sightings(found, Around(where=WHERE, private=frozenset({"age", "city"})))}
    first, second = told["missing"].sentences[0], told["schema"].sentences[:2]
    assert first.endswith(": age is missing more often than it was.")
    assert second == (
        "More of the rows have a value of city that orders@2 does not have.",
        "age was numbers, and is text in some of the sampled rows.",
    )
    for one in (*told["missing"].columns, *told["schema"].columns):
        assert one.effect == OUTCOME.effect
        assert math.isnan(one.missing)
        assert math.isnan(one.outside)
    open_to_all = sightings(found, Around(where=WHERE))
    assert [one.missing for some in open_to_all for one in some.columns] == [0.6, 0.0]
