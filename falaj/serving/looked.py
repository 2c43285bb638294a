"""What planes report of features that they looked up: kept for audits with what was served otherwise, as much as a view says.

What a plane says is not believed: what is no key or value of the view's types is left out.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from falaj.base.clock import MINUTE, Moment
from falaj.base.errors import FalajError
from falaj.base.values import value
from falaj.database.work import Context, UnitOfWork
from falaj.datasets.features import store as view_store
from falaj.datasets.features.definitions import columns_of, definition_of
from falaj.datasets.features.served import Entry, Served, ServedLog, is_sampled, keep
from falaj.datasets.online.rows import Field, Schema
from falaj.datasets.store import kept_features
from falaj.governance.gate import project_facts
from falaj.governance.projects.store import project_by_id
from falaj.serving.operations.planes import CallReport
from falaj.serving.store.tables import Found
from falaj.storage.service import BlobService
from falaj.tables import types
from falaj.tables.joining.told import hearing
from falaj.tables.schemas import Column

_NONSENSE: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, struct.error, ArithmeticError, RecursionError)
_MOST_ROWS: Final = 1000
_AHEAD: Final = MINUTE  # by so much clocks of hosts may differ


@value
class _Kept:
    """A view that is looked up, and the place its rows are in."""

    row: Found
    place: Found
    keys: tuple[Column, ...]
    features: Mapping[str, Column]


class LookedLog:
    """Thread-safe."""

    def __init__(self, blobs: BlobService) -> None:
        self._log = ServedLog(blobs)

    def sealed(self, context: Context, calls: Sequence[CallReport], endpoints: Mapping[str, Found]) -> list[dict[str, Any]]:
        """In a transaction, for `keep` in another one."""
        rows: list[dict[str, Any]] = []
        for call in calls:
            endpoint = endpoints.get(call.endpoint)
            project = None if endpoint is None or not call.looked else project_by_id(context.work, endpoint.project)
            if endpoint is None or project is None or project.archived:
                continue
            within = replace(context, project=project_facts(project), facts={})
            try:
                rows += self._log.rows(within, _served(within, call))
            except FalajError:  # of a project that takes no bytes any more: the rest of the report counts all the same
                continue
        return rows

    def keep(self, work: UnitOfWork, rows: Sequence[dict[str, Any]]) -> None:
        keep(work, rows)


def _served(context: Context, call: CallReport) -> Iterator[Served]:
    try:
        told = json.loads(call.looked)
        at, views = Moment(_moment(told["at"])), [(str(one["view"]), one) for one in told["views"]]
    except _NONSENSE:
        return
    if at > context.now + _AHEAD:
        return
    for reference, one in views:
        kept = _kept(context, reference)
        if kept is not None and kept.row.logged:
            try:
                yield _heard(kept, call, at, one)
            except (*_NONSENSE, FalajError):
                continue


def _moment(told: Any) -> int:
    if type(told) is not int or not 0 <= told < 1 << 62:
        raise ValueError("no moment")
    return told


def _kept(context: Context, reference: str) -> _Kept | None:
    name, _, version = reference.partition("@")
    number = int(version) if version.isdecimal() and len(version) < 10 else 0
    row = view_store.find(context.work, context.required_project.id, name, number)
    place = None if row is None else kept_features.newest_of(context.work, [row.id]).get(row.id)
    if row is None or place is None:
        return None
    keys = definition_of(row).keys
    columns = columns_of(place.columns)
    named = tuple(replace(column, name=key.in_labels) for key, column in zip(keys, columns, strict=False))
    return _Kept(row=row, place=place, keys=named, features={column.name: column for column in columns[len(keys) :]})


def _heard(kept: _Kept, call: CallReport, at: Moment, told: Mapping[str, Any]) -> Served:
    """Of the moment and version that its place says, where no round ended since; otherwise of the moment of each row."""
    features = tuple(kept.features[name] for name in told["features"])
    columns = (*kept.keys, *features)
    changes = [hearing(types.parse(column.type)) for column in columns]
    packing = Schema(tuple(Field(name=column.name, type=column.type) for column in columns))
    place, entries = kept.place, []
    drawn_by = f"{call.id} {int(call.at)}"  # the id may be the caller's own, who is not to choose by it what is kept
    for number, (of, *row) in enumerate(told["rows"][:_MOST_ROWS]):
        heard = tuple(one if change is None else change(one) for one, change in zip(row, changes, strict=True))
        packing.pack(heard)  # which raises where one is not of its type
        if None in heard[: len(kept.keys)] or not is_sampled(drawn_by, number, kept.row.logged):
            continue
        own = None if of is None or _moment(of) <= place.of <= at else _moment(of)
        entries.append(Entry(keys=heard[: len(kept.keys)], values=heard[len(kept.keys) :], of=own))
    return Served(
        view=kept.row.id,
        dataset=place.dataset,
        zone=place.zone,
        source=place.source if place.of <= at else "",
        of=Moment(min(place.of, at)),
        at=at,
        keys=kept.keys,
        features=features,
        entries=tuple(entries),
    )
