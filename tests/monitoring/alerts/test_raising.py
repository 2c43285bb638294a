"""What is seen becomes one alert, told to who should know, acted on as wished, and on record; on either database."""

import json
import threading
from dataclasses import replace

import pytest
from sqlalchemy import select, update

from falaj.base.clock import DAY, HOUR, MINUTE
from falaj.base.errors import Conflict
from falaj.database.work import UnitOfWork
from falaj.governance.projects.operations import DELETE_PROJECT, OneProject
from falaj.monitoring.operations.monitors import DELETE_MONITOR, OneMonitor, Wishes
from falaj.monitoring.operations.words import Act
from falaj.monitoring.store import alerts as store
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store.tables import alerts, outbox
from falaj.serving.operations.endpoints import DELETE_ENDPOINT, OneEndpoint
from tests.monitoring.alerts.platform import AMOUNT, Watched, drift
from tests.serving.control.platform import PROJECT, Platform

TOLD = Wishes(channels=("team",), escalate_to=("boss",), escalate_after=1800)
OVER = 6 * MINUTE  # five windows of a minute, and what they may be late


def test_what_is_seen_again_and_again_is_one_alert_one_message_and_one_leaf(platform: Platform) -> None:
    watched = Watched(platform, TOLD)
    for _ in range(4):
        watched.sees(drift())
        platform.clock.forward(MINUTE)
    alert = watched.alert()
    assert (alert.endpoint, alert.kind, alert.severity, alert.sightings) == ("scores", "drift", "warning", 4)
    assert alert.columns == (AMOUNT,)
    assert watched.told() == [("raised", "team")]
    [leaf] = platform.leaves("alert.raise")
    assert leaf.facts["columns"] == ["amount"]
    assert (leaf.facts["alert"], leaf.facts["endpoint"], leaf.facts["kind"]) == (alert.id, "scores", "drift")
    assert leaf.principal == ""


def test_two_keys_are_two_alerts_and_what_gets_worse_is_told_and_on_record(small: Platform) -> None:
    watched = Watched(small, TOLD)
    watched.sees(drift(), drift(revision=2))
    watched.sees(drift("critical"))
    newest, oldest = watched.alerts()
    assert (newest.severity, oldest.severity) == ("warning", "critical")
    assert [one.what for one in oldest.sent] == ["raised", "worse"]
    assert [leaf.facts["what"] for leaf in small.leaves("alert.raise")] == ["worse", "raised", "raised"]


def test_what_nobody_sees_to_goes_to_others_and_once_it_is_not_seen_all_hear_that_it_is_over(platform: Platform) -> None:
    watched = Watched(platform, TOLD)
    for _ in range(31):
        watched.sees(drift())
        watched.wait(MINUTE)
    assert watched.told() == [("raised", "team"), ("escalated", "boss")]
    watched.wait(OVER)
    assert watched.told()[2:] == [("resolved", "team"), ("resolved", "boss")]
    assert watched.alert().resolved is not None
    assert len(platform.leaves("alert.resolve")) == 1
    watched.wait(DAY)
    assert len(watched.told()) == 4


def test_that_nobody_saw_to_an_alert_is_on_record(platform: Platform) -> None:
    watched = Watched(platform, replace(TOLD, window=3600))
    watched.sees(drift())
    watched.wait(HOUR)
    assert watched.told()[-1] == ("escalated", "boss")
    leaf = platform.leaves("alert.raise")[0]
    assert (leaf.facts["alert"], leaf.facts["what"], leaf.principal) == (watched.alert().id, "escalated", "")


def test_an_alert_that_stays_open_is_told_again_every_day(small: Platform) -> None:
    watched = Watched(small, Wishes(channels=("team",), window=86_400, quiet=3))
    watched.sees(drift())
    watched.wait(DAY)
    watched.wait(MINUTE)
    assert watched.told() == [("raised", "team"), ("reminded", "team")]


def test_what_comes_back_within_an_hour_is_the_same_alert_and_later_another(platform: Platform) -> None:
    watched = Watched(platform, TOLD)
    watched.sees(drift())
    watched.wait(OVER)
    watched.sees(drift())
    assert watched.alert().resolved is None
    assert [one for one, _ in watched.told()] == ["raised", "resolved", "reopened"]
    assert [leaf.facts["what"] for leaf in platform.leaves("alert.raise")] == ["reopened", "raised"]
    watched.wait(OVER)
    watched.wait(2 * HOUR)
    watched.sees(drift())
    assert len(watched.alerts()) == 2


def test_an_alert_of_a_monitor_that_is_gone_is_over_and_nothing_new_is_raised(small: Platform) -> None:
    watched = Watched(small, Wishes(channels=("team",), actions=(Act(do="roll-back", approval=True),)))
    watched.sees(drift())
    watched.forget()
    watched.wait(MINUTE)
    alert = watched.alert()
    assert alert.resolved is not None
    assert alert.sentences[-1] == "Its endpoint is not watched any more."
    assert [one.state for one in alert.actions] == ["refused"]


