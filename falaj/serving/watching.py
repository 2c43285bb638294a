"""What serving asks of the room above that watches revisions: what to watch, and somebody who takes in what was seen."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from falaj.database.work import Context, UnitOfWork
from falaj.serving.operations.planes import WatchReport
from falaj.serving.states import Watch
from falaj.serving.store.tables import Found


class Plans(Protocol):
    """Says what is watched. Thread-safe. Whoever has it say something else bumps the zone's state; else planes hear of it when
    the state is next looked over, which takes a minute."""

    def of_zone(self, work: UnitOfWork, zone: str) -> Mapping[str, Watch]:
        """By the id of the revision."""
        ...


class Watchers(Protocol):
    """Takes in what planes saw, each part of it once. Thread-safe.

    It is given only what is said of revisions that are there, of endpoints in the plane's own zone; but a plane may lie: what
    it says of them may be anything."""

    def seal(self, context: Context, watched: Sequence[WatchReport], endpoints: Mapping[str, Found]) -> object:
        """Outside any transaction; `endpoints` are by their id. What it gives is kept, or counts for nothing. It does not raise
        for what cannot be kept: that must not keep the rest of a report from counting."""
        ...

    def keep(self, context: Context, sealed: object) -> None:
        """Inside the transaction in which the report counts."""
        ...
