"""Monitors: set as a whole or not at all, learnt anew when that is asked for, and gone with all they had."""

from dataclasses import replace
from typing import Any

import pytest

from falaj.base.clock import MINUTE
from falaj.base.errors import Conflict, FalajError, Forbidden, Invalid, NotFound
from falaj.governance.identity.operations import CREATE_TOKEN, CreateToken
from falaj.governance.roles import Role
from falaj.monitoring.operations import monitors
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.operations.words import Act, Objective, QualityBound
from falaj.monitoring.sealing import PIECE, REFERENCE, WINDOW
from falaj.monitoring.store import tables
from falaj.serving.operations import endpoints
from tests.monitoring.drift.platform import QUICK, ROWS, Watched, rows_of
from tests.serving.control.platform import PROJECT, live

REFUSED: list[tuple[dict[str, Any], type[FalajError], str]] = [
    ({"timezone": "Mars/Olympus"}, Invalid, "no time zone 'Mars/Olympus'"),
    ({"timezone": "../../etc/passwd", "season": "hour"}, Invalid, "no time zone"),
    ({"season": "hour", "reference": "orders"}, Invalid, "`time` has to name the column"),
    ({"season": "week", "window": 7200}, Invalid, "span several hours"),
    (
        {"season": "hour", "window": 3600, "timezone": "Asia/Kolkata"},
        Invalid,
        "some span two hours by the clock of Asia/Kolkata",
    ),
    ({"ignore": ("amuont",)}, Invalid, "it has 'amount'"),
    ({"channels": ("nowhere",)}, NotFound, "no channel 'nowhere'"),
    ({"escalate_to": ("nowhere",)}, NotFound, "no channel 'nowhere'"),
    ({"reference": "nothing"}, NotFound, "no dataset 'nothing'"),
    ({"reference": "orders@7"}, NotFound, "no version 7"),
    ({"actions": (Act(do="retrain"),)}, Invalid, "needs `pipeline`, the name of one"),
    ({"actions": (Act(do="retrain", pipeline="nightly"),)}, NotFound, "no pipeline 'nightly'"),
    ({"actions": (Act(do="roll-back", pipeline="nightly"),)}, Invalid, "takes no pipeline"),
    ({"actions": (Act(do="retrain", job="0" * 32),)}, NotFound, "no job"),
    ({"actions": (Act(do="roll-back", job="0" * 32),)}, Invalid, "takes no job"),
    ({"actions": (Act(do="roll-back", variant="int8"),)}, Invalid, "takes no variant"),
    ({"actions": (Act(do="fall-back", variant="int8"),)}, NotFound, "has a variant 'int8'"),
    ({"quality": (QualityBound(figure="aux", side="at least", limit=0.8),)}, Invalid, "no figure 'aux'; there are accuracy, "),
    ({"quality": (QualityBound(figure="gap", side="at most", limit=0.1),)}, Invalid, "needs `slice`"),
    ({"quality": (QualityBound(figure="auc", side="at most", limit=0.1, slice="age"),)}, Invalid, "takes no `slice`"),
    ({"objectives": (Objective(kind="availability", share=1.0),)}, Invalid, "between 0 and 1"),
    ({"objectives": (Objective(kind="availability", share=0.0),)}, Invalid, "between 0 and 1"),
    ({"objectives": (Objective(kind="latency", share=0.9),)}, Invalid, "needs `milliseconds`"),
    ({"objectives": (Objective(kind="availability", share=0.9),) * 2}, Invalid, "several objectives"),
]


def stored(watched: Watched) -> list[Any]:
    every = (tables.monitors, tables.references, tables.detectors, tables.windows, tables.pieces)
    return [watched.rows(table) for table in every]


