"""What the platform decides by itself reaches people: through real receivers, once, in words and for programs."""

import json
from typing import Any

from falaj.monitoring.operations import alerts as declared
from falaj.monitoring.operations.abtests import Guardrail
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Act
from tests.monitoring.abtests.contested import Contested
from tests.monitoring.alerts.platform import Watched
from tests.monitoring.alerts.test_channels import put
from tests.monitoring.alerts.test_posting import address, post
from tests.monitoring.sending.receivers import Server
from tests.serving.control.platform import PROJECT, Platform, said
from tests.serving.control.test_rollouts import canary


def events(receiver: Server) -> list[dict[str, Any]]:
    return [json.loads(body) for _, _, body in receiver.got]


def announced(platform: Platform) -> list[declared.Alert]:
    request = declared.ListAlerts(project=PROJECT, which="all")
    return [one for one in platform.call(declared.LIST_ALERTS, request).items if one.kind == "verdict"]


def test_who_won_a_test_is_sent_though_nothing_is_done_by_itself(near: Platform, receiver: Server) -> None:
    put(near, address(receiver))
    test = Contested(near)
    test.begun()
    for _ in range(4):
        test.round({1: (50, 100), 2: (80, 100)})
    test.step()
    post(near)
    won = events(receiver)[-1]
    assert (won["type"], won["data"]["title"]) == ("falaj.abtest.verdict", "A/B test 'trial': revision 2 wins")
    assert won["data"]["sentence"].startswith("Revision 2 wins: ")
    assert won["data"]["sentence"].endswith("Nothing was done by itself.")
    assert {name: won["data"]["facts"][name] for name in ("abtest", "verdict", "winner")} == {
        "abtest": "trial",
        "verdict": "won",
        "winner": 2,
    }
    newest = announced(near)[0]
    assert (newest.title, newest.resolved, newest.actions) == (won["data"]["title"], newest.raised, ())
    assert [(one.channel, one.what, one.problem) for one in newest.sent] == [("team", "told", "")]
    near.app.monitoring.raising.pass_time(near.clock.now())
    post(near)
    assert [one["type"] for one in events(receiver)].count("falaj.alert.resolved") == 0


def test_a_guardrail_a_mismatch_and_an_end_without_a_verdict_are_sent_to_where_the_monitor_sends(
    small_near: Platform, receiver: Server, other_receiver: Server
) -> None:
    put(small_near, address(receiver))
    put(small_near, address(other_receiver), "others")
    test = Contested(small_near)
    Watched(small_near, Wishes(channels=("team",), actions=(Act(do="roll-back"),)), revisions=0)
    test.begun(guardrails=(Guardrail(of="errors", worst=0.02),))
    test.clock.forward(10_000_000)
    test.plane.report(said(test.endpoint, 1, requests=500, errors=5), said(test.endpoint, 2, requests=500, errors=100))
    test.step(30)
    test.begun(name="second")
    test.served(1, [1.0] * 200)
    test.step()
    small_near.promote(3)
    test.step()
    post(small_near)
    facts = [one["data"]["facts"] for one in events(receiver)]
    assert [(one["abtest"], one["verdict"]) for one in facts] == [
        ("trial", "broken"),
        ("second", "mismatch"),
        ("second", "overtaken"),
    ]
    assert [one["data"]["severity"] for one in events(receiver)] == ["warning", "warning", "info"]
    assert other_receiver.connections == 0


def test_a_canary_that_went_back_and_a_revision_that_was_put_away_are_sent(near: Platform, receiver: Server) -> None:
    put(near, address(receiver))
    canary(near)
    plane, endpoint = near.plane(), near.show()
    plane.report(said(endpoint, 1, requests=900, errors=1), said(endpoint, 2, requests=100, errors=60))
    near.step()
    near.step()
    post(near)
    [back] = events(receiver)
    assert (back["type"], back["data"]["facts"]["revision"]) == ("falaj.canary.back", 2)
    assert "failed 60 of 100 calls" in back["data"]["sentence"]
    assert back["data"]["sentence"].endswith("Now 100 % to revision 1.")
    near.deploy(1, mode="canary", share=1_000)
    plane.report(said(near.show(), 3, ready=False, quarantined=True, problem="Three workers died."))
    near.step()
    post(near)
    put_away = events(receiver)[-1]
    assert (put_away["type"], put_away["data"]["severity"]) == ("falaj.revision.quarantined", "critical")
    assert [one.title for one in announced(near)] == [
        "Revision 3 was put away",
        "Revision 2: the canary went back by itself",
    ]
