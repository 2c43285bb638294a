"""Which rows come when, and who has them. Pure: the same numbers give the same order, in every version of numpy.

An epoch lays the row groups end to end, in an order of its own where it is shuffled. Each process has a stretch of that, all of
one length, and cuts it into pools of whole groups; the rows of a pool are mixed.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.training.loading.sources import Array


@value
class Slice:
    """Rows `start` to `stop` of a group."""

    group: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


@value
class Pool:
    """What is read and mixed at once. `number` is that of its first row in the epoch: no two pools of an epoch share it."""

    number: int
    slices: tuple[Slice, ...]

    @property
    def rows(self) -> int:
        return sum(one.rows for one in self.slices)


@value
class Share:
    """Whose rows these are: of process `rank` among `ranks`, and there of reader `worker` among `workers`."""

    rank: int = 0
    ranks: int = 1
    worker: int = 0
    workers: int = 1

    def __post_init__(self) -> None:
        if not (0 <= self.rank < self.ranks and 0 <= self.worker < self.workers):
            raise Invalid(
                f"Process {self.rank} of {self.ranks} with reader {self.worker} of {self.workers} cannot be: they are counted "
                "from 0, and there is at least one."
            )


@value
class Order:
    """`rows` are those of each group; `pool` is how many are mixed at least, which whole groups make up. `content` is a digest
    of what is read, where it has one: by it the same rows are known again."""

    rows: tuple[int, ...]
    batch: int
    seed: int
    shuffled: bool
    pool: int
    drop_last: bool
    content: str = ""

    def __post_init__(self) -> None:
        if self.batch < 1 or self.pool < 1:
            raise Invalid(f"A batch has at least one row, and so has what is mixed: not {self.batch} and {self.pool}.")
        if not sum(self.rows):
            raise Invalid("There is nothing to train on: the dataset is empty.")

    def batches(self, share: Share) -> int:
        """How many a reader gives in an epoch. Those of a process sum up to the same in all of them."""
        first, last = self._batches_of(share)
        return last - first

    def pools(self, epoch: int, share: Share) -> list[Pool]:
        """A reader's, in their order; their rows follow each other through its batches."""
        length = self._length(share.ranks)
        first, last = self._batches_of(share)
        begin = share.rank * length
        start, stop = begin + first * self.batch, begin + min(last * self.batch, length)
        found: list[Pool] = []
        held: list[Slice] = []
        at = number = start
        for one in self._slices(epoch, start, stop):
            held.append(one)
            at += one.rows
            if at - number >= self.pool:
                found.append(Pool(number=number, slices=tuple(held)))
                held, number = [], at
        return [*found, Pool(number=number, slices=tuple(held))] if held else found

    def mixed(self, epoch: int, pool: Pool) -> Array | None:
        """In which order the rows of a pool come; as they lie where nothing is shuffled."""
        return self._drawn(epoch, pool.number + 1).permutation(pool.rows) if self.shuffled else None

    def _batches_of(self, share: Share) -> tuple[int, int]:
        """From which of the process's batches to which the reader has."""
        length = self._length(share.ranks)
        several = length // self.batch if self.drop_last else -(-length // self.batch)
        return several * share.worker // share.workers, several * (share.worker + 1) // share.workers

    def _length(self, ranks: int) -> int:
        """The rows of a process. Where they do not suffice for all to have as many, the first ones are dealt once more."""
        return -(-sum(self.rows) // ranks)

    def _slices(self, epoch: int, start: int, stop: int) -> Iterator[Slice]:
        """What lies between two places; behind the end it begins anew."""
        total = sum(self.rows)
        while start < stop:
            base = start // total * total
            yield from _between(self._groups(epoch), self.rows, start - base, min(stop - base, total))
            start = base + total

    def _groups(self, epoch: int) -> Sequence[int]:
        if not self.shuffled:
            return range(len(self.rows))
        order: list[int] = self._drawn(epoch, 0).permutation(len(self.rows)).tolist()
        return order

    def _drawn(self, epoch: int, what: int) -> np.random.RandomState:
        # Numpy promises that this generator gives the same numbers in all its versions, and promises it of no other.
        return np.random.RandomState(np.random.SeedSequence([self.seed & (2**64 - 1), epoch, what]).generate_state(4))


def _between(groups: Sequence[int], rows: Sequence[int], start: int, stop: int) -> Iterator[Slice]:
    at = 0
    for group in groups:
        low, high = max(start - at, 0), min(stop - at, rows[group])
        if low < high:
            yield Slice(group=group, start=low, stop=high)
        at += rows[group]
