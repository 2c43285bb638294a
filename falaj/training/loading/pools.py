"""Reading pools ahead in threads, and cutting batches from them. Decoding and mixing hold no lock of Python's, so threads do it
at the full speed of the cores, and nothing is copied between processes."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np

from falaj.training.loading.layouts import Layout
from falaj.training.loading.orders import Order, Pool, Share
from falaj.training.loading.sources import Array, ArrayGroups

READERS: Final = 2
T = TypeVar("T")
Made = Callable[[Array], Any]
Arrays = Generator[list[Any], None, None]


class Batches:
    """Batches of an epoch as arrays, or as what is `made` of them in the reading threads. Thread-safe."""

    def __init__(self, source: ArrayGroups, layout: Layout, order: Order, *, made: Made = lambda array: array) -> None:
        self.source, self.layout, self.order = source, layout, order
        self._made = made

    def of(self, epoch: int, share: Share, *, skip: int = 0, readers: int = READERS) -> Arrays:
        """Those of one reader, but for the first `skip`. What lies wholly before is not read. Who stops early closes it."""
        pools = deque(self.order.pools(epoch, share))
        before = skip * self.order.batch
        while pools and pools[0].rows <= before:
            before -= pools.popleft().rows
        with closing(ahead([partial(self._pool, epoch, pool) for pool in pools], readers)) as read:
            yield from self._cut(read, before)

    def _pool(self, epoch: int, pool: Pool) -> list[Any]:
        pieces = []
        for one in pool.slices:
            arrays = self.source.read(one.group, self.layout.read)
            pieces.append({name: array[one.start : one.stop] for name, array in arrays.items()})
        stacked = self.layout.stacked(pieces, self.source.dtypes)
        mixed = self.order.mixed(epoch, pool)
        return [self._made(array if mixed is None else array.take(mixed, axis=0)) for array in stacked]

    def _cut(self, pools: Arrays, before: int) -> Arrays:
        """A batch that a pool does not fill is filled by the next one."""
        size = self.order.batch
        rest: list[Any] = []
        for pool in pools:
            at = before
            before = 0
            if rest:
                at = size - len(rest[0])
                rest = [_joined(one, other[:at]) for one, other in zip(rest, pool, strict=True)]
                if len(rest[0]) < size:
                    continue
                yield rest
            end = len(pool[0])
            while at + size <= end:
                yield [part[at : at + size] for part in pool]
                at += size
            rest = [part[at:] for part in pool] if at < end else []
        if rest:
            yield rest


def _joined(one: Any, other: Any) -> Any:
    if isinstance(one, np.ndarray):
        return np.concatenate([one, other])
    joined = one.new_empty((len(one) + len(other), *one.shape[1:]), pin_memory=one.is_pinned())
    joined[: len(one)] = one
    joined[len(one) :] = other
    return joined


def ahead(makers: Sequence[Callable[[], T]], threads: int) -> Generator[T, None, None]:
    """What each makes, in their order, one more than there are threads before it is asked for. Who stops early closes it."""
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="falaj-loading") as pool:
        try:
            for make in makers:
                waiting.append(pool.submit(make))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for one in waiting:
                one.cancel()
