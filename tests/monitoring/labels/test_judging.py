"""Labels that tell of a worse model raise an alert that explains itself, stays while it is so, and is never counted twice."""

from typing import Any

import numpy as np
import pytest

from falaj.base.clock import MINUTE, SECOND, Moment
from falaj.base.ids import new_id
from falaj.database.work import UnitOfWork
from falaj.monitoring import judging, losing, wishers
from falaj.monitoring.operations.alerts import LIST_ALERTS, Alert, ListAlerts
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.store import labels as store
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.views import wishes_written
from falaj.monitoring.wishers import Wisher
from tests.monitoring.labels.labelled import Labelled, figures
from tests.registry.platform import START
from tests.serving.control.platform import PROJECT

SEED = 909


def watched(labelled: Labelled, wishes: Wishes = Wishes()) -> None:  # noqa: B008
    """A monitor of the endpoint that looks at no column."""
    now = labelled.clock.now()
    row = {
        "id": new_id(now),
        "project": labelled.platform.app.database.read(lambda work: labelled.row(work).project),
        "endpoint": labelled.endpoint.id,
        "wishes": wishes_written(wishes),
        "created": now,
        "changed": now,
        "changed_by": "0" * 32,
        "wisher": wishers.encode(Wisher(principal="0" * 32)),
    }
    labelled.platform.app.database.write(lambda work: monitor_store.add(work, row))


def alerts(labelled: Labelled) -> list[Alert]:
    return list(labelled.platform.call(LIST_ALERTS, ListAlerts(project=PROJECT, endpoint="scores")).items)


def steps(labelled: Labelled) -> None:
    """What the platform's loops do at one moment."""
    room = labelled.platform.app.monitoring
    while room.step(labelled.clock.now()):
        pass
    room.tend(labelled.clock.now())


def wrong(labelled: Labelled, share: float, rows: int, revision: int = 1) -> None:
    """So many predictions, of which this share is wrong."""
    random = np.random.default_rng([SEED, rows, round(share * 1000)])
    missed = random.random(rows) < share
    labelled.predicted([1] * rows, [int(not one) for one in missed], revision=revision)


def standing(labelled: Labelled, revision: int = 1) -> losing.Standing:
    def read(work: UnitOfWork) -> losing.Standing:
        return losing.decode(store.losses_of(work, labelled.endpoint.id).get(revision, ""))

    return labelled.platform.app.database.read(read)


def test_a_planted_concept_drift_raises_one_alert_that_says_how_much_and_since_when(labelled: Labelled):
    watched(labelled)
    random = np.random.default_rng(SEED)
    for minute in range(16):
        missed = random.random(100) < (0.1 if minute < 10 else 0.45)
        labelled.predicted([1] * 100, [int(not one) for one in missed])
        if minute == 9:
            steps(labelled)
            assert alerts(labelled) == []
        labelled.clock.forward(MINUTE)
    steps(labelled)
    (alert,) = alerts(labelled)
    assert (alert.kind, alert.severity) == ("quality", "critical")
    assert alert.title == "Revision 1 is wrong more often than it was"
    assert alert.since is not None
    assert abs(alert.since - (START + 10 * MINUTE)) <= 2 * MINUTE
    assert str(alert.since)[:19] in alert.sentences[0]
    assert "1% at most" in alert.sentences[2]
    assert standing(labelled).rows == 1600


def test_a_stream_that_does_not_change_is_quiet(labelled: Labelled):
    watched(labelled)
    for _ in range(4):
        wrong(labelled, 0.2, 500)
        steps(labelled)
    assert alerts(labelled) == []
    assert standing(labelled).rows == 2000


def test_the_alert_goes_on_until_labels_are_good_again(small: Labelled):
    watched(small)
    wrong(small, 0.05, 800)
    wrong(small, 0.5, 400)
    steps(small)
    for _ in range(6):  # much longer than an alert stays open that nobody sees again
        small.clock.forward(2 * MINUTE)
        steps(small)
    assert [one.resolved for one in alerts(small)] == [None]
    wrong(small, 0.04, 1500)
    steps(small)
    for _ in range(4):
        small.clock.forward(2 * MINUTE)
        steps(small)
    assert standing(small).risen is None
    assert all(one.resolved is not None for one in alerts(small))


