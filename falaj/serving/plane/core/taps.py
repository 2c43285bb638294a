"""Who watches predictions go by. What decides by it later is a verdict: `falaj.serving.verdicts`."""

from collections.abc import Sequence
from typing import Protocol

from falaj.runtimes.engine import Array


class Tap(Protocol):
    """Sees a share of what an endpoint is asked and answers, batch by batch.

    `see` is called on the loop's thread after the answers were sent; whatever it takes, the next requests wait, so it counts or
    copies and does the rest elsewhere. It neither changes the arrays nor keeps them. One that raises is told no more.
    `share` is of all batches, in hundredths of a per cent.
    """

    share: int

    def see(self, endpoint: str, revision: int, inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
        """`endpoint` is the id, `revision` the number; arrays are in the model's order, the first axis counts rows where it
        batches."""
        ...
