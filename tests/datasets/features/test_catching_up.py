"""Materialising again reads what came since, and leaves exactly what materialising everything leaves."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from falaj.base.clock import HOUR, Moment
from falaj.base.errors import Conflict, NotFound
from falaj.datasets.online.views import OnlineView
from falaj.datasets.operations import features, tidying
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import RESTORE_VERSION, OneVersion
from falaj.datasets.store import kept_features
from falaj.tables.joining.views import Feature
from tests.datasets.features.stories import FEATURES, applied, clicks, told
from tests.datasets.features.test_serving import ALL, as_bits, got, materialised
from tests.datasets.platform import PROJECT, START, Platform

NEWEST = (Feature(name="amount", column="amount"), Feature(name="when", column="happened"))
USERS = [1, 2, 3, 4]
TYPED = {"user": 4, "happened": 1, "seen": 1, "amount": 0.5}  # where all is null no type is known
row = st.fixed_dictionaries(
    {
        "user": st.sampled_from([*USERS, None]),
        "happened": st.sampled_from([0, 10, 20, 21, 30, 200, None]),
        "seen": st.sampled_from([0, 10, 20, 25, 300]),
        "amount": st.sampled_from([1.5, -2.0, 100.0, float("nan"), None]),
    }
)
rows = st.lists(row, min_size=1, max_size=6)
step = st.one_of(
    st.tuples(st.just("append"), rows),
    st.tuples(st.just("append"), rows),
    st.tuples(st.just("merge"), rows),
    st.tuples(st.just("delete"), st.sampled_from(USERS)),
    st.tuples(st.just("overwrite"), rows),
    st.tuples(st.just("restore"), st.integers(1, 3)),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("wait"), st.none()),
)


def columns(some: list[dict[str, Any]]) -> bytes:
    return clicks({name: [one[name] for one in some] for name in ("user", "happened", "seen", "amount")})


def done(platform: Platform, what: str, about: Any, dataset: str) -> None:
    if what == "append":
        platform.write(columns(about), dataset=dataset)
    elif what == "merge":
        distinct = list({(one["user"], one["happened"]): one for one in about}.values())
        platform.write(columns(distinct), dataset=dataset, mode="merge", keys=("user", "happened"))
    elif what == "delete":
        platform.commit(platform.open("delete", dataset, where=f"user = {about}"), 0)
    elif what == "overwrite":
        platform.write(columns([TYPED, *about]), dataset=dataset, mode="overwrite")
    elif what == "restore":
        with suppress(Conflict, NotFound):  # it is not there, or the newest
            platform.call(RESTORE_VERSION, OneVersion(project=PROJECT, dataset=dataset, version=str(about)))
    elif what == "compact":
        with suppress(Conflict):  # there is nothing to compact
            platform.call(tidying.COMPACT, OneDataset(project=PROJECT, dataset=dataset))


def told_of(platform: Platform, view: str) -> tuple[Any, ...]:
    """All that a view says of everybody, to the bit."""
    found = got(platform, *USERS, 9, of=(view,))
    return [[as_bits(one) for one in row] for row in found.rows], found.events, found.views[0].moment


STORY = {
    "first": rows,
    "steps": st.lists(st.tuples(step, st.sampled_from([0, 1, 11, 60, 400])), min_size=2, max_size=4),
    "kind": st.sampled_from(["all", "newest", "old"]),
    "known": st.booleans(),
}
FEW = settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@FEW
@given(**STORY)
def test_a_round_that_reads_what_came_since_leaves_what_one_that_reads_everything_leaves(
    small: Platform, first: Any, steps: Any, kind: str, known: bool
) -> None:
    compare(small, first, steps, kind, known)


@pytest.mark.heavy
@settings(FEW, max_examples=30)
@given(**STORY)
def test_many_rounds_leave_what_reading_everything_leaves(
    small: Platform, first: Any, steps: Any, kind: str, known: bool
) -> None:
    compare(small, first, steps, kind, known)


def compare(small: Platform, first: Any, steps: Any, kind: str, known: bool) -> None:
    number = getattr(small, "examples", 0)
    small.examples = number + 1  # type: ignore[attr-defined]
    small.clock.moment = START
    dataset, names = f"clicks-{number}", (f"since-{number}", f"whole-{number}")
    small.write(columns([TYPED, *first]), dataset=dataset)
    chosen = NEWEST if kind == "newest" else ALL
    fields: dict[str, Any] = {"dataset": dataset, "features": chosen, "known": "seen" if known else ""}
    for name in names:
        applied(small, view=name, time_to_live=100 * HOUR if kind == "old" else None, **fields)
    materialised(small, view=names[0])
    for (what, about), hours in steps:
        done(small, what, about, dataset)
        small.clock.forward(hours * HOUR)
        moment = small.clock.now()
        materialised(small, moment, view=names[0])
        materialised(small, moment, view=names[1], whole=True)
        assert told_of(small, names[0]) == told_of(small, names[1])
        shown = [small.call(features.SHOW_VIEW, features.OneView(project=PROJECT, view=name)) for name in names]
        assert shown[0].freshness == shown[1].freshness


def append(platform: Platform, user: int, hours: int, amount: float) -> None:
    platform.write(clicks({"user": [user], "happened": [hours], "seen": [hours], "amount": [amount]}), dataset="clicks")


def test_a_round_reads_no_more_than_it_must(small: Platform) -> None:
    told(small)
    applied(small, features=NEWEST)
    small.clock.forward(100 * HOUR)
    assert materialised(small).read == "everything"
    assert (materialised(small).read, materialised(small).written) == ("nothing", 0)
    append(small, 2, 90, 7.0)
    append(small, 3, 5, 8.0)
    append(small, 1, 1, 9.0)  # older than what is known
    found = materialised(small)
    assert (found.read, found.entities, found.written) == ("appended", 3, 2)
    assert [row[0] for row in got(small, 1, 2, 3).rows] == [2.5, 7.0, 8.0]
    small.clock.forward(300 * HOUR)  # by when a row became known that was there before
    found = materialised(small)
    assert (found.read, found.written, got(small, 1).rows[0][0]) == ("changed", 1, 100.0)
    small.commit(small.open("delete", "clicks", where="user = 3"), 0)
    assert (materialised(small).read, got(small, 3).rows[0][0]) == ("everything", None)
    assert materialised(small, whole=True).read == "everything"


def test_of_windows_those_are_computed_anew_that_changed(small: Platform) -> None:
    told(small)
    applied(small)
    small.clock.forward(46 * HOUR)
    materialised(small)
    append(small, 3, 45, 1.0)
    found = materialised(small)
    assert (found.read, found.entities, found.written) == ("changed", 3, 1)
    small.clock.forward(10 * HOUR)  # the click at 40 leaves the window of 15 hours at 55
    found = materialised(small)
    assert (found.read, found.written, got(small, 2, 3).rows) == ("changed", 1, (("nan", 2, "nan", 0), (1.0, 1, 1.0, 1)))


def test_who_was_broken_off_or_overtaken_leaves_a_place_where_everything_is_written_anew(
    small: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(small)
    applied(small, features=FEATURES[1:2])
    small.clock.forward(50 * HOUR)
    materialised(small)
    append(small, 1, 49, 1.0)

    def broken(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("falaj.datasets.online.views.OnlineView.complete", broken)
        with pytest.raises(KeyboardInterrupt):
            materialised(small)
    assert got(small, 1).views[0].moment < Moment(START + 51 * HOUR)
    assert materialised(small).read == "everything"
    place = small.database.read(lambda work: work.execute(kept_features.materialised.select()).one())
    assert (place.writer, place.begun) == ("", None)


def test_of_two_rounds_at_the_same_time_one_counts_and_the_other_is_told_so(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(platform)
    applied(platform)
    platform.clock.forward(50 * HOUR)
    materialised(platform)
    append(platform, 1, 49, 1.0)
    complete, between = OnlineView.complete, []

    def overtaken(view: OnlineView, of: Moment) -> None:
        if not between:
            between.append(of)
            append(platform, 2, 49, 1.0)
            between.append(materialised(platform))
        complete(view, of)

    monkeypatch.setattr(OnlineView, "complete", overtaken)
    with pytest.raises(Conflict, match="by somebody else meanwhile"):
        materialised(platform)
    found = got(platform, 1, 2)
    assert (between[1].read, found.views[0].moment) == ("everything", between[1].moment)
    assert found.rows == ((1.0, 3, 5.0, 1), (1.0, 3, "nan", 2))
    assert materialised(platform).read == "nothing"


def test_a_view_that_is_deleted_while_it_is_written_leaves_nothing(small: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    told(small)
    applied(small)
    write = OnlineView.write

    def deleting(view: OnlineView, *given: Any, **how: Any) -> int:
        small.call(features.DELETE_VIEW, features.DeleteView(project=PROJECT, view="by-user"))
        small.room.step(small.clock.now())
        return write(view, *given, **how)

    monkeypatch.setattr(OnlineView, "write", deleting)
    with pytest.raises(Conflict, match="was deleted while it was materialised"):
        materialised(small)
    (online,) = small.room._features._online._views.values()
    assert (online.freshness().rows, online.verify()) == (0, 0)


def test_a_round_does_not_trust_a_store_that_lost_rows(small: Platform) -> None:
    told(small)
    applied(small)
    small.clock.forward(50 * HOUR)
    materialised(small)
    store = small.room._features._online._opened()
    store._changed(lambda transaction: [transaction.delete(key) for key, _ in list(transaction.cursor())])  # type: ignore[attr-defined]
    with pytest.raises(Conflict, match="has lost what it had"):
        got(small, 1)
    assert materialised(small).read == "everything"
    assert got(small, 1).rows == ((2.5, 2, 4.0, 0),)


def test_a_derived_view_is_behind_what_its_rows_are_made_of(small: Platform) -> None:
    told(small)
    small.clock.forward(50 * HOUR)
    small.write(clicks(), dataset="pinned")
    sql = 'SELECT c.user, c.happened, c._known AS known, c.amount FROM clicks c WHERE c.user IN (SELECT user FROM "pinned@1")'
    fields: dict[str, Any] = {"view": "derived", "dataset": "", "sql": sql, "known": "known", "features": NEWEST}
    applied(small, **fields)
    assert materialised(small, view="derived").source == "derived-rows@1"
    append(small, 1, 49, 1.0)
    small.write(clicks(), dataset="pinned")
    fresh = applied(small, **fields).freshness
    assert fresh is not None
    assert (fresh.behind, fresh.behind_since) == (1, small.version("2", "clicks").created)
    assert materialised(small, view="derived").source == "derived-rows@2"
    fresh = applied(small, **fields).freshness
    assert (fresh and fresh.behind, got(small, 1, of=("derived",)).rows[0][0]) == (0, 1.0)


def test_how_fresh_a_view_is_is_told(platform: Platform) -> None:
    told(platform)
    platform.clock.forward(50 * HOUR)
    assert applied(platform).freshness is None
    done = materialised(platform)
    append(platform, 1, 49, 1.0)
    append(platform, 1, 48, 1.0)
    fresh = applied(platform).freshness
    assert fresh is not None
    assert (fresh.moment, fresh.source, fresh.current, fresh.behind) == (done.moment, "clicks@1", "clicks@3", 2)
    assert (fresh.entities, fresh.newest_event) == (2, Moment(START + 40 * HOUR))
    assert fresh.behind_since == platform.version("2", "clicks").created
    materialised(platform)
    fresh = applied(platform).freshness
    assert fresh is not None
    assert (fresh.behind, fresh.behind_since, fresh.newest_event) == (0, None, Moment(START + 49 * HOUR))