def test_a_revision_that_serves_no_more_is_not_accused_any_longer(small: Labelled):
    watched(small)
    wrong(small, 0.05, 800)
    wrong(small, 0.5, 400)
    steps(small)
    small.platform.deploy(small.platform.register().version)
    small.platform.promote()
    small.clock.forward(10 * MINUTE)
    steps(small)
    assert standing(small).risen is None
    assert standing(small, 2).rows == 0


def test_what_callers_chose_the_revision_for_accuses_nobody_and_counts_in_quality(small: Labelled):
    watched(small)
    wrong(small, 0.05, 600)
    small.clock.forward(SECOND)
    small.predicted([1] * 600, [0] * 600, drawn=False)
    steps(small)
    assert (alerts(small), standing(small).rows) == ([], 600)
    (bucket,) = small.quality(span="whole").items
    assert bucket.rows == 1200
    assert figures(bucket)["accuracy"].at < 0.5


def test_revisions_are_judged_apart(small: Labelled):
    watched(small)
    small.platform.deploy(small.platform.register().version)
    wrong(small, 0.05, 600, revision=1)
    wrong(small, 0.5, 600, revision=2)
    steps(small)
    assert alerts(small) == []
    assert (standing(small, 1).rows, standing(small, 2).rows) == (600, 600)


def test_labels_are_judged_once_whoever_judges_at_the_same_time(labelled: Labelled):
    wrong(labelled, 0.1, 300)
    judge, database = labelled.platform.app.monitoring._judging, labelled.platform.app.database
    (waiting,) = database.read(lambda work: store.to_judge(work, 10))
    judge._judge(waiting, labelled.clock.now())
    judge._judge(waiting, labelled.clock.now())  # as somebody would who had looked at the same moment
    assert standing(labelled).rows == 300
    assert database.read(lambda work: store.to_judge(work, 10)) == []


def test_an_endpoint_without_a_monitor_is_judged_and_gets_no_alert(small: Labelled):
    wrong(small, 0.05, 800)
    wrong(small, 0.5, 400)
    steps(small)
    assert standing(small).risen is not None
    watched(small)
    small.clock.forward(11 * MINUTE)
    steps(small)
    assert len(alerts(small)) == 1


def test_more_batches_than_are_taken_in_at_once_are_taken_in_one_after_the_other(small: Labelled):
    for _ in range(judging.BATCHES_AT_ONCE + 3):
        small.predicted([1] * 10, [1] * 10)
    steps(small)
    assert standing(small).rows == 10 * (judging.BATCHES_AT_ONCE + 3)
    assert standing(small).window.start == 0
    assert Moment(0) <= min(standing(small).moments.values())


def test_labels_that_cannot_be_read_hold_up_those_of_no_other_endpoint(small: Labelled, monkeypatch: pytest.MonkeyPatch):
    counters = dict.fromkeys(("judged", "taken", "repeated", "refused", "unknown"), 0)
    nobody = {"endpoint": "0" * 32, "project": "0" * 32, "zone": "", "key": "", "gathered": ""}
    row = {**nobody, "places": 1, "names": "[]", **counters}
    small.platform.app.database.write(lambda work: store.add_labelling(work, row))
    real = store.batches_after

    def odd(work: UnitOfWork, endpoint: str, place: int, limit: int) -> Any:
        if endpoint == "0" * 32:
            raise RuntimeError("as nobody thought of it")
        return real(work, endpoint, place, limit)

    monkeypatch.setattr(store, "batches_after", odd)
    monkeypatch.setattr(judging, "AT_ONCE", 1)
    wrong(small, 0.1, 50)
    steps(small)
    assert standing(small).rows == 50
