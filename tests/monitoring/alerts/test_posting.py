"""Messages reach real receivers, once or more often and never not at all; a bad receiver holds up nobody but itself."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.app.settings import MonitoringSettings
from falaj.base.clock import HOUR, MINUTE, SECOND
from falaj.base.webhooks import signature
from falaj.governance.zones.residency import ProjectZones
from falaj.monitoring.channels import ChannelService
from falaj.monitoring.operations import alerts as declared
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.posting import AT_ONCE, OF_PROJECT, Line, Posting, chosen
from falaj.monitoring.sealing import Documents
from falaj.monitoring.sending import delivering
from falaj.monitoring.store import alerts as store
from falaj.storage.service import BlobService
from tests.monitoring.alerts.platform import Watched, drift
from tests.monitoring.alerts.test_channels import delete, put
from tests.monitoring.sending import receivers
from tests.monitoring.sending.receivers import Server, says
from tests.serving.control.platform import PROJECT, Platform


def address(receiver: Server) -> str:
    return f"https://localhost:{receiver.port}/hook"


def watched_by(platform: Platform, *channels: str) -> Watched:
    watched = Watched(platform, Wishes(channels=channels))
    watched.sees(drift())
    return watched


def post(platform: Platform) -> None:
    """Everything that is due, to its end."""
    posting = platform.app.monitoring.posting
    while posting.step(platform.clock.now()):
        posting.wait()
    posting.wait()


def sent(watched: Watched) -> dict[str, declared.Sent]:
    return {one.channel: one for one in watched.alert().sent}


def ids(receiver: Server) -> list[str]:
    return [headers["webhook-id"] for _, headers, _ in receiver.got]


def test_a_message_is_taken_signed_with_the_channels_secret_and_the_alert_says_so(near: Platform, receiver: Server) -> None:
    secret = put(near, address(receiver)).secret
    watched = watched_by(near, "team")
    post(near)
    [(path, headers, body)] = receiver.got
    made = signature(secret, headers["webhook-id"], headers["webhook-timestamp"], body)
    assert (path, headers["webhook-signature"]) == ("/hook", made)
    event = json.loads(body)
    assert (event["type"], event["data"]["project"], event["data"]["endpoint"]) == ("falaj.alert.raised", PROJECT, "scores")
    assert event["data"]["facts"]["alert"] == watched.alert().id
    assert event["data"]["facts"]["columns"] == {"amount": 0.31}
    told = sent(watched)["team"]
    assert (told.what, told.tries, told.problem) == ("raised", 1, "")
    assert told.at is not None
    post(near)
    assert len(receiver.got) == 1
    [leaf] = near.leaves("alert.send")
    assert leaf.facts == {
        "alert": watched.alert().id,
        "message": headers["webhook-id"],
        "what": "raised",
        "channel": "team",
        "tries": 1,
        "state": "taken",
    }


def test_what_is_not_taken_is_sent_again_later_under_the_same_id(near: Platform, receiver: Server) -> None:
    put(near, address(receiver))
    watched = watched_by(near, "team")
    receiver.answer = says(500)
    post(near)
    told = sent(watched)["team"]
    assert (told.at, told.tries) == (None, 1)
    assert "answered 500" in told.problem
    post(near)
    assert len(receiver.got) == 1, "it is not due yet"
    near.clock.forward(SECOND)
    receiver.answer = says(200)
    post(near)
    told = sent(watched)["team"]
    assert (told.tries, told.problem) == (2, "")
    assert told.at is not None
    assert len(set(ids(receiver))) == 1


def test_what_is_told_of_an_alert_comes_in_the_order_in_which_it_was_so(near: Platform, receiver: Server) -> None:
    """Also where the first message is not taken at first: the last one tells what is so."""
    put(near, address(receiver))
    watched = watched_by(near, "team")
    receiver.answer = says(500)
    for delay in delivering.DELAYS[:4]:
        post(near)
        near.clock.forward(round(delay * SECOND))
    post(near)
    receiver.answer = says(200)
    tried = len(receiver.got)
    watched.wait(6 * MINUTE)
    assert [one.what for one in watched.alert().sent] == ["raised", "resolved"]
    post(near)
    assert [json.loads(body)["type"] for _, _, body in receiver.got[tried:]] == ["falaj.alert.raised", "falaj.alert.resolved"]


def test_a_newer_message_waits_until_the_one_before_was_taken_or_given_up(small_near: Platform, receiver: Server) -> None:
    put(small_near, address(receiver))
    watched = watched_by(small_near, "team")
    receiver.answer = says(500)
    post(small_near)
    watched.sees(drift("critical"), drift(revision=2))
    post(small_near)
    assert [(one.what, one.tries) for one in watched.alerts()[1].sent] == [("raised", 2), ("worse", 0)]
    assert [(one.what, one.tries) for one in watched.alerts()[0].sent] == [("raised", 1)], "another alert does not wait"
    tried = len(receiver.got)
    receiver.answer = says(410)
    small_near.clock.forward(MINUTE)
    post(small_near)
    assert [one.problem.endswith("it is not tried again") for one in watched.alerts()[1].sent] == [True, True]
    told = [json.loads(body) for _, _, body in receiver.got[tried:]]
    first = [one["type"] for one in told if one["data"]["facts"]["alert"] == watched.alerts()[1].id]
    assert first == ["falaj.alert.raised", "falaj.alert.worse"]


def test_what_is_never_taken_is_given_up_and_the_alert_says_why(small_near: Platform, receiver: Server) -> None:
    put(small_near, address(receiver))
    watched = watched_by(small_near, "team")
    receiver.answer = says(503)
    for _ in range(len(delivering.DELAYS) + 3):
        post(small_near)
        small_near.clock.forward(HOUR)
    told = sent(watched)["team"]
    assert (told.at, told.tries) == (None, len(delivering.DELAYS) + 1)
    assert told.problem.endswith("answered 503; it is not tried again")
    [leaf] = small_near.leaves("alert.send")
    assert (leaf.facts["state"], leaf.facts["tries"]) == ("given up", told.tries), (
        "one for the message, however often it was tried"
    )


def test_a_redirect_inside_is_not_followed_and_given_up_at_once(
    small_near: Platform, receiver: Server, other_receiver: Server
) -> None:
    put(small_near, address(receiver))
    watched = watched_by(small_near, "team")
    receiver.answer = says(302, f"location: https://localhost:{other_receiver.port}/")
    post(small_near)
    small_near.clock.forward(HOUR)
    post(small_near)
    assert (len(receiver.got), other_receiver.connections) == (1, 0)
    assert "answered 302" in sent(watched)["team"].problem
    assert sent(watched)["team"].problem.endswith("it is not tried again")


def test_a_name_that_leads_inside_is_refused_when_it_is_sent_too(small_near: Platform, receiver: Server) -> None:
    """Set while the operator allowed it, or while the name led elsewhere."""
    put(small_near, address(receiver))
    watched = watched_by(small_near, "team")
    documents = documents_of(small_near)
    posting = Posting(small_near.app.database, ChannelService(small_near.app.database, documents), small_near.clock)
    posting.step(small_near.clock.now())
    posting.wait()
    told = sent(watched)["team"]
    assert (told.at, receiver.got) == (None, [])
    assert "inside a network" in told.problem
    assert told.problem.endswith("it is not tried again")


def test_a_receiver_that_hangs_holds_up_nobody_else_and_is_left_when_the_platform_ends(
    near: Platform, receiver: Server, other_receiver: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(delivering.TAKES, "webhook", 120.0)
    put(near, address(receiver), "slow")
    put(near, address(other_receiver), "quick")
    receiver.answer = receivers.hangs
    watched = watched_by(near, "slow", "quick")
    watched.sees(drift("critical"))
    posting = near.app.monitoring.posting

    def quick_ones() -> list[declared.Sent]:
        return [one for one in watched.alert().sent if one.channel == "quick" and one.at is not None]

    until(lambda: len(quick_ones()) == 2 and len(receiver.got) == 1, lambda: posting.step(near.clock.now()))
    assert receiver.connections == 1, "the second message waits for the first"
    posting.close()
    rows = near.app.database.read(lambda work: store.sent_of(work, [watched.alert().id]))[watched.alert().id]
    assert [(row.channel, row.tries, row.due is None) for row in rows] == [
        ("slow", 0, False),
        ("quick", 1, True),
        ("slow", 0, False),
        ("quick", 1, True),
    ]


def test_a_receiver_that_hangs_is_told_of_and_tried_again(
    small_near: Platform, receiver: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(delivering.TAKES, "webhook", 1.0)
    put(small_near, address(receiver))
    receiver.answer = receivers.hangs
    watched = watched_by(small_near, "team")
    post(small_near)
    assert sent(watched)["team"].problem == "it was not taken within 1 seconds"
    monkeypatch.setitem(delivering.TAKES, "webhook", 60.0)
    receiver.answer = says(204)
    small_near.clock.forward(MINUTE)
    post(small_near)
    assert sent(watched)["team"].problem == ""


def test_a_channel_that_is_gone_is_told_of(small_near: Platform, receiver: Server) -> None:
    put(small_near, address(receiver))
    watched = watched_by(small_near, "team", "nowhere")
    watched.wish(Wishes())
    delete(small_near)
    post(small_near)
    assert {one.problem for one in sent(watched).values()} == {
        "There is no channel 'team' any more; it is not tried again",
        "There is no channel 'nowhere' any more; it is not tried again",
    }


def test_killed_after_it_was_sent_a_message_comes_twice_with_the_same_id(
    tmp_path: Path, receiver: Server, pair: tuple[Path, Path]
) -> None:
    program = f"""
