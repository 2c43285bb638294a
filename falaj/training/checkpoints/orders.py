"""In which order a training sees its data, and where in it a process goes on. Pure: the same numbers give the same order."""

from collections.abc import Iterator

import numpy as np

from falaj.base.errors import Invalid
from falaj.base.values import value


@value
class Position:
    """`consumed`: samples of this epoch that all processes together have trained on."""

    epoch: int = 0
    consumed: int = 0


@value
class Order:
    """Samples 0 to `length`, shuffled anew for every epoch by `seed`, dealt out to `workers` processes one by one.

    A step of all processes covers samples that follow each other in the epoch's order. So a training goes on at a sample,
    however many processes there were before. The last ones are dealt again where they do not suffice for all.
    """

    length: int
    seed: int = 0
    shuffled: bool = True

    def __post_init__(self) -> None:
        if self.length < 1:
            raise Invalid("There is nothing to train on: the dataset is empty.")

    def of_epoch(self, epoch: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        if not self.shuffled:
            return np.arange(self.length)
        # Numpy promises that this generator gives the same numbers in all its versions, and promises it of no other.
        mixed = np.random.SeedSequence([self.seed & (2**64 - 1), epoch]).generate_state(4)
        return np.random.RandomState(mixed).permutation(self.length)

    def dealt(self, position: Position, worker: int, workers: int) -> Iterator[int]:
        """What this process has still to see of the epoch."""
        rest = self.of_epoch(position.epoch)[position.consumed :]
        if missing := -len(rest) % workers:
            rest = np.concatenate([rest, np.resize(rest, missing)])
        yield from rest[worker::workers].tolist()

    def count(self, position: Position, workers: int) -> int:
        """How many samples `dealt` gives to each process."""
        return -(-max(0, self.length - position.consumed) // workers)