@pytest.mark.parametrize("gone", ["the monitor", "the endpoint"])
def test_that_an_alert_ends_with_its_monitor_is_told_to_who_was_told_of_it(platform: Platform, gone: str) -> None:
    watched = Watched(platform, replace(TOLD, window=3600))
    watched.sees(drift(), drift(revision=2))
    watched.wait(HOUR)
    if gone == "the monitor":
        platform.call(DELETE_MONITOR, OneMonitor(project=PROJECT, endpoint="scores"))
    else:
        platform.call(DELETE_ENDPOINT, OneEndpoint(project=PROJECT, endpoint="scores"))
        platform.app.monitoring.clean(platform.clock.now())
    for alert in watched.alerts():
        assert alert.resolved is not None
        assert alert.sentences[-1] == "Its endpoint is not watched any more."
        assert {(one.what, one.channel) for one in alert.sent if one.what == "resolved"} == {
            ("resolved", "team"),
            ("resolved", "boss"),
        }
    watched.wait(MINUTE)
    assert len(platform.leaves("alert.resolve")) == 2
    row = platform.app.database.read(lambda work: work.execute(select(outbox).where(outbox.c.what == "resolved")).first())
    assert row is not None
    said = json.loads(row.event)["data"]
    assert (said["title"], said["sentence"]) == ("Over: 1 of 3 columns drift", "Its endpoint is not watched any more.")


def test_a_monitor_that_nobody_can_read_is_deleted_all_the_same(small: Platform) -> None:
    watched = Watched(small, TOLD)
    watched.sees(drift())
    small.app.database.write(lambda work: monitor_store.change(work, watched.id, wishes="{"))
    small.call(DELETE_MONITOR, OneMonitor(project=PROJECT, endpoint="scores"))
    watched.wait(MINUTE)
    assert watched.alert().resolved is not None


def test_actions_come_once_for_an_alert_and_what_rests_is_said_in_its_words(platform: Platform) -> None:
    watched = Watched(platform, Wishes(channels=("team",), actions=(Act(do="retrain", job="1" * 32),)))
    watched.sees(drift())
    watched.sees(drift("critical"))
    assert [(one.kind, one.state) for one in watched.alert().actions] == [("retrain", "ready")]
    watched.wait(OVER)
    watched.sees(drift())
    watched.sees(drift())
    alert = watched.alert()
    assert len(alert.actions) == 1
    assert alert.sentences[-1].startswith("Retraining is left out: it was decided upon at ")
    first = platform.app.database.read(lambda work: store.first_due(work, platform.clock.now(), watched.project, "team"))
    assert first is not None
    assert "Retraining: It is about to be done." in json.loads(first.event)["data"]["sentence"]


def test_what_waits_for_approval_is_withdrawn_when_the_alert_is_over_and_asked_again_when_it_is_back(
    small: Platform,
) -> None:
    watched = Watched(small, Wishes(actions=(Act(do="roll-back", approval=True),)))
    watched.sees(drift())
    watched.wait(OVER)
    [action] = watched.alert().actions
    assert (action.state, action.words) == ("refused", "The alert was over before anybody decided.")
    watched.sees(drift())
    assert [one.state for one in watched.alert().actions] == ["refused", "waiting"]


def test_two_control_planes_that_see_the_same_at_once_make_one_alert_and_one_action(platform: Platform) -> None:
    watched = Watched(platform, Wishes(channels=("team",), actions=(Act(do="roll-back"),)))
    threads = [threading.Thread(target=watched.sees, args=(drift(),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    alert = watched.alert()
    assert (alert.sightings, len(alert.actions), len(alert.sent)) == (6, 1, 1)


def test_what_fails_afterwards_leaves_neither_alert_nor_message_nor_leaf(platform: Platform) -> None:
    watched = Watched(platform, TOLD)

    def enter(work: UnitOfWork) -> None:
        watched.enter(work, drift())
        raise Conflict("What was seen could not be kept.")

    with pytest.raises(Conflict):
        platform.app.database.write(enter)
    assert watched.alerts() == ()
    assert platform.leaves("alert.raise") == []


def test_time_passes_for_all_alerts_however_many_there_are(small: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("falaj.monitoring.raising.AT_ONCE", 2)
    watched = Watched(small)
    watched.sees(*(drift(revision=number) for number in range(1, 6)))
    small.clock.forward(OVER)
    raising, now = small.app.monitoring.raising, small.clock.now()
    assert [raising.pass_time(now) for _ in range(3)] == [True, True, False]
    assert all(one.resolved is not None for one in watched.alerts())


def test_a_project_that_is_archived_keeps_its_alerts_and_stops_nothing(small: Platform) -> None:
    watched = Watched(small, TOLD)
    watched.sees(drift())
    small.call(DELETE_PROJECT, OneProject(project=PROJECT))
    watched.wait(OVER)
    assert watched.alert().resolved is not None


def test_what_was_over_a_year_ago_is_forgotten_and_its_record_is_not(platform: Platform) -> None:
    watched = Watched(platform, Wishes(channels=("team",), actions=(Act(do="roll-back"),)))
    watched.sees(drift())
    watched.wait(OVER)
    watched.sees(drift(revision=2))
    platform.clock.forward(367 * DAY)
    platform.owner = platform.app.owner_token()
    assert platform.app.monitoring.raising.clean(platform.clock.now()) is False
    assert [one.resolved for one in watched.alerts()] == [None], "what is open stays"
    assert len(platform.leaves("alert.raise")) == 2


def test_what_is_odd_about_one_alert_keeps_no_other_from_being_over(small: Platform) -> None:
    watched = Watched(small, TOLD)
    watched.sees(drift(), drift(revision=2))
    newest, oldest = watched.alerts()
    small.app.database.write(lambda work: work.execute(update(alerts).where(alerts.c.id == oldest.id).values(posted="odd")))
    watched.wait(OVER)
    rows = small.app.database.read(lambda work: work.execute(select(alerts.c.id, alerts.c.resolved)).all())
    assert {row.id for row in rows if row.resolved is not None} == {newest.id}
    small.app.database.write(lambda work: work.execute(update(alerts).where(alerts.c.id == oldest.id).values(posted="[]")))
    watched.wait(MINUTE)
    assert all(one.resolved is not None for one in watched.alerts())