from pathlib import Path
from falaj.app.settings import MonitoringSettings
from tests.monitoring.alerts.test_channels import put
from tests.monitoring.alerts.test_posting import post, watched_by
from tests.serving.control.platform import Platform

platform = Platform(Path({str(tmp_path)!r}), monitoring=MonitoringSettings(private_receivers=True))
put(platform, {address(receiver)!r})
watched_by(platform, "team")
post(platform)
"""
    environment = {**os.environ, "SSL_CERT_FILE": str(pair[0]), "FALAJ_FAILPOINT": "alerts.sent"}
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False).returncode == -signal.SIGKILL
    assert len(receiver.got) == 1
    platform = Platform(tmp_path, monitoring=MonitoringSettings(private_receivers=True))
    try:
        platform.clock.forward(MINUTE)
        post(platform)
        post(platform)
    finally:
        platform.close()
    assert len(receiver.got) == 2
    assert len(set(ids(receiver))) == 1


# Who is sent to next

LINES = st.builds(
    Line, project=st.sampled_from(["a", "b", "c", "d", "e", "f"]), channel=st.sampled_from([str(number) for number in range(9)])
)


@given(st.lists(LINES, unique=True), st.lists(LINES, unique=True, max_size=AT_ONCE))
def test_no_channel_is_sent_to_twice_at_once_and_no_project_takes_more_than_its_part(
    waiting: list[Line], begun: list[Line]
) -> None:
    running = [one for place, one in enumerate(begun) if sum(it.project == one.project for it in begun[:place]) < OF_PROJECT]
    found = chosen(waiting, running)
    together = [*running, *found]
    assert len(set(together)) == len(together) <= AT_ONCE
    for project in {one.project for one in together}:
        assert sum(one.project == project for one in together) <= OF_PROJECT
    left = [one for one in waiting if one not in together]
    if len(together) < AT_ONCE:
        assert all(sum(it.project == one.project for it in together) == OF_PROJECT for one in left)


def test_a_project_that_hangs_everywhere_leaves_room_for_the_others() -> None:
    hanging = [Line(project="bad", channel=str(number)) for number in range(50)]
    running = chosen(hanging, ())
    assert len(running) == OF_PROJECT
    good = Line(project="good", channel="1")
    assert chosen([*hanging, good], running) == (good,)


def documents_of(platform: Platform) -> Documents:
    app = platform.app
    return Documents(app.database, BlobService(app.places, app.ring, app.clock, ProjectZones()))


def until(is_so: Callable[[], bool], do: Callable[[], object]) -> None:
    for _ in range(600):
        do()
        if is_so():
            return
        time.sleep(0.05)
    pytest.fail("it never came to that")
