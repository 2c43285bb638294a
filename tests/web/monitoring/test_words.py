"""What a monitor comes to, in one sentence."""

from dataclasses import replace
from typing import Any

import pytest

from falaj.base.clock import SECOND, Moment
from falaj.monitoring.operations.monitors import Monitor, RowsTogether, Watching, Wishes
from falaj.monitoring.operations.words import Objective, Told
from falaj.registry.operations.promotions import Person
from falaj.web.monitoring.words import foremost, health_of, objective_words, part, sentence

NOW = Moment(1_800_000_000_000_000)


def told(column: str, effect: float = 0.0, drifting: bool = False) -> Told:
    return Told(column=column, effect=effect, evidence=0.0, missing=0.0, outside=0.0, drifting=drifting)


def watching(*columns: Told, **more: Any) -> Watching:
    given: dict[str, Any] = {
        "revision": 1,
        "source": "traffic",
        "learning": (),
        "learnt": 0,
        "windows": 3,
        "last": NOW,
        "rows": 500,
        "missed": 0,
        "late": 0,
    }
    return Watching(columns=columns, **(given | more))


def monitor_of(*all_watching: Watching, health: str = "well") -> Monitor:
    return Monitor(
        id="0" * 32,
        endpoint="scores",
        wishes=Wishes(),
        health=health,
        open_alerts=0,
        behind=0,
        watching=all_watching,
        created=NOW,
        changed=NOW,
        changed_by=Person(id="0" * 32, name="maryam"),
    )


def said(of: Watching | None, health: str = "well") -> str:
    return sentence(monitor_of(*(() if of is None else (of,)), health=health), of)


def test_drift_is_named_furthest_first_and_not_all_of_it() -> None:
    drifting = [told(name, 0.5, drifting=True) for name in "abcde"]
    words = said(watching(*drifting, told("f"), source="payments@3"), "drifting")
    assert words == "5 of 6 columns drift against payments@3: a (0.50), b (0.50), c (0.50) and 2 more."
    assert said(watching(told("a", 0.2, drifting=True)), "drifting").startswith("1 of 1 column drifts against the first rows")


def test_rows_that_drift_as_a_whole_are_told_though_no_column_does() -> None:
    rows = RowsTogether(rows=400, area=0.7, chance=0.001, columns=("age", "income"), drifting=True)
    words = said(watching(told("age"), together=rows), "drifting")
    assert words.startswith("No column drifts by itself, but rows as a whole are not what they were")
    assert "age, income" in words
    assert "All is as it was" in said(watching(told("age"), together=replace(rows, drifting=False)))


def test_what_cannot_be_said_yet_is_said_so() -> None:
    assert "no window of traffic is complete" in said(None, "learning")
    assert "of 1,200 rows so far" in said(watching(last=None, learnt=1200), "learning")
    assert said(watching(learning=("a", "b")), "learning") == "It is still learning what is usual: 2 columns are not known yet."
    assert said(watching(told("a"), learning=("b",))).endswith("1 more is still being learnt.")
    assert "; in the last window none of 1 column drifts" in said(watching(told("a")), "quiet")
    assert said(watching(learning=("a",)), "quiet") == "Nobody called it for a while; it was still learning what is usual."


def test_the_revision_with_the_newest_windows_speaks_for_the_endpoint() -> None:
    old, new = watching(revision=1, last=Moment(NOW - 1), rows=900), watching(revision=2, rows=10)
    assert foremost(monitor_of(old, new)) == new
    assert foremost(monitor_of(new, replace(new, revision=3, rows=20))) == replace(new, revision=3, rows=20)
    assert foremost(monitor_of()) is None


def test_a_revision_that_drifts_speaks_before_one_that_is_well_and_is_named() -> None:
    well = watching(told("a"), revision=1, rows=900)
    ill = watching(told("a", 0.4, drifting=True), revision=2, rows=10, last=Moment(NOW - 60 * SECOND))
    both = monitor_of(well, ill, health="drifting")
    assert foremost(both) == ill
    assert sentence(both, ill).startswith("Revision 2: 1 of 1 column drifts")
    assert sentence(both, well) == "Revision 1 is as it was against the first rows that it answered, but revision 2 drifts."
    gone = replace(ill, last=Moment(NOW - 3600 * SECOND))
    assert foremost(monitor_of(well, gone)) == well
    assert sentence(monitor_of(well, gone), well).startswith("All is as it was")


def test_health_is_always_a_word_also_one_that_nobody_foresaw() -> None:
    assert health_of(None).word == "not watched"
    monitor = monitor_of(health="melting")
    assert (health_of(monitor).word, health_of(monitor).tone) == ("melting", "warn")


@pytest.mark.parametrize(("share", "words"), [(0, "0 %"), (0.0001, "< 0.1 %"), (0.0123, "1.2 %"), (0.5, "50 %"), (1, "100 %")])
def test_shares_are_written_in_few_digits(share: float, words: str) -> None:
    assert part(share) == words


def test_objectives_are_told_as_people_say_them() -> None:
    assert objective_words(Objective(kind="availability", share=0.999)) == "99.9 % without an error, over 30 days"
    latency = Objective(kind="latency", share=0.95, milliseconds=1500, days=1)
    assert objective_words(latency) == "95 % within 1,500 ms, over 1 day"