def test_what_cannot_be_asked_for_is_refused_and_changes_nothing(small: Watched):
    small.write(rows_of(1))
    small.apply()
    small.window(rows_of(2))
    before, serial = stored(small), small.plane.signed().serial
    for fields, error, words in REFUSED:
        with pytest.raises(error, match=words):
            small.apply(replace(QUICK, **fields))
    with pytest.raises(NotFound):
        small.apply(endpoint="elsewhere")
    assert stored(small) == before
    assert small.plane.signed().serial == serial


def test_whoever_may_not_deploy_may_look_and_not_touch_and_a_stranger_sees_nothing(small: Watched):
    small.apply()
    viewer, stranger = small.platform.person("amal", Role.VIEWER), small.platform.person("badr")
    assert small.show(viewer).endpoint == "scores"
    with pytest.raises(Forbidden):
        small.apply(token=viewer)
    for attempt in (small.show, small.apply):
        with pytest.raises(NotFound):
            attempt(token=stranger)
    small.platform.project("other")
    with pytest.raises(NotFound):
        small.show(project="other")
    assert small.platform.call(monitors.LIST_MONITORS, monitors.ListMonitors(project="other")).items == ()
    with pytest.raises(NotFound):
        small.apply(project="other")


@pytest.mark.parametrize("do", ["roll-back", "pause-canary", "fall-back"])
def test_a_token_has_done_later_only_what_it_may_do_itself(small: Watched, do: Any):
    narrow = small.platform.call(CREATE_TOKEN, CreateToken(scopes=("monitor.write", "endpoint.read"))).token
    small.apply(token=narrow)
    with pytest.raises(Forbidden):
        small.apply(replace(QUICK, actions=(Act(do=do),)), token=narrow)
    assert small.show().wishes.actions == ()
    assert small.apply(replace(QUICK, actions=(Act(do=do),))).wishes.actions[0].do == do


def test_applying_is_on_record_and_planes_hear_of_it_at_once(watched: Watched):
    serial = watched.plane.signed().serial
    shown = watched.apply()
    assert (shown.health, shown.watching[0].source, shown.watching[0].revision) == ("learning", "traffic", 1)
    assert watched.plane.signed().serial > serial
    [revision] = watched.plane.state().endpoints[0].revisions
    assert revision.watch is not None
    assert (revision.watch.seconds, revision.watch.sample) == (60, 100)
    [leaf] = watched.platform.leaves("monitor.apply")
    assert leaf.facts["references"] == {"1": "traffic"}
    found = watched.platform.call(monitors.LIST_MONITORS, monitors.ListMonitors(project=PROJECT))
    assert [one.endpoint for one in found.items] == ["scores"]


def test_planes_that_have_not_heard_of_it_are_told_until_they_have_or_are_gone(small: Watched):
    before = small.plane.signed().serial
    small.plane.report(serial=before)
    assert small.apply().behind == 1
    small.plane.report(serial=before)
    assert small.show().behind == 1
    small.plane.report()
    assert small.show().behind == 0
    small.apply(relearn=True)
    assert small.show().behind == 1
    small.clock.forward(MINUTE)
    assert small.show().behind == 0


def test_what_was_learnt_stays_unless_it_is_to_be_learnt_anew(small: Watched):
    small.apply()
    small.learn()
    before = small.reference()
    small.apply(replace(QUICK, floor=0.2, quiet=9))
    assert small.reference() == before
    assert not small.show().watching[0].learning
    small.apply(replace(QUICK, floor=0.2, quiet=9), relearn=True)
    after = small.reference()
    assert after.key != before.key
    assert small.show().watching[0].learnt == 0
    assert small.blobs(REFERENCE) == 1
    small.learn()
    assert small.show().health == "well"


