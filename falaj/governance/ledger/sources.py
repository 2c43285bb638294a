"""What verification needs to see of a ledger, wherever it is kept."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from falaj.base.clock import Moment
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.trees import Node


class Stored(Protocol):
    """A leaf as found; `columns` are what the table repeats of it, None where there are none."""

    @property
    def record(self) -> bytes: ...

    @property
    def columns(self) -> tuple[str, int, str, str, str, str] | None: ...


class Source(Protocol):
    """A ledger to verify. Not thread-safe; sees one unchanging state. An export has the leaves' hashes but no inner nodes."""

    has_inner_nodes: bool

    def heads(self) -> Iterator[Head]:
        """By size; may be asked for several times."""
        ...

    def chunk(self, start: int, end: int) -> tuple[Mapping[int, Stored], Mapping[Node, bytes]]:
        """Leaves [start, end) by index, and the stored nodes completed by them. Called once, in ascending order."""
        ...

    def extent(self) -> int:
        """One more than the last index; asked after the chunks."""
        ...

    def unsequenced(self) -> tuple[int, Moment | None]: ...
