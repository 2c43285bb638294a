"""Feature views online: what a materialisation writes to and what a prediction reads from."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import inf
from typing import Any, Final, NamedTuple

from falaj.base.clock import Moment
from falaj.base.errors import Invalid
from falaj.base.failpoints import failpoint
from falaj.base.ids import ProjectId
from falaj.base.values import value
from falaj.datasets.online.rows import EntityKey, Field, Schema
from falaj.datasets.online.sealing import Secrets, ViewKeys, ViewSecrets
from falaj.datasets.online.stores import MOST_BYTES, MOST_ROWS, Freshness, OnlineStore, Rank, Stored

Entity = Sequence[Any]  # the values of a view's entity columns, in their order
_NOTHING: Final = b""  # what is sealed for an entity that has no values any more


@value
class ViewShape:
    """What the store has to know of a view. Its `name` may say a version, where two of them are to be read side by side.
    `time_to_live` are microseconds."""

    project: ProjectId
    name: str
    entity: tuple[Field, ...]
    features: tuple[Field, ...]
    time_to_live: int | None = None


class Given(NamedTuple):
    """What a materialisation says of an entity: its values, or that it has none any more. `event` and `known` are those of the
    newest row they come from; without an event they never are too old."""

    entity: Entity
    values: Sequence[Any] | None
    event: int | None = None
    known: int | None = None


class Found(NamedTuple):
    """What is known of an entity: its values, the times of the newest row they come from, and of which moment they are."""

    values: tuple[Any, ...]
    event: Moment | None
    known: Moment | None
    of: Moment


class OnlineView:
    """A view's rows in a store. Thread-safe; keys are derived when it is made, so keep it while the view is in use."""

    def __init__(self, store: OnlineStore, secrets: Secrets | ViewSecrets, shape: ViewShape) -> None:
        if shape.time_to_live is not None and shape.time_to_live <= 0:
            raise Invalid(f"View {shape.name!r} has a time to live of {shape.time_to_live} µs: it must be longer than nothing.")
        self.shape = shape
        self.store = store
        self._entity = EntityKey(shape.entity)
        self._schema = Schema(shape.features)
        self._keys = ViewKeys(secrets, project=shape.project, view=shape.name)

    def write(self, rows: Iterable[Given], *, of: Moment, newer_only: bool = False) -> int:
        """Write what the materialisation of a moment found, in batches, each whole or not at all; how many rows were newer than
        those in the store. Call `complete` behind the last. What broke off is written again from its start. With `newer_only`
        a row stays whose event and knowledge are later than those of the given one."""
        given = self._newer(rows) if newer_only else rows
        written = 0
        for batch in _batches(self._sealed(row, of) for row in given):
            written += self.store.write(self._keys.view, batch)
            failpoint("features.batch-written")
        return written

    def _newer(self, rows: Iterable[Given]) -> Iterator[Given]:
        coming = iter(rows)
        while some := list(islice(coming, MOST_ROWS // 10)):
            places = [self.place(row.entity) for row in some]
            for row, place, stored in zip(some, places, self.store.read(places), strict=True):
                before = Rank(0) if stored is None else self._keys.open(place, stored)[0]
                if _times(row.event, row.known) >= _times(before.event, before.known):
                    yield row

    def complete(self, of: Moment) -> None:
        """All rows of the materialisation are written: the view is as fresh as its moment."""
        self.store.complete(self._keys.view, of)

    def get(self, entity: Entity, *, now: Moment) -> Found | None:
        """None where nothing is known: no row, one that says so, or one that is too old by now."""
        place = self.place(entity)
        stored = self.store.read((place,))[0]
        return None if stored is None else self.opened(place, stored, now=now)

    def drop(self, *, before: Moment | None = None) -> int:
        """Remove what was written by materialisations of earlier moments, or all of the view."""
        return self.store.drop(self._keys.view, before=before)

    def verify(self) -> int:
        """Open every row; how many there are. Raises `Corrupt` for the first that was changed, or where some are gone: a row
        whose place was damaged is not found by `get`; this tells of it."""
        count = 0
        for place, row in self.store.rows(self._keys.view):
            self._keys.open(place, row)
            count += 1
        return count

    def freshness(self) -> Freshness:
        return self.store.freshness(self._keys.view)

    def place(self, entity: Entity) -> bytes:
        return self._keys.place(self._entity.pack(entity))

    def opened(self, place: bytes, stored: bytes, *, now: Moment) -> Found | None:
        (of, event, known), packed = self._keys.open(place, stored)
        lives = self.shape.time_to_live
        if packed == _NOTHING or (lives is not None and event is not None and event <= now - lives):
            return None
        values = self._schema.unpack(packed)
        return Found(values, None if event is None else Moment(event), None if known is None else Moment(known), Moment(of))

    def _sealed(self, row: Given, of: Moment) -> Stored:
        place = self.place(row.entity)
        packed = _NOTHING if row.values is None else self._schema.pack(row.values)
        return Stored(place, self._keys.seal(place, Rank(of, row.event, row.known), packed))


class Asked(NamedTuple):
    view: OnlineView
    entities: Sequence[Entity]


def read_together(asked: Sequence[Asked], *, now: Moment) -> list[list[Found | None]]:
    """What several views of one store say of their entities, in one call of it: for each view, in the order of its entities."""
    places = [[view.place(entity) for entity in entities] for view, entities in asked]
    if not places:
        return []
    stored = iter(asked[0].view.store.read([place for some in places for place in some]))
    return [
        [
            None if row is None else view.opened(place, row, now=now)
            for place, row in zip(some, islice(stored, len(some)), strict=True)
        ]
        for (view, _), some in zip(asked, places, strict=True)
    ]


def _times(event: int | None, known: int | None) -> tuple[float, float]:
    """What has no time is before all others."""
    return -inf if event is None else event, -inf if known is None else known


def _batches(rows: Iterable[Stored]) -> Iterator[list[Stored]]:
    batch: list[Stored] = []
    size = 0
    for stored in rows:
        batch.append(stored)
        size += len(stored.row)
        if len(batch) == MOST_ROWS // 2 or size > MOST_BYTES // 4:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
