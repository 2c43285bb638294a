"""The rows of the next batch, put together for the model: all at once, or where its device likes to have them as they come.

In the second way little is left to copy when the last of them is in, and the device need not wait for it.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from falaj.runtimes.engine import Array, Memory
from falaj.serving.plane.asking import Ask
from falaj.serving.plane.core.inputs import Data, Inputs

if TYPE_CHECKING:  # it needs libraries that a bare machine with a GPU has not
    from falaj.serving.plane.core.grants import Grant

# A request that was let in: with its rows, its data in the model's order, its shapes without rows, and its bytes.
Item: TypeAlias = "tuple[Ask, Grant | None, int, tuple[Data, ...], tuple[tuple[int, ...], ...], int]"
# Told of answers after they were sent: the requests, how many rows each has, what the model was given and what it said.
After: TypeAlias = Callable[[Sequence[Item], Sequence[Array], Sequence[Array], float], None]
# Told of a request that failed in the model.
AfterFailure: TypeAlias = Callable[[Item, Exception], None]
# So many bytes of the device's favourite memory, or none where so few are read as fast from anywhere.
Remember: TypeAlias = Callable[[int], Memory | None]
Tails: TypeAlias = tuple[tuple[int, ...], ...]


def nowhere(_length: int) -> None:
    """For devices that have no favourite memory."""


class Gathering:
    """`most` rows at most, of requests whose shapes without rows are `tails`. Never raises before `arrays` does."""

    def __init__(self, inputs: Inputs, tails: Tails, most: int, remember: Remember, started: float) -> None:
        self.batch: list[Item] = []
        self.rows = 0
        self.started = started
        self._inputs, self._tails = inputs, tails
        self._lengths = [one.dtype.itemsize * math.prod(tail) for one, tail in zip(inputs.all, tails, strict=True)]
        self._memories = [remember(most * length) for length in self._lengths]
        self._failure: Exception | None = None

    @property
    def is_early(self) -> bool:
        """Whether it is worth the while to add some while others still come."""
        return any(memory is not None for memory in self._memories)

    def add(self, items: list[Item], rows: int) -> None:
        self.batch += items
        try:
            for number, (memory, length) in enumerate(zip(self._memories, self._lengths, strict=True)):
                if memory is not None and self._failure is None:
                    raw = self._inputs.all[number].raw
                    memory.put([raw(item[3][number]) for item in items], self.rows * length)
        except Exception as error:  # noqa: BLE001 - one of them is at fault, and `arrays` tells
            self._failure = error
        self.rows += rows

    def arrays(self) -> list[Array]:
        """Raises `Invalid` where an element is not what the datatype holds."""
        if self._failure is not None:
            raise self._failure
        memories = [memory.array if memory is not None else None for memory in self._memories]
        return self._inputs.stack([item[3] for item in self.batch], self.rows, self._tails, memories)
