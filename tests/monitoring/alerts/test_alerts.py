"""The inbox: who may see, see to and decide what; of other projects nobody learns anything."""

from typing import Any

import pytest

from falaj.base.clock import HOUR, MINUTE
from falaj.base.errors import Conflict, Forbidden, NotFound
from falaj.base.ids import new_id
from falaj.base.values import Nothing
from falaj.governance.identity.operations import WHOAMI
from falaj.governance.roles import Role
from falaj.monitoring.operations import alerts as declared
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Act
from tests.monitoring.alerts.platform import Watched, drift
from tests.serving.control.conftest import Opener
from tests.serving.control.platform import PROJECT, Platform
from tests.serving.control.test_deploying import approve

ASKING = Wishes(channels=("team",), escalate_to=("boss",), escalate_after=600, actions=(Act(do="roll-back", approval=True),))
OVER = 6 * MINUTE


def acknowledge(watched: Watched, alert: str, token: str = "", project: str = PROJECT) -> declared.Alert:
    request = declared.OneAlert(project=project, alert=alert)
    return watched.platform.call(declared.ACKNOWLEDGE_ALERT, request, token)


def decide(watched: Watched, action: str, token: str = "", *, agree: bool = True, project: str = PROJECT) -> declared.Alert:
    request = declared.DecideAction(project=project, action=action, agree=agree)
    return watched.platform.call(declared.DECIDE_ACTION, request, token)


def raised(platform: Platform, wishes: Wishes = ASKING, **fields: Any) -> tuple[Watched, declared.Alert]:
    watched = Watched(platform, wishes, **fields)
    watched.sees(drift())
    return watched, watched.alert()


def test_alerts_are_listed_newest_first_by_state_and_endpoint_page_by_page(platform: Platform) -> None:
    watched = Watched(platform)
    watched.sees(drift(revision=1))
    watched.wait(OVER)
    watched.sees(*(drift(revision=number) for number in (2, 3, 4)))
    keys = [one.id for one in watched.alerts()]
    assert keys == sorted(keys, reverse=True)
    assert (len(watched.alerts(which="open")), len(watched.alerts(which="over"))) == (3, 1)
    assert (len(watched.alerts(endpoint="scores")), len(watched.alerts(endpoint="other"))) == (4, 0)
    found, cursor = list[str](), ""
    while True:
        request = declared.ListAlerts(project=PROJECT, which="all", limit=3, cursor=cursor)
        page = platform.call(declared.LIST_ALERTS, request)
        found += [one.id for one in page.items]
        if not (cursor := page.next):
            break
    assert found == keys


def test_who_acknowledges_first_sees_to_it_and_it_goes_to_nobody_else(platform: Platform) -> None:
    watched, alert = raised(platform)
    ada, bob = platform.person("ada", Role.SCIENTIST), platform.person("bob", Role.SCIENTIST)
    acknowledge(watched, alert.id, ada)
    seen = acknowledge(watched, alert.id, bob)
    assert seen.acknowledged_by is not None
    assert seen.acknowledged_by.name == "ada"
    for _ in range(11):
        watched.sees(drift())
        watched.wait(MINUTE)
    assert watched.told() == [("raised", "team")]
    assert [leaf.facts["alert"] for leaf in platform.leaves("alert.acknowledge")] == [alert.id, alert.id]


def test_what_is_over_needs_nobody(small: Platform) -> None:
    watched, alert = raised(small)
    watched.wait(OVER)
    with pytest.raises(Conflict, match="over already"):
        acknowledge(watched, alert.id)
    with pytest.raises(Conflict, match=r"it is refused\. The alert was over before anybody decided"):
        decide(watched, alert.actions[0].id)


def test_an_action_waits_for_a_word_and_is_decided_once(platform: Platform) -> None:
    watched, alert = raised(platform)
    [action] = alert.actions
    [agreed] = decide(watched, action.id).actions
    assert (agreed.state, agreed.words) == ("ready", "owner agreed; it is about to be done.")
    assert agreed.decided_by is not None
    assert agreed.decided_by.name == "owner"
    with pytest.raises(Conflict, match="Nobody has to decide about this: it is ready"):
        decide(watched, action.id, agree=False)
    [leaf] = platform.leaves("alert.decide")
    assert (leaf.facts["alert"], leaf.facts["kind"], leaf.request["agree"]) == (alert.id, "roll-back", True)


def test_what_is_refused_is_not_asked_again_while_it_rests(small: Platform) -> None:
    watched, alert = raised(small)
    [refused] = decide(watched, alert.actions[0].id, agree=False).actions
    assert (refused.state, refused.words) == ("refused", "owner refused it.")
    watched.wait(OVER)
    watched.sees(drift())
    assert len(watched.alert().actions) == 1
    assert "Rolling back is left out" in watched.alert().sentences[-1]
    watched.wait(OVER)
    watched.wait(2 * HOUR)
    watched.sees(drift())
    assert [one.state for one in watched.alerts()[0].actions] == ["waiting"]


def test_who_may_look_may_not_see_to_it_and_who_sees_to_it_may_not_decide(small: Platform) -> None:
    watched, alert = raised(small)
    viewer, scientist = small.person("vera", Role.VIEWER), small.person("sam", Role.SCIENTIST)
    engineer = small.person("emma", Role.ENGINEER)
    assert len(watched.alerts(viewer)) == 1
    with pytest.raises(Forbidden):
        acknowledge(watched, alert.id, viewer)
    with pytest.raises(Forbidden):
        decide(watched, alert.actions[0].id, scientist)
    assert acknowledge(watched, alert.id, scientist).acknowledged is not None
    assert decide(watched, alert.actions[0].id, engineer).actions[0].state == "ready"


def test_ids_of_other_projects_are_not_there(platform: Platform) -> None:
    watched, alert = raised(platform)
    platform.project("theirs")
    eve = platform.person("eve", Role.ADMIN, project="theirs")
    for id in (alert.id, new_id(platform.clock.now())):
        with pytest.raises(NotFound, match=f"There is no alert {id} here"):
            platform.call(declared.SHOW_ALERT, declared.OneAlert(project="theirs", alert=id), eve)
        with pytest.raises(NotFound, match=f"There is no alert {id} here"):
            acknowledge(watched, id, eve, "theirs")
    with pytest.raises(NotFound, match="There is no action"):
        decide(watched, alert.actions[0].id, eve, project="theirs")
    with pytest.raises(NotFound, match="project"):
        decide(watched, alert.actions[0].id, eve)
    assert platform.call(declared.LIST_ALERTS, declared.ListAlerts(project="theirs", which="all"), eve).items == ()
    assert watched.alert() == alert


def test_where_four_eyes_are_wanted_another_person_agrees(opener: Opener) -> None:
    platform = opener("regulated")
    platform.register()
    approve(platform, 1, platform.person("val", Role.VALIDATOR))
    platform.deploy()
    emma, eli = platform.person("emma", Role.ENGINEER), platform.person("eli", Role.ENGINEER)
    watched = Watched(platform, ASKING, revisions=0, by=platform.call(WHOAMI, Nothing(), emma).id)
    watched.sees(drift())
    [action] = watched.alert().actions
    with pytest.raises(Forbidden, match="You set the monitor"):
        decide(watched, action.id, emma)
    assert watched.alert().actions[0].state == "waiting"
    assert decide(watched, action.id, eli).actions[0].state == "ready"
