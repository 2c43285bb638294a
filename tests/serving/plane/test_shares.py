"""What several owners share."""

from hypothesis import given
from hypothesis import strategies as st

from falaj.serving.plane.shares import GREED, Shares

MOST = 1000
STEPS = st.lists(st.tuples(st.integers(0, 4), st.integers(-1, 400)), max_size=200)


@given(STEPS)
def test_nobody_gets_more_than_there_is_nor_all_but_by_one_piece(steps: list[tuple[int, int]]):
    """A step takes a piece for an owner, or with -1 gives one back."""
    shares, held = Shares(MOST), {owner: [] for owner in range(5)}
    for owner, size in steps:
        share, pieces = shares.of(str(owner)), held[owner]
        if size < 0:
            if pieces:
                share.give(pieces.pop())
            continue
        left, fits = MOST - shares.taken, share.fits(size)
        taken = share.take(size)
        assert taken == fits
        if taken:
            pieces.append(size)
            assert len(pieces) == 1 or size == 0 or share.taken - size == 0 or share.taken <= GREED * (MOST - shares.taken)
        else:
            assert size > left or share.taken, "who has nothing gets what is left"
        assert share.taken == sum(pieces)
        assert shares.taken == sum(map(sum, held.values())) <= MOST


@given(st.integers(1, 8), st.integers(1, 8))
def test_however_many_take_what_they_can_all_get_as_much_and_there_is_some_left(greedy: int, piece: int):
    shares = Shares(MOST * 100)
    owners = [shares.of(str(number)) for number in range(greedy)]
    while sum(owner.take(piece) for owner in owners):
        pass
    fair = GREED * shares.most / (GREED * greedy + 1)
    assert all(abs(owner.taken - fair) <= GREED * piece * (greedy + 1) for owner in owners)
    assert shares.of("who comes next").take(int(shares.most / (GREED * greedy + 1)) - piece)


def test_who_comes_late_gets_its_part_as_soon_as_others_give_some_back():
    shares = Shares(MOST)
    early, late = shares.of("early"), shares.of("late")
    while early.take(1):
        pass
    for _ in range(MOST):
        if not early.take(1):
            early.give(1)
        late.take(1)
    assert abs(early.taken - late.taken) <= 4


def test_one_that_is_larger_than_all_there_is_gets_in_alone():
    shares = Shares(MOST)
    assert shares.of("a").take(MOST * 2)
    assert not shares.of("b").take(1)
    shares.of("a").give(MOST * 2)
    assert shares.of("b").take(1)
