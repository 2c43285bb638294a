"""Objectives and traffic of watched endpoints, looked at by the platform itself; on either database."""

from typing import Any

import pytest

from falaj.base.clock import DAY, HOUR, MINUTE, SECOND, Moment
from falaj.base.errors import NotFound
from falaj.base.ids import new_id
from falaj.database.work import UnitOfWork
from falaj.governance.projects.operations import DELETE_PROJECT, OneProject
from falaj.governance.roles import Role
from falaj.monitoring import wishers
from falaj.monitoring.history import KEPT_FOR
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.objectives import READ_OBJECTIVES, Objectives, ReadObjectives
from falaj.monitoring.operations.words import Objective
from falaj.monitoring.service_levels import AT_ONCE
from falaj.monitoring.store import monitors as monitor_store
from falaj.monitoring.store import service as store
from falaj.monitoring.views import wishes_written
from falaj.monitoring.wishers import Wisher
from falaj.serving.counts import Counts
from falaj.serving.operations.planes import PinnedReport
from falaj.serving.operations.words import Arm
from falaj.serving.store import windows as minute_store
from falaj.serving.store.windows import COARSE
from tests.monitoring.alerts.platform import Watched
from tests.serving.control.platform import PROJECT, Platform, live

WISHES = Wishes(objectives=(Objective(kind="availability", share=0.999),))


