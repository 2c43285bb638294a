"""A figure that lies beyond its bound for sure is an alert, and is over once it is back; what may be chance is none."""

from typing import Any

import numpy as np
import pytest

from falaj.base.clock import HOUR, MINUTE, Moment
from falaj.monitoring.bounding import beyond
from falaj.monitoring.operations.labels import Bucket, Figure, Gap, Label
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import QualityBound
from tests.monitoring.labels.labelled import Labelled
from tests.monitoring.labels.test_judging import alerts, steps, watched, wrong

RIGHT = QualityBound(figure="accuracy", side="at least", limit=0.8, days=1)


def held(labelled: Labelled, *bounds: QualityBound) -> None:
    watched(labelled, Wishes(quality=bounds))


def test_a_figure_below_its_bound_is_an_alert_until_it_is_back(labelled: Labelled) -> None:
    held(labelled, RIGHT)
    wrong(labelled, 0.5, 200)
    steps(labelled)
    (alert,) = alerts(labelled)
    assert (alert.kind, alert.title) == ("quality", "Revision 1: accuracy beyond its bound")
    assert alert.sentences[0].endswith("over 200 predictions of the last day; it is to be at least 0.8.")
    assert "(99.9% sure)" in alert.sentences[0]
    for _ in range(10):
        labelled.clock.forward(MINUTE)
        steps(labelled)
    (still,) = alerts(labelled)
    assert (still.id, still.resolved) == (alert.id, None), "labels are not read anew for it"
    labelled.clock.forward(25 * HOUR)
    wrong(labelled, 0.05, 200)
    for _ in range(8):
        labelled.clock.forward(MINUTE)
        steps(labelled)
    assert alerts(labelled) == []


def test_the_alert_of_a_revision_that_was_taken_away_is_over_as_any_that_is_not_seen(small: Labelled) -> None:
    held(small, RIGHT)
    wrong(small, 0.5, 200)
    steps(small)
    assert [one.title for one in alerts(small)] == ["Revision 1: accuracy beyond its bound"]
    small.platform.deploy(small.platform.register().version)
    for _ in range(8):
        small.clock.forward(MINUTE)
        steps(small)
    assert alerts(small) == []


def test_what_chance_may_explain_is_no_alert_and_few_rows_are_none(small: Labelled) -> None:
    held(small, RIGHT)
    wrong(small, 1.0, 15)
    steps(small)
    assert alerts(small) == []
    wrong(small, 0.1, 100)
    steps(small)
    assert small.quality(span="whole").items[0].figures[0].at < 0.8
    assert alerts(small) == [], "surely below 0.8 it is not"


def test_calls_that_chose_their_revision_are_not_held_against_it(small: Labelled) -> None:
    held(small, RIGHT)
    small.predicted([1] * 200, [0] * 200, drawn=False)
    steps(small)
    assert alerts(small) == []


def test_a_gap_between_groups_and_a_business_value_are_held_too_and_no_group_is_named(small: Labelled) -> None:
    held(
        small,
        QualityBound(figure="gap", slice="city", side="at most", limit=0.1),
        QualityBound(figure="mean spent", side="at least", limit=5.0),
    )
    random = np.random.default_rng(7)
    for city, share in (("Nizwa", 0.9), ("Sur", 0.4)):
        calls = [small.call(f"{city}-{place}", {"y": [1]}, {"city": [city]}) for place in range(150)]
        small.log(*calls)
        spent = {"spent": 3.0}
        small.add(*(Label(id=one.id, truth=float(random.random() < share), values=dict(spent)) for one in calls))
    steps(small)
    [alert] = [one for one in alerts(small) if "beyond" in one.title]
    assert alert.title == "Revision 1: right by city, mean spent beyond their bounds"
    assert not any(city in str(alert) for city in ("Nizwa", "Sur"))


@pytest.mark.parametrize(
    ("side", "limit", "is_so"),
    [("at least", 0.71, True), ("at least", 0.69, False), ("at most", 0.49, True), ("at most", 0.51, False)],
)
def test_all_of_the_interval_lies_beyond(side: Any, limit: float, is_so: bool) -> None:
    figure = Figure(name="AUC", at=0.6, low=0.5, high=0.7, rows=100)
    gap = Gap(slice="city", figure="right", lowest="a", highest="b", difference=figure)
    bucket = Bucket(revision=1, at=Moment(0), rows=100, kind="classes", figures=(figure,), gaps=(gap,))
    assert bool(beyond(bucket, [QualityBound(figure="auc", side=side, limit=limit)])) is is_so
    assert bool(beyond(bucket, [QualityBound(figure="gap", slice="city", side=side, limit=limit)])) is is_so
    assert beyond(bucket, [QualityBound(figure="gap", slice="age", side=side, limit=limit)]) == []
