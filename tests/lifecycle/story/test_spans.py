"""Where a version answered: spans from the changes of a split."""

from falaj.base.clock import Moment
from falaj.base.ids import new_id
from falaj.lifecycle.operations.stories import Span
from falaj.lifecycle.story.spans import answered_at, share_now, spans_of
from falaj.registry.operations.promotions import Person
from falaj.serving.operations.endpoints import Change
from falaj.serving.operations.words import Arm, ChangeKind

PERSON = Person(id="p" * 32, name="maryam")


def change(at: int, kind: ChangeKind, *arms: Arm, by: Person | None = PERSON, reason: str = "") -> Change:
    return Change(id=new_id(Moment(at)), kind=kind, before=(), arms=arms, by=by, at=Moment(at), reason=reason)


def arm(revision: int, share: int, role: str = "live") -> Arm:
    return Arm(revision=revision, share=share, role=role)  # type: ignore[arg-type]


def told(spans: tuple[Span, ...]) -> list[tuple[int, int | None, int, int, str]]:
    return [(one.since, one.until, one.revision, one.share, one.end) for one in spans]


def test_a_share_lasts_until_it_changes_and_says_what_ended_it() -> None:
    changes = (
        change(10, "deploy", arm(1, 10_000)),
        change(20, "deploy", arm(1, 9_000), arm(2, 1_000)),
        change(30, "step", arm(1, 5_000), arm(2, 5_000), by=None, reason="Step 2 of 3."),
        change(40, "rollback", arm(1, 10_000), by=None, reason="It was worse."),
    )
    found = spans_of(changes, {2}, None)
    assert told(found) == [(20, 30, 2, 1_000, "step"), (30, 40, 2, 5_000, "rollback")]
    assert (found[1].by, found[1].end_by, found[1].end_reason) == ("", "", "It was worse.")
    assert share_now(found) == 0
    assert told(spans_of(changes, {1}, None))[-1] == (40, None, 1, 10_000, "")


def test_a_change_of_others_is_none_of_its_own() -> None:
    changes = (
        change(10, "deploy", arm(1, 5_000), arm(2, 5_000)),
        change(20, "split", arm(1, 5_000), arm(3, 5_000)),
    )
    assert told(spans_of(changes, {1}, None)) == [(10, None, 1, 5_000, "")]


def test_two_revisions_of_one_version_answer_beside_each_other() -> None:
    found = spans_of((change(10, "deploy", arm(1, 4_000), arm(2, 6_000)),), {1, 2}, None)
    assert share_now(found) == 10_000


def test_a_shadow_has_no_share_of_the_answers() -> None:
    found = spans_of((change(10, "deploy", arm(1, 10_000), arm(2, 2_000, "shadow")),), {2}, None)
    assert [one.role for one in found] == ["shadow"]
    assert share_now(found) == 0


def test_with_its_endpoint_all_of_it_ends() -> None:
    found = spans_of((change(10, "deploy", arm(1, 10_000)),), {1}, Moment(50))
    assert told(found) == [(10, 50, 1, 10_000, "deleted")]
    assert [answered_at(found, Moment(at)) for at in (9, 10, 30, 50, 51)] == [False, True, True, True, False]