class Served(Watched):
    """A watched endpoint and its plane; time passes with the platform looking every minute."""

    def __init__(self, platform: Platform, wishes: Wishes = WISHES, **given: Any) -> None:
        super().__init__(platform, wishes, **given)
        self.plane = platform.plane()

    def minutes(self, count: int, *, requests: int = 100, errors: int = 0, revision: int = 1, **fields: Any) -> None:
        for _ in range(count):
            self.plane.did(self.endpoint, revision, requests=requests, errors=errors, **fields)
            self.platform.clock.forward(MINUTE)
            self.look()

    def look(self) -> None:
        """Until there is nothing more to do at once; and time passes for alerts."""
        self.platform.app.monitoring.raising.pass_time(self.platform.clock.now())
        for _ in range(100):
            if not self.platform.app.monitoring.step(self.platform.clock.now()):
                return
        raise AssertionError("it never comes to an end")

    def past(self, days: int, *, requests: int = 600, revision: int = 1, **fields: int) -> None:
        """Traffic of so many days until now, one minute in an hour, as planes would have left it."""
        now = self.platform.clock.now()
        place = {"endpoint": self.endpoint.id, "span": COARSE, "revision": revision, "plane": "p"}
        counts = Counts(requests=requests, **fields).columns()
        first = now // HOUR * HOUR - days * DAY
        rows = [place | {"at": at} | counts for at in range(first, now // HOUR * HOUR, HOUR)]
        self.platform.app.database.write(lambda work: minute_store.put(work, rows))

    def stands(self) -> Objectives:
        return self.platform.call(READ_OBJECTIVES, ReadObjectives(project=PROJECT, endpoint="scores"))

    def hours(self) -> list[tuple[int, int, int]]:
        """Moment, revision and calls of each."""
        rows = self.platform.app.database.read(lambda work: store.hours_since(work, self.endpoint.id, 0))
        return [(row.at, row.revision, row.requests) for row in rows]


def test_a_budget_that_burns_is_one_critical_alert_that_names_the_revision_and_is_over_when_it_ends(platform: Platform) -> None:
    served = Served(platform, revisions=2)
    platform.split(live(1, 5000), live(2, 5000))
    served.minutes(3)
    assert served.alerts() == ()
    for _ in range(3):
        served.minutes(1, errors=0, revision=1)
        served.minutes(1, errors=50, revision=2)
    alert = served.alert()
    assert (alert.kind, alert.severity) == ("service", "critical")
    assert alert.sightings > 1
    assert "too fast" in alert.title
    assert any(one.startswith("Revision 2 has 100 %") for one in alert.sentences)
    assert [leaf.facts["kind"] for leaf in platform.leaves("alert.raise")] == ["service"]
    served.minutes(40, requests=10_000)
    assert served.alert().resolved is not None


def test_what_is_read_is_what_was_decided_on(platform: Platform) -> None:
    served = Served(platform)
    served.minutes(10, errors=10, shed=5)
    told = served.stands()
    [one] = told.items
    assert (one.state, one.good, one.bad) == ("fast burn", 900, 150)
    assert {burnt.window: (burnt.good, burnt.bad) for burnt in one.windows}["5m"] == (450, 75)
    assert (one.revisions[0].revision, one.revisions[0].bad) == (1, 150)
    assert told.since is not None
    assert not told.unusual


def test_a_shadow_answers_nobody_and_spends_no_budget(platform: Platform) -> None:
    served = Served(platform, revisions=2)
    platform.split(live(1), Arm(revision=2, share=10_000, role="shadow"))
    served.plane.did(served.endpoint, 2, requests=50, errors=50, compared=50)
    served.plane.did(served.endpoint, 2, shed=50)
    served.minutes(2)
    [one] = served.stands().items
    assert (one.good, one.bad) == (200, 0)


def test_failing_calls_that_were_sent_to_a_revision_on_purpose_spend_no_budget(platform: Platform) -> None:
    served = Served(platform, revisions=2)
    platform.split(live(1, 9000), live(2, 1000))
    served.plane.did(served.endpoint, 2, pinned=PinnedReport(requests=500, errors=500, shed=500))
    served.minutes(5)
    [one] = served.stands().items
    assert (one.state, one.good, one.bad) == ("well", 500, 0)
    assert served.alerts() == ()


def test_a_revision_that_became_a_shadow_is_still_held_to_what_it_answered(platform: Platform) -> None:
    served = Served(platform, revisions=2)
    served.minutes(3, errors=10, revision=1)
    platform.split(live(2), Arm(revision=1, share=10_000, role="shadow"))
    served.minutes(2, errors=0, revision=2)
    [one] = served.stands().items
    assert (one.good, one.bad) == (470, 30)


def test_what_was_decided_for_a_monitor_that_was_changed_meanwhile_is_decided_anew(small: Platform) -> None:
    served = Served(small)
    served.minutes(3, errors=50)
    assert len(served.alerts()) == 1
    other = Wishes(objectives=(Objective(kind="availability", share=0.2),))
    served.wish(other)
    served.minutes(2, errors=50)
    [one] = served.stands().items
    assert one.objective.share == 0.2
    assert one.state == "well"


def test_hours_are_summed_up_once_and_hours_without_calls_are_known_to_have_had_none(platform: Platform) -> None:
    served = Served(platform)
    served.past(3)
    served.look()
    first = served.hours()
    assert len(first) == 3 * 24 - 1  # the last whole hour stays in minutes until it is of no use to the last hour's rate
    assert {calls for _, _, calls in first} == {600}
    platform.clock.forward(4 * HOUR)
    served.look()
    served.look()
    later = served.hours()
    assert later[: len(first)] == first
    assert [(revision, calls) for _, revision, calls in later[len(first) :]] == [(1, 600), (0, 0), (0, 0), (0, 0)]
    [one] = served.stands().items
    assert one.good == 3 * 24 * 600


def test_thirty_days_that_were_there_before_the_monitor_count(small: Platform) -> None:
    served = Served(small)
    served.past(30, errors=3)
    served.look()
    [one] = served.stands().items
    assert one.bad == pytest.approx(30 * 24 * 3, abs=6)
    assert one.state == "slow burn"
    assert served.alert().severity == "warning"


def test_what_was_summed_up_is_forgotten_when_no_objective_reaches_back_so_far(platform: Platform) -> None:
    served = Served(platform)
    served.past(5)
    served.look()
    platform.clock.forward(KEPT_FOR - 2 * DAY)
    while platform.app.monitoring.clean(platform.clock.now()):
        pass
    kept = [at for at, _, _ in served.hours()]
    assert 0 <= min(kept) - (platform.clock.now() - KEPT_FOR) < HOUR
    served.forget()
    platform.app.monitoring.clean(platform.clock.now())
    assert platform.app.database.read(store.all_standings) == []
    assert platform.app.database.read(store.all_totals) == []


def test_an_hour_without_calls_where_there_always_were_some_is_told_once_the_platform_saw_all_of_it(small: Platform) -> None:
    served = Served(small)
    small.clock.moment = Moment(small.clock.moment // HOUR * HOUR - MINUTE)
    served.past(10)
    served.look()
    small.clock.forward(HOUR + 2 * MINUTE)
    served.look()
    assert served.alerts() == ()  # it was not up in the hour before, and planes may have told late
    small.clock.forward(HOUR)
    served.look()
    alert = served.alert()
    assert (alert.kind, alert.title) == ("service", "The traffic is not what it usually is at this hour")
    assert alert.sentences == ("Calls broke down: 0 in the last whole hour, where 600 are usual.",)
    told = served.stands()
    assert told.unusual
    assert told.traffic == alert.sentences[0]


def test_an_alert_of_short_windows_does_not_end_between_two_looks(small: Platform) -> None:
    served = Served(small, Wishes(window=2, quiet=5, objectives=WISHES.objectives))
    for _ in range(30):
        served.plane.did(served.endpoint, 1, requests=100, errors=50)
        small.clock.forward(2 * SECOND)
        served.look()
    alert = served.alert()
    assert alert.resolved is None
    assert [one.what for one in alert.sent] == []


def test_many_monitors_are_looked_at_in_turns(small: Platform) -> None:
    first = Served(small)
    others = [small.deploy(1, f"scores-{number}").endpoint.id for number in range(AT_ONCE)]

    def add(work: UnitOfWork) -> None:
        now = small.clock.now()
        row = {
            "project": first.project,
            "wishes": wishes_written(WISHES),
            "created": now,
            "changed": now,
            "changed_by": first.by,
            "wisher": wishers.encode(Wisher(principal=first.by)),
        }
        for endpoint in others:
            monitor_store.add(work, row | {"id": new_id(now), "endpoint": endpoint})

    small.app.database.write(add)
    assert small.app.monitoring.step(small.clock.now())
    assert len(small.app.database.read(store.all_standings)) == AT_ONCE
    first.look()
    assert len(small.app.database.read(store.all_standings)) == AT_ONCE + 1
    assert not small.app.monitoring.step(small.clock.now())


def test_what_is_odd_about_one_monitor_keeps_no_other_from_being_looked_at(small: Platform) -> None:
    first = Served(small)
    other, now = small.deploy(1, "scores-2").endpoint.id, small.clock.now()
    place = {"project": first.project, "endpoint": other, "created": now, "changed": now, "changed_by": first.by}
    odd = {**place, "id": "0" * 32, "wishes": "odd", "wisher": wishers.encode(Wisher(principal=first.by))}
    small.app.database.write(lambda work: monitor_store.add(work, odd))  # its turn is first
    for _ in range(3):
        first.look()
        assert [row.monitor for row in small.app.database.read(store.all_standings)] == [first.id]
        small.clock.forward(MINUTE)
    small.app.database.write(lambda work: monitor_store.change(work, "0" * 32, wishes=wishes_written(WISHES)))
    first.look()
    assert len(small.app.database.read(store.all_standings)) == 2


def test_who_may_not_see_a_project_learns_nothing_of_its_objectives(small: Platform) -> None:
    Served(small)
    small.project("other")
    stranger, viewer = small.person("kim", Role.ADMIN, project="other"), small.person("sam", Role.VIEWER)
    request = ReadObjectives(project=PROJECT, endpoint="scores")
    assert small.call(READ_OBJECTIVES, request, viewer).endpoint == "scores"
    with pytest.raises(NotFound):
        small.call(READ_OBJECTIVES, request, stranger)
    with pytest.raises(NotFound):
        small.call(READ_OBJECTIVES, ReadObjectives(project="other", endpoint="scores"), stranger)


def test_an_endpoint_that_is_not_watched_has_no_objectives_and_is_told_how_to_begin(small: Platform) -> None:
    small.deployed()
    with pytest.raises(NotFound, match="falaj monitor apply scores"):
        small.call(READ_OBJECTIVES, ReadObjectives(project=PROJECT, endpoint="scores"))


def test_a_project_that_was_put_away_gets_no_alerts(small: Platform) -> None:
    served = Served(small)
    small.call(DELETE_PROJECT, OneProject(project=PROJECT))
    small.clock.forward(MINUTE)
    served.look()
    assert small.app.database.read(store.all_standings) == []
