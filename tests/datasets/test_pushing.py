"""Rows that are pushed: durable when they are answered, in one version each, in the order they came."""

import json
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.dialects import sqlite

from falaj.base.clock import DAY, SECOND, Moment
from falaj.base.errors import Conflict, Forbidden, Invalid, NotFound, TooLarge, TooMany
from falaj.database.work import UnitOfWork
from falaj.datasets.operations import checks, datasets, pushing, tidying, versions
from falaj.datasets.pushing.accepting import AcceptService
from falaj.datasets.pushing.bounds import PushBounds
from falaj.datasets.store import pushes as push_store
from falaj.datasets.store import versions as version_store
from falaj.governance.roles import Role
from tests.datasets.platform import PROJECT, Platform, arrow

BEFORE = b"id,name\n1,well\n"


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def push(platform: Platform, *rows: dict[str, Any], dataset: str = "flights", token: str = "", **fields: Any) -> pushing.Pushed:
    request = pushing.PushRows(project=PROJECT, dataset=dataset, **fields)
    return platform.call(pushing.PUSH_ROWS, request, token, chunks=[lines(*rows)])


def pushed(platform: Platform, key: str = "", dataset: str = "flights") -> pushing.Pushes:
    return platform.call(pushing.SHOW_PUSHES, pushing.AskAboutPushes(project=PROJECT, dataset=dataset, key=key))


def flush(platform: Platform, dataset: str = "flights") -> versions.Version:
    return platform.call(pushing.FLUSH_PUSHES, datasets.OneDataset(project=PROJECT, dataset=dataset))


def turn(platform: Platform, seconds: int = 20) -> None:
    """Time passes, and the loop has its round."""
    platform.clock.forward(seconds * SECOND)
    platform.room.batch(platform.clock.now())


def known(platform: Platform) -> list[int]:
    """When the parts of what is current became known."""
    id = platform.dataset().id

    def read(work: UnitOfWork) -> list[int]:
        return [part.known for part in version_store.parts_standing(work, id)]

    return platform.database.read(read)


def test_what_is_pushed_becomes_one_version_in_the_order_it_came(platform: Platform) -> None:
    platform.write(BEFORE)
    answers = [push(platform, {"id": number, "name": f"n{number}"}, {"id": -number}) for number in range(2, 6)]
    assert [answer.rows for answer in answers] == [2, 2, 2, 2]
    waits = pushed(platform)
    assert (waits.waiting, waits.waiting_rows, waits.since, waits.version) == (4, 8, answers[0].accepted, 0)
    assert waits.waiting_bytes > 0
    assert platform.dataset().current == 1
    platform.room.batch(platform.clock.now())  # too early
    assert platform.dataset().current == 1
    turn(platform)
    version = platform.version()
    assert (version.version, version.rows, version.parts, version.mode, version.origin) == (2, 9, 2, "append", "4 pushes")
    assert platform.rows() == [(1, "well")] + [row for n in range(2, 6) for row in ((n, f"n{n}"), (-n, None))]
    assert (pushed(platform).waiting, pushed(platform).version) == (0, 2)
    assert known(platform)[1] == answers[-1].accepted
    (leaf,) = platform.leaves("dataset.flush")
    assert (leaf["facts"]["number"], leaf["facts"]["pushes"], leaf["principal"]) == (2, 4, "")
    assert version.created_by
    turn(platform)
    assert platform.dataset().current == 2


def test_rows_are_known_since_they_were_accepted_though_they_waited_for_their_version(small: Platform) -> None:
    small.write(BEFORE)
    first = push(small, {"id": 2})
    small.clock.forward(3600 * SECOND)
    later = [push(small, {"id": 3}), push(small, {"id": 4})]
    flush(small)
    assert known(small)[1:] == [first.accepted, later[-1].accepted]
    assert small.version().created > later[-1].accepted
    assert [row[0] for row in small.rows()] == [1, 2, 3, 4]


def test_the_same_key_counts_once_before_and_after_its_version_and_other_rows_under_it_are_refused(platform: Platform) -> None:
    platform.write(BEFORE)
    first = push(platform, {"id": 2}, key="a")
    again = push(platform, {"id": 2}, key="a")
    assert (again.push, again.again, first.again) == (first.push, True, False)
    with pytest.raises(Conflict, match="Other rows were pushed under the key 'a'"):
        push(platform, {"id": 3}, key="a")
    state = pushed(platform, "a").push
    assert state is not None
    assert (state.state, state.version) == ("waiting", 0)
    flush(platform)
    assert push(platform, {"id": 2}, key="a").again
    state = pushed(platform, "a").push
    assert state is not None
    assert (state.state, state.version) == ("published", 2)
    somebody = platform.person("sara", Role.ENGINEER)
    assert not push(platform, {"id": 2}, key="a", token=somebody).again  # keys are each caller's own
    flush(platform)
    assert [row[0] for row in platform.rows()] == [1, 2, 2]
    platform.room.step(Moment(platform.clock.now() + 3 * DAY))  # parts that were joined, or done, are let go
    platform.room.step(Moment(platform.clock.now() + 3 * DAY))
    with pytest.raises(NotFound, match="You have pushed nothing"):
        pushed(platform, "a")
    assert [row[0] for row in platform.rows()] == [1, 2, 2]


