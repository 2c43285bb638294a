"""The law of shares: however rows lie in groups, and however many read, every row comes, and all have as much to do."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from falaj.training.loading.orders import Order, Share

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=12).filter(any)


def rows_of(order: Order, epoch: int, share: Share) -> list[tuple[int, int]]:
    return [(one.group, row) for pool in order.pools(epoch, share) for one in pool.slices for row in range(one.start, one.stop)]


@settings(deadline=None, max_examples=300)
@given(
    SIZES, st.integers(1, 30), st.integers(1, 60), st.integers(1, 5), st.integers(1, 4), st.booleans(), st.integers(0, 2**40)
)
def test_every_row_comes_and_all_have_as_many(sizes, batch, pool, ranks, workers, shuffled, epoch):
    order = Order(rows=tuple(sizes), batch=batch, seed=1, shuffled=shuffled, pool=pool, drop_last=False)
    length = -(-sum(sizes) // ranks)
    seen: Counter[tuple[int, int]] = Counter()
    for rank in range(ranks):
        shares = [Share(rank=rank, ranks=ranks, worker=worker, workers=workers) for worker in range(workers)]
        assert (
            sum(order.batches(share) for share in shares) == order.batches(Share(rank=rank, ranks=ranks)) == -(-length // batch)
        )
        given_out = [rows_of(order, epoch, share) for share in shares]
        for share, rows in zip(shares, given_out, strict=True):
            assert -(-len(rows) // batch) == order.batches(share)
        assert sum(map(len, given_out)) == length
        for rows in given_out:
            seen.update(rows)
    assert set(seen) == {(group, row) for group, size in enumerate(sizes) for row in range(size)}
    assert sum(seen.values()) - len(seen) < ranks


@settings(deadline=None, max_examples=100)
@given(SIZES, st.integers(1, 30), st.integers(1, 60), st.integers(1, 5))
def test_where_the_last_batch_is_left_out_all_are_full(sizes, batch, pool, ranks):
    order = Order(rows=tuple(sizes), batch=batch, seed=1, shuffled=True, pool=pool, drop_last=True)
    for rank in range(ranks):
        share = Share(rank=rank, ranks=ranks)
        assert len(rows_of(order, 0, share)) == order.batches(share) * batch


def test_the_order_is_the_same_in_every_version():
    order = Order(rows=(3, 2, 4), batch=2, seed=7, shuffled=True, pool=5, drop_last=False)
    assert [[one.group for one in pool.slices] for pool in order.pools(0, Share())] == [[1, 0], [2]]
    assert [order.mixed(0, pool).tolist() for pool in order.pools(0, Share())] == [[3, 0, 4, 1, 2], [0, 2, 3, 1]]
