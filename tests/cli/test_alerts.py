"""Alerts and channels by commands, on a platform that runs: what is found is shown, seen to and decided."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Act
from tests.cli.conftest import Running
from tests.monitoring.alerts.platform import Watched, drift
from tests.serving.control.platform import Platform

NOBODY = "0" * 32
ASKING = Wishes(
    window=86_400,
    quiet=1000,
    channels=("gone",),
    actions=(Act(do="roll-back", approval=True), Act(do="pause-canary", approval=True)),
)


@pytest.fixture(scope="module")
def alarmed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A platform on which an alert was raised before it was started."""
    folder: Path = tmp_path_factory.mktemp("alarmed")
    before = Platform(folder)
    Watched(before, ASKING, revisions=2).sees(drift(revision=2))
    before.close()
    running = Running(folder / "home", folder / "config", FALAJ_SERVING_ENABLED="false")
    yield running
    running.stop()


def test_an_alert_is_listed_shown_and_seen_to(alarmed: Running) -> None:
    [alert] = alarmed.json("alert", "list")["items"]
    listed = alarmed("alert", "list", "--endpoint", "scores")
    assert alert["id"] in listed
    assert "1 of 3 columns drift" in listed
    shown = alarmed("alert", "show", alert["id"])
    assert "Far from what they were: amount (0.31)." in shown
    assert "It waits for somebody who may deploy to agree." in shown
    assert "Z, once in all" in shown
    assert alarmed("alert", "acknowledge", alert["id"]) == "owner sees to it: 1 of 3 columns drift.\n"
    assert "owner sees to it" in alarmed("alert", "list")
    assert alarmed.json("alert", "list", "--which", "over")["items"] == []


def test_what_an_alert_would_do_is_refused_or_approved_and_then_done(alarmed: Running) -> None:
    [alert] = alarmed.json("alert", "list")["items"]
    actions = {one["kind"]: one["id"] for one in alert["actions"]}
    assert alarmed("alert", "refuse", actions["pause-canary"]) == "pause-canary: owner refused it.\n"
    assert alarmed("alert", "approve", actions["roll-back"]).startswith("roll-back: owner agreed")
    for _ in range(100):
        states = {one["kind"]: one["state"] for one in alarmed.json("alert", "show", alert["id"])["actions"]}
        if states["roll-back"] != "ready":
            break
    assert states == {"roll-back": "done", "pause-canary": "refused"}
    assert alarmed.json("endpoint", "show", "scores")["arms"][0]["revision"] == 1
    assert "Nobody has to decide about this" in alarmed.fails("alert", "approve", actions["roll-back"])


def test_an_alert_shows_what_could_not_be_sent_and_why(alarmed: Running) -> None:
    [alert] = alarmed.json("alert", "list")["items"]
    for _ in range(200):
        if alert["sent"][0]["tries"]:
            break
        alert = alarmed.json("alert", "show", alert["id"])
    assert "There is no channel 'gone' any more; it is not tried again" in alarmed("alert", "show", alert["id"])
    assert f"Nobody was reached by {alert['id']}: There is no channel 'gone' any more" in alarmed("alert", "list")


def test_what_is_not_there_or_no_id_is_told(alarmed: Running) -> None:
    assert f"There is no alert {NOBODY} here." in alarmed.fails("alert", "show", NOBODY)
    assert f"There is no action {NOBODY} here" in alarmed.fails("alert", "approve", NOBODY)
    assert "`falaj endpoint list` shows those there are" in alarmed.fails("alert", "list", "--endpoint", "nope")
    assert "is no alert's id" in alarmed.fails("alert", "show", "x", status=2)


def test_channels_are_set_listed_and_deleted(alarmed: Running) -> None:
    made = alarmed.json("channel", "set", "team", "https://hooks.example.com/secret-path")
    assert made["secret"].startswith("whsec_")
    told = alarmed("channel", "set", "chat", input="slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/\n")
    assert told == "chat sends to slack://***.\n"
    listed = alarmed("channel", "list")
    assert "https://hooks.example.com/***" in listed
    assert "secret-path" not in listed
    assert alarmed("channel", "delete", "team", "--yes") == "team is deleted.\n"
    assert [one["name"] for one in alarmed.json("channel", "list")["items"]] == ["chat"]


def test_bad_channels_are_refused_with_a_line(alarmed: Running) -> None:
    assert "lies inside a network" in alarmed.fails("channel", "set", "bad", "https://127.0.0.1/", status=2)
    assert "No address was given" in alarmed.fails("channel", "set", "bad", status=2)
    assert "There is no channel 'bad' here" in alarmed.fails("channel", "delete", "bad", "--yes")