def test_windows_of_another_length_begin_at_once_and_what_was_learnt_stays(small: Watched):
    small.apply()
    small.learn()
    small.window(rows_of(2000))
    small.send(small.counted(rows_of(2001)))
    columns = {one.column for one in small.last().columns}
    small.apply(replace(QUICK, window=3600))
    assert small.rows(tables.pieces) == []
    assert not small.show().watching[0].learning
    small.window(rows_of(2002), seconds=3600)
    assert (small.last().until - small.last().at, small.last().rows) == (60 * MINUTE, ROWS)
    assert {one.column for one in small.last().columns} == columns
    small.apply(replace(QUICK, window=60))
    small.window(rows_of(2003))
    assert (small.last().until - small.last().at, small.last().rows) == (MINUTE, ROWS)


def test_of_two_who_apply_at_once_one_is_told_to_look_again(small: Watched, monkeypatch: pytest.MonkeyPatch):
    small.apply()
    service = next(one for one in small.platform.app.monitoring._services if hasattr(one, "prepare"))  # type: ignore[attr-defined]
    chosen: Any = service._choosing.asked

    def slow(*given: Any) -> Any:
        monkeypatch.undo()
        small.apply(replace(QUICK, floor=0.3))
        return chosen(*given)

    monkeypatch.setattr(service._choosing, "asked", slow)
    with pytest.raises(Conflict, match="was changed meanwhile"):
        small.apply(relearn=True)
    assert small.show().wishes.floor == 0.3


def test_ending_a_monitor_ends_all_it_had_and_planes_count_no_more(watched: Watched):
    watched.apply()
    watched.learn()
    watched.send(watched.counted(rows_of(2000)))
    watched.delete()
    with pytest.raises(NotFound, match="falaj monitor apply scores"):
        watched.show()
    assert [one.watch for one in watched.plane.state().endpoints[0].revisions] == [None]
    assert watched.platform.app.monitoring.clean(watched.clock.now()) in (True, False)
    assert [len(one) for one in stored(watched)] == [0] * 5
    assert watched.blobs(REFERENCE, PIECE, WINDOW) == 0
    assert len(watched.platform.leaves("monitor.delete")) == 1
    watched.apply()
    watched.learn()
    assert watched.show().health == "well"


def test_with_its_endpoint_a_monitor_goes_too(small: Watched):
    small.apply()
    small.learn()
    small.platform.call(endpoints.DELETE_ENDPOINT, endpoints.OneEndpoint(project=PROJECT, endpoint="scores"))
    for _ in range(3):
        small.platform.app.monitoring.clean(small.clock.now())
    assert [len(one) for one in stored(small)] == [0] * 5
    assert small.blobs(REFERENCE, PIECE, WINDOW) == 0


def test_a_revision_that_is_deployed_later_is_watched_by_itself_and_one_that_is_not_used_no_more(watched: Watched):
    watched.apply()
    watched.learn()
    watched.platform.deploy(watched.platform.register(files=watched.files).version, mode="canary", share=1000)
    watched.step()
    assert [one.revision for one in watched.show().watching] == [1, 2]
    watched.learn(revision=2)
    assert watched.platform.leaves("monitor.apply")[0].facts["references"] == {"2": "traffic"}
    for _ in range(2):  # the way back keeps what it learnt, and what lies further back does not
        watched.platform.deploy(watched.platform.register(files=watched.files).version)
    watched.platform.split(live(4))
    watched.step()
    used = [one.number for one in watched.platform.show().revisions]
    assert 1 not in used
    assert [one.revision for one in watched.show().watching] == used
    assert watched.blobs(REFERENCE) == len(used)


def test_windows_are_read_page_by_page_the_newest_first(small: Watched):
    small.apply()
    small.learn()
    whole = small.windows().items
    first = small.windows(limit=2)
    second = small.windows(limit=2, cursor=first.next)
    assert (*first.items, *second.items) == whole[:4]
    assert small.windows(limit=len(whole)).next == ""
    with pytest.raises(NotFound, match="revisions that are: 1"):
        small.windows(revision=7)
    with pytest.raises(Invalid):
        small.windows(cursor="nonsense")


def test_defaults_can_be_applied_as_they_are(small: Watched):
    assert small.apply(Wishes()).wishes == Wishes()