def test_parts_of_pushes_that_were_joined_are_shredded_and_those_that_wait_survive_pruning(small: Platform) -> None:
    for number in range(3):
        small.write(BEFORE, mode="overwrite" if number else "append")
    push(small, {"id": 2})
    push(small, {"id": 3})
    small.call(tidying.PRUNE_VERSIONS, tidying.PruneVersions(project=PROJECT, dataset="flights", keep=1))
    small.room.step(small.clock.now())
    flush(small)
    assert [row[0] for row in small.rows()] == [1, 2, 3]
    small.room.step(small.clock.now())
    small.clock.forward(3 * DAY)
    while small.collector.step(small.clock.now()).more:
        pass
    assert len(small.objects()) == 4  # two parts, and their profiles
    assert [row[0] for row in small.rows()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("content", "fields", "says"),
    [
        (b'{"id": "x"}\n', {}, "id"),
        (b'{"id": 2, "email": "a@b.c"}\n', {}, "email"),
        (b'{"id": 2', {}, "line 1"),
        (b"", {}, "no row|empty|nothing"),
        (b"not what it says", {"format": "arrow"}, "Arrow|memory"),
    ],
)
def test_what_does_not_fit_is_refused_at_the_door_and_leaves_nothing(
    content: bytes, fields: dict[str, Any], says: str, small: Platform
) -> None:
    small.write(BEFORE)
    with pytest.raises((Invalid, Conflict, TooLarge), match=says):
        small.call(pushing.PUSH_ROWS, pushing.PushRows(project=PROJECT, dataset="flights", **fields), chunks=[content])
    assert pushed(small).waiting == 0
    with pytest.raises(Conflict, match="Nothing waits"):
        flush(small)


def test_a_batch_that_breaks_a_check_is_quarantined_and_the_next_goes_on(platform: Platform) -> None:
    platform.write(BEFORE)
    rule = checks.Check(name="small", kind="range", columns=("id",), most=100)
    platform.call(checks.SET_CHECKS, checks.SetChecks(project=PROJECT, dataset="flights", checks=(rule,)))
    push(platform, {"id": 500}, key="bad")
    push(platform, {"id": 2})
    turn(platform)
    assert platform.dataset().current == 1
    held = platform.version("2")
    assert (held.quarantined, held.rows) == (True, 3)
    state = pushed(platform, "bad").push
    assert state is not None
    assert (state.state, state.version) == ("quarantined", 2)
    push(platform, {"id": 3})
    turn(platform)
    assert platform.dataset().current == 3
    assert [row[0] for row in platform.rows()] == [1, 3]
    before = platform.clock.now()
    released = platform.call(checks.RELEASE_VERSION, versions.OneVersion(project=PROJECT, dataset="flights", version="2"))
    assert released.current
    assert [row[0] for row in platform.rows()] == [1, 3, 500, 2]
    assert known(platform)[2] > before  # nobody knew them before


def test_pushes_that_fit_no_version_any_more_are_told_and_kept_until_they_fit_or_are_given_up(small: Platform) -> None:
    small.write(BEFORE)
    push(small, {"id": 2, "name": "channel"}, key="old")
    small.rename(name="called")
    push(small, {"id": 3, "called": "field"})
    turn(small)
    assert small.rows() == [(1, "well"), (3, "field")]
    stands = pushed(small, "old")
    assert stands.push is not None
    assert (stands.stuck, stands.stuck_rows, stands.waiting, stands.push.state) == (1, 1, 0, "stuck")
    assert "add or widen" in stands.error
    small.rename(called="name")
    flush(small)
    assert small.rows() == [(1, "well"), (3, "field"), (2, "channel")]
    push(small, {"id": 4, "name": "gone"})
    small.rename(name="called")
    with pytest.raises(Conflict, match="does not fit its columns"):
        flush(small)
    dropped = small.call(pushing.DROP_PUSHES, pushing.DropPushes(project=PROJECT, dataset="flights"))
    assert (dropped.pushes, dropped.rows) == (1, 1)
    assert pushed(small).stuck == 0


