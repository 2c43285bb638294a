"""Splits: whatever is done to one, the live shares sum to the whole and nobody's caller is swapped without need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Conflict, Invalid
from falaj.serving.operations.words import WHOLE, Arm, Steps
from falaj.serving.splits import (
    Arms,
    beside,
    check,
    check_steps,
    everything_to,
    main_revision,
    previous,
    read_arms,
    shadowed,
    share_of,
    without,
    written,
)


@st.composite
def all_splits(draw: st.DrawFn) -> Arms:
    numbers = sorted(draw(st.sets(st.integers(1, 50), min_size=1, max_size=8)))
    shadows = draw(st.sets(st.sampled_from(numbers), max_size=len(numbers) - 1))
    lives = [number for number in numbers if number not in shadows]
    cuts = sorted(draw(st.lists(st.integers(0, WHOLE), min_size=len(lives) - 1, max_size=len(lives) - 1)))
    shares = dict(zip(lives, (end - start for start, end in zip([0, *cuts], [*cuts, WHOLE], strict=True)), strict=True))
    return tuple(
        Arm(revision=number, share=shares[number])
        if number in shares
        else Arm(revision=number, share=draw(st.integers(0, WHOLE)), role="shadow")
        for number in numbers
    )


def live_total(arms: Arms) -> int:
    return sum(arm.share for arm in arms if arm.role == "live")


@given(all_splits(), st.integers(1, 60), st.integers(0, WHOLE))
def test_one_more_arm_gets_its_share_and_the_rest_still_sums_to_the_whole(arms: Arms, revision: int, share: int) -> None:
    made = beside(arms, revision, share)
    assert live_total(made) == WHOLE
    alone = not any(arm.role == "live" and arm.revision != revision for arm in arms)
    assert share_of(made, revision) == (WHOLE if alone else share)
    assert check(made, {arm.revision: "" for arm in made}, "e") == made


@given(all_splits(), st.integers(51, 60), st.integers(0, WHOLE), st.integers(0, WHOLE))
def test_a_growing_canary_only_takes_from_the_others(arms: Arms, canary: int, first: int, second: int) -> None:
    small, large = sorted((first, second))
    before, after = beside(arms, canary, small), beside(beside(arms, canary, small), canary, large)
    for arm in before:
        if arm.revision != canary and arm.role == "live":
            assert share_of(after, arm.revision) <= arm.share + 1  # a hundredth of a per cent, by rounding


@given(all_splits(), st.integers(1, 50))
def test_without_a_revision_the_others_take_over_or_nothing_is_left(arms: Arms, revision: int) -> None:
    left = without(arms, revision)
    assert all(arm.revision != revision for arm in left)
    assert live_total(left) == (WHOLE if left else 0)
    assert bool(left) == any(arm.role == "live" and arm.revision != revision for arm in arms)


@given(all_splits(), st.integers(51, 60), st.integers(0, WHOLE))
def test_a_shadow_changes_nobodys_answers(arms: Arms, revision: int, share: int) -> None:
    made = shadowed(arms, revision, share)
    assert [arm for arm in made if arm.role == "live"] == [arm for arm in arms if arm.role == "live"]
    assert share_of(made, revision) == 0


@given(all_splits())
def test_a_split_is_read_as_it_was_written(arms: Arms) -> None:
    assert read_arms(written(arms)) == arms


def test_nothing_can_be_shadowed_where_nothing_answers() -> None:
    with pytest.raises(Conflict, match="nothing to shadow"):
        shadowed((), 1, 100)


@pytest.mark.parametrize(
    ("arms", "says"),
    [
        ((Arm(revision=1, share=9_999),), "must sum to 10000"),
        ((Arm(revision=1, share=WHOLE), Arm(revision=2, share=1)), "must sum to 10000"),
        ((Arm(revision=1, share=WHOLE, role="shadow"),), "must sum to 10000"),
        ((Arm(revision=1, share=5_000), Arm(revision=1, share=5_000)), "named twice"),
        ((Arm(revision=9, share=WHOLE),), "no revision 9"),
        ((Arm(revision=3, share=WHOLE),), "quarantined: it broke"),
    ],
)
def test_a_split_that_cannot_be_is_refused_with_the_reason(arms: Arms, says: str) -> None:
    with pytest.raises((Invalid, Conflict), match=says):
        check(arms, {1: "", 2: "", 3: "it broke."}, "e")


@pytest.mark.parametrize("shares", [(0, WHOLE), (100, 50, WHOLE), (100, 100, WHOLE), (100, 200), (WHOLE, WHOLE)])
def test_steps_rise_to_the_whole(shares: tuple[int, ...]) -> None:
    with pytest.raises(Invalid):
        check_steps(Steps(shares=shares))


def one(revision: int) -> Arms:
    return everything_to(revision)


USABLE = set(range(1, 20))


def test_each_rollback_goes_one_further_back_and_a_new_split_begins_anew() -> None:
    done = [("deploy", one(1)), ("deploy", one(2)), ("deploy", one(3))]
    assert previous(done, USABLE) == one(2)
    done.append(("rollback", one(2)))
    assert previous(done, USABLE) == one(1)
    done.append(("rollback", one(1)))
    assert previous(done, USABLE) == ()
    done.append(("deploy", one(4)))
    assert previous(done, USABLE) == one(1)


def test_the_way_back_from_a_canary_that_grew_is_what_was_before_it() -> None:
    done = [("deploy", one(1)), ("deploy", beside(one(1), 2, 1000)), ("step", beside(one(1), 2, 5000)), ("step", one(2))]
    assert previous(done, USABLE) == one(1)
    done = [*done, ("deploy", one(3))]
    assert previous(done, USABLE) == one(2)


def test_the_way_back_passes_over_what_may_not_be_used() -> None:
    done = [("deploy", one(1)), ("deploy", one(2)), ("deploy", one(3))]
    assert previous(done, {1, 3}) == one(1)
    assert previous(done, {3}) == ()


@given(st.lists(st.integers(1, 5), max_size=12))
def test_rolling_back_always_ends_and_never_stays_where_it_is(deployed: list[int]) -> None:
    done = [("deploy", one(number)) for number in deployed]
    for _ in range(len(done) + 1):
        back = previous(done, USABLE)
        if not back:
            break
        assert back != done[-1][1]
        done.append(("rollback", back))
    else:
        raise AssertionError("the way back has no end")


@given(all_splits())
def test_the_main_revision_is_one_that_answers(arms: Arms) -> None:
    assert share_of(arms, main_revision(arms)) == max(arm.share for arm in arms if arm.role == "live")
