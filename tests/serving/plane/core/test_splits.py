"""Which revision a caller gets."""

from bisect import bisect_right
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from falaj.serving.operations.words import WHOLE
from falaj.serving.plane.core.splits import bucket_of, lay_out, shadows_of
from falaj.serving.states import Arm


@st.composite
def splits(draw: st.DrawFn) -> tuple[Arm, ...]:
    count = draw(st.integers(1, 6))
    cuts = sorted(draw(st.lists(st.integers(0, WHOLE), min_size=count - 1, max_size=count - 1)))
    shares = [end - start for start, end in zip([0, *cuts], [*cuts, WHOLE], strict=True)]
    numbers = draw(st.permutations(range(1, count + 1)))
    return tuple(Arm(revision=number, share=share) for number, share in zip(numbers, shares, strict=True))


def owners(arms: tuple[Arm, ...], fallback: int = 0, broken: frozenset[int] = frozenset()) -> list[int]:
    ends, revisions = lay_out(arms, fallback, lambda number: number not in broken)
    return [revisions[bisect_right(ends, bucket)] for bucket in range(WHOLE)]


@given(splits())
def test_every_arm_has_exactly_its_share_of_the_buckets(arms: tuple[Arm, ...]):
    assert Counter(owners(arms)) == Counter({arm.revision: arm.share for arm in arms if arm.share})


@given(st.integers(0, WHOLE), st.integers(0, WHOLE))
def test_a_canary_that_grows_keeps_its_callers_and_takes_others_over(one: int, other: int):
    small, large = min(one, other), max(one, other)
    before = owners((Arm(revision=7, share=small), Arm(revision=3, share=WHOLE - small)))
    after = owners((Arm(revision=3, share=WHOLE - large), Arm(revision=7, share=large)))
    for was, now in zip(before, after, strict=True):
        assert was == now or (was, now) == (3, 7)


@given(splits(), st.data())
def test_the_newest_arm_grows_without_giving_callers_back(arms: tuple[Arm, ...], data: st.DataObject):
    newest = max(arms, key=lambda arm: arm.revision)
    others = [arm for arm in arms if arm is not newest and arm.share]
    if not others:
        return
    giver = data.draw(st.sampled_from(others))
    taken = data.draw(st.integers(0, giver.share))
    shares = {newest.revision: taken, giver.revision: -taken}
    grown = tuple(Arm(revision=arm.revision, share=arm.share + shares.get(arm.revision, 0)) for arm in arms)
    had = [bucket for bucket, owner in enumerate(owners(arms)) if owner == newest.revision]
    now = owners(grown)
    assert all(now[bucket] == newest.revision for bucket in had)


@given(splits(), st.sets(st.integers(1, 6)))
def test_what_a_broken_revision_had_goes_to_the_fallback_and_nothing_else_moves(arms: tuple[Arm, ...], broken: set[int]):
    well = owners(arms)
    now = owners(arms, fallback=99, broken=frozenset(broken))
    assert now == [99 if owner in broken else owner for owner in well]


@given(splits(), st.sets(st.integers(1, 6), min_size=1))
def test_without_a_fallback_the_arms_that_are_well_take_over(arms: tuple[Arm, ...], broken: set[int]):
    layout = lay_out(arms, 0, lambda number: number not in broken)
    well = {arm.revision for arm in arms if arm.share} - broken
    if not well:
        assert layout == ((), ())
    else:
        assert layout[0][-1] == WHOLE
        assert set(layout[1]) <= well


def test_shadows_get_none_of_the_live_traffic():
    arms = (Arm(revision=1, share=WHOLE), Arm(revision=2, share=5000, role="shadow"))
    assert set(owners(arms)) == {1}
    assert shadows_of(arms, [1, 2]) == ((2, 5000),)
    assert shadows_of(arms, [1]) == ()


def test_a_key_is_held_to_its_bucket_and_keys_are_spread_evenly():
    buckets = [bucket_of("e" * 32, f"customer-{number}") for number in range(20_000)]
    assert buckets == [bucket_of("e" * 32, f"customer-{number}") for number in range(20_000)]
    tenths = Counter(bucket * 10 // WHOLE for bucket in buckets)
    assert len(tenths) == 10
    assert all(1800 < count < 2200 for count in tenths.values())


def test_the_same_key_falls_elsewhere_at_another_endpoint():
    keys = [f"customer-{number}" for number in range(100)]
    assert [bucket_of("a" * 32, key) for key in keys] != [bucket_of("b" * 32, key) for key in keys]


def test_buckets_are_the_same_on_every_host():
    assert bucket_of("a" * 32, "customer-1") == 2663