def test_the_first_push_decides_the_columns_of_a_dataset_without_a_version(platform: Platform) -> None:
    with pytest.raises(NotFound, match="Create it first"):
        push(platform, {"id": 1}, dataset="events")
    push(platform, {"id": 1, "at": "2026-11-16T08:00:00Z"}, dataset="events", create=True)
    with pytest.raises((Invalid, Conflict), match="id"):
        push(platform, {"id": "one"}, dataset="events", create=True)
    push(platform, {"id": 2}, dataset="events", create=True)
    version = flush(platform, "events")
    assert [(column.name, column.type) for column in version.columns] == [("id", "int64"), ("at", "moment")]
    assert [row[0] for row in platform.rows(name="events")] == [1, 2]


def test_arrow_streams_are_pushed_as_they_are(small: Platform) -> None:
    small.write(BEFORE)
    request = pushing.PushRows(project=PROJECT, dataset="flights", format="arrow")
    assert small.call(pushing.PUSH_ROWS, request, chunks=[arrow(id=[2, 3], name=["a", "b"])]).rows == 2
    flush(small)
    assert small.rows() == [(1, "well"), (2, "a"), (3, "b")]


def bounded(platform: Platform, **bounds: Any) -> None:
    """The door has other bounds."""
    (door,) = [one for one in platform.room._services if isinstance(one, AcceptService)]
    door._bounds = PushBounds(**bounds)


def test_too_much_is_refused_with_what_to_do(small: Platform) -> None:
    small.write(BEFORE)
    bounded(small, largest=5)
    with pytest.raises(TooLarge, match="One push has at most"):
        push(small, {"id": 2})
    bounded(small, held_pushes=1)
    push(small, {"id": 2}, key="first")
    with pytest.raises(TooMany, match="1 pushes of this project wait"):
        push(small, {"id": 3})
    assert push(small, {"id": 2}, key="first").again
    flush(small)
    push(small, {"id": 3})


def test_what_waits_is_counted_without_going_through_all_that_was_published(small: Platform) -> None:
    """That is done with each push, while nobody else can write."""

    def plan(work: UnitOfWork) -> str:
        seen: list[Any] = []

        class Work:
            def execute(self, statement: Any) -> Any:
                seen.append(statement)
                return work.execute(statement)

        push_store.held_in(Work(), "project")  # type: ignore[arg-type]
        told = seen[0].compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
        return str(work.execute(text(f"EXPLAIN QUERY PLAN {told}")).all())

    assert "datasets_pushes_by_state (state=? AND project=?)" in small.database.read(plan)


def test_who_may_only_read_pushes_nothing_and_a_token_can_be_for_pushing_alone(small: Platform) -> None:
    small.write(BEFORE)
    with pytest.raises(Forbidden):
        push(small, {"id": 2}, token=small.person("omar", Role.VIEWER))
    narrow = small.token(("dataset.push",))
    assert push(small, {"id": 2}, token=narrow).rows == 1
    with pytest.raises(Forbidden):
        small.query("SELECT * FROM flights", token=narrow)


def test_a_batch_that_another_version_overtook_is_made_anew(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.write(BEFORE)
    push(platform, {"id": 2})
    batches = platform.room._batches
    prepare = batches.prepare

    def overtaken(*given: Any) -> Any:
        batch = prepare(*given)
        platform.write(b"id,name\n9,late\n")
        return batch

    monkeypatch.setattr(batches, "prepare", overtaken)
    turn(platform)
    assert [row[0] for row in platform.rows()] == [1, 9]
    monkeypatch.undo()
    platform.room.batch(platform.clock.now())
    assert [row[0] for row in platform.rows()] == [1, 9, 2]


def test_what_fails_is_told_with_what_waits_and_tried_again_later(small: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    small.write(BEFORE)
    push(small, {"id": 2})
    push(small, {"id": 3})

    def fails(*_: object) -> None:
        raise Conflict("The storage is on fire.")

    monkeypatch.setattr(small.room._batches._rewriter, "joined", fails)
    turn(small)
    assert (pushed(small).waiting, pushed(small).error) == (2, "The storage is on fire.")
    monkeypatch.undo()
    turn(small, 1)
    assert small.dataset().current == 1  # not at once
    turn(small, 40)
    assert [row[0] for row in small.rows()] == [1, 2, 3]
    assert pushed(small).error == ""


def test_a_deleted_dataset_takes_what_waits_with_it(small: Platform) -> None:
    small.write(BEFORE)
    push(small, {"id": 2})
    small.delete()
    turn(small)
    small.room.step(small.clock.now())
    with pytest.raises(NotFound):
        pushed(small)
    small.write(BEFORE)
    assert pushed(small).waiting == 0
