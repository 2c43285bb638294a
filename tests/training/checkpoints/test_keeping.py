"""Which checkpoints stay, who saves what, and in which order data is seen: laws without torch."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.checkpoints import folders
from falaj.training.checkpoints.keeping import Keep
from falaj.training.checkpoints.orders import Order, Position
from falaj.training.checkpoints.sharing import share_of


@value
class One:
    metric: float | None


METRICS = st.lists(st.one_of(st.none(), st.floats()), max_size=12)


@given(METRICS, st.integers(1, 4), st.integers(0, 3), st.sampled_from(["smaller", "larger"]))
def test_the_newest_and_the_best_stay_and_no_more_than_asked_for(metrics, last, best, better):
    there = [One(metric=one) for one in metrics]
    keep = Keep(last=last, best=best, better=better)
    gone = keep.superfluous(there)
    stay = [at for at in range(len(there)) if at not in gone]
    assert stay[-last:] == list(range(len(there)))[-last:]
    assert len(stay) <= last + best
    numbers = [one for one in metrics if one is not None and not math.isnan(one)]
    if best and numbers:
        assert (min if better == "smaller" else max)(numbers) in [metrics[at] for at in stay]


@given(METRICS, st.integers(1, 3), st.integers(0, 2))
def test_to_clean_up_twice_removes_nothing_more(metrics, last, best):
    keep, there = Keep(last=last, best=best), [One(metric=one) for one in metrics]
    stay = [one for at, one in enumerate(there) if at not in keep.superfluous(there)]
    assert keep.superfluous(stay) == []


def test_at_least_one_is_kept():
    with pytest.raises(Invalid):
        Keep(last=0)


@given(st.dictionaries(st.text(min_size=1), st.integers(0, 10**9), max_size=30), st.integers(1, 6))
def test_everything_is_saved_by_exactly_one_and_loads_are_even(sizes, workers):
    shares = [share_of(rank, workers, divisible=sizes) for rank in range(workers)]
    assert Counter(name for share in shares for name in share) == Counter(sizes.keys())
    loads = [sum(sizes[name] or 1 for name in share) for share in shares]
    assert max(loads) - min(loads) <= max([1, *sizes.values()])


ORDERS = st.builds(Order, length=st.integers(1, 60), seed=st.integers(-(2**63), 2**64), shuffled=st.booleans())


@given(ORDERS, st.integers(0, 5), st.integers(1, 4), st.integers(1, 4), st.data())
def test_an_epoch_shows_every_sample_once_also_when_others_go_on_with_it(order, epoch, before, after, data):
    steps = data.draw(st.integers(0, order.length // before))
    seen = []
    for worker in range(before):
        dealt = list(order.dealt(Position(epoch=epoch), worker, before))
        assert len(dealt) == order.count(Position(epoch=epoch), before)
        seen += dealt[:steps]
    rest = [
        one for worker in range(after) for one in order.dealt(Position(epoch=epoch, consumed=steps * before), worker, after)
    ]
    padding = len(seen) + len(rest) - order.length
    assert 0 <= padding < after
    assert set(seen) | set(rest) == set(range(order.length))
    assert len(seen) == len(set(seen))


@given(ORDERS)
def test_the_same_numbers_give_the_same_order_and_other_epochs_another(order):
    first, again = (list(order.dealt(Position(), 0, 1)) for _ in range(2))
    assert first == again
    if order.shuffled and order.length > 20:
        assert first != list(order.dealt(Position(epoch=1), 0, 1))


def test_an_order_is_what_it_was_when_checkpoints_were_first_written():
    assert list(Order(length=8, seed=5).dealt(Position(epoch=2), 0, 1)) == [2, 1, 4, 7, 0, 3, 5, 6]


def test_nothing_to_train_on_is_said_at_once():
    with pytest.raises(Invalid, match="empty"):
        Order(length=0)


def test_a_checkpoint_that_is_being_written_is_none_and_what_was_left_goes(tmp_path):
    folder = tmp_path / "kept"
    first = folders.next_name(folder, 7)
    folders.begin(folder, first)
    assert folders.names(folder) == []
    second = folders.next_name(folder, 8)
    folders.begin(folder, second)
    assert [one.name for one in folder.iterdir()] == [f".writing-{second}"]
    folders.publish(folder, second)
    third = folders.next_name(folder, 3)
    folders.begin(folder, third)
    folders.publish(folder, third)
    assert folders.names(folder) == [second, third]
    folders.remove(folder, second)
    assert [one.name for one in folder.iterdir()] == [third]
