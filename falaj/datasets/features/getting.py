"""Reading what is kept of entities for serving, of several views at once. Nobody known has the values of a training set."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from falaj.base.clock import Moment
from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.features import served
from falaj.datasets.features.definitions import Chosen, chosen, columns_of, definition_of, required_served, view_of
from falaj.datasets.features.served import ServedLog, keep
from falaj.datasets.features.serving import Online
from falaj.datasets.features.sources import refuse_hidden
from falaj.datasets.features.values import read, shown
from falaj.datasets.mentions import split
from falaj.datasets.online.views import Asked, Found, OnlineView, read_together
from falaj.datasets.operations import features as declared
from falaj.datasets.sight import Sight
from falaj.datasets.views import required_dataset
from falaj.tables import types
from falaj.tables.schemas import Column, listed
from falaj.tables.types import Type

_COUNTS: Final = ("count", "distinct")


@value
class Served:
    """A view whose rows can be read: which of its values are asked for, as columns and by their places, and what they are where
    nothing is known."""

    chosen: Chosen
    online: OnlineView
    keys: tuple[tuple[str, Type], ...]
    columns: tuple[Column, ...]
    kinds: tuple[Type, ...]
    places: tuple[int, ...]
    nothing: tuple[int | None, ...]


class GetService:
    def __init__(self, database: Database, online: Online, sight: Sight, log: ServedLog) -> None:
        self._sight = sight
        self._database = database
        self._online = online
        self._served_log = log

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.GET_FEATURES, self.get, _told)]

    def get(self, context: Context, request: declared.GetFeatures) -> declared.FeatureValues:
        views = self._database.read(lambda work: self._served(dataclasses.replace(context, work=work), request))
        found = [_found(view, request.entities, context.now) for view in views]
        _refuse_unknown_keys(views, request.entities)
        self._log(context, views, request.entities, found)
        rows = zip(*([_values(view, one) for one in some] for view, some in zip(views, found, strict=True)), strict=True)
        events = zip(*([None if one is None else one.event for one in some] for some in found), strict=True)
        return declared.FeatureValues(
            views=tuple(_shown(view) for view in views),
            rows=tuple(tuple(one for some in row for one in some) for row in rows),
            events=tuple(events),
        )

    def _log(
        self, context: Context, views: Sequence[Served], entities: Sequence[dict[str, Any]], found: Sequence[list[Found | None]]
    ) -> None:
        """Keep some of what is served, of views that ask for it."""
        some = [
            logged(context, view, entities, those) for view, those in zip(views, found, strict=True) if view.chosen.row.logged
        ]
        if any(one.entries for one in some):
            rows = self._database.read(lambda work: self._served_log.rows(dataclasses.replace(context, work=work), some))
            self._database.write(lambda work: keep(work, rows))

    def _served(self, context: Context, request: declared.GetFeatures) -> list[Served]:
        some = chosen(context, request.features, required_served)
        for one in some:
            dataset = required_dataset(context, split(one.dataset)[0])
            refuse_hidden(context, self._sight, dataset, one.view.columns())
            if dataset.id != one.row.dataset:
                raise Conflict(f"The dataset of view {one.reference!r} is another one now: materialise it again.")
        context.facts["views"] = [one.row.id for one in some]
        return [self._one(context, one) for one in some]

    def _one(self, context: Context, one: Chosen) -> Served:
        whole, kept = view_of(one.row.name, definition_of(one.row)), columns_of(one.row.kept)
        online = self._online.view(context, one.row.id, whole, one.row.zone, kept)
        complete = online.freshness().complete
        if complete is None or complete < one.row.of:
            raise Conflict(f"The online store has lost what it had of view {one.reference!r}: materialise it again.")
        keys, features = kept[: len(whole.keys)], kept[len(whole.keys) :]
        places = tuple([column.name for column in features].index(feature.name) for feature in one.view.features)
        columns = tuple(features[place] for place in places)
        return Served(
            chosen=one,
            online=online,
            keys=tuple((key.in_labels, types.parse(column.type)) for key, column in zip(whole.keys, keys, strict=True)),
            columns=columns,
            kinds=tuple(types.parse(column.type) for column in columns),
            places=places,
            nothing=tuple(0 if feature.function in _COUNTS else None for feature in one.view.features),
        )


def logged(context: Context, view: Served, entities: Sequence[dict[str, Any]], found: Sequence[Found | None]) -> served.Served:
    """Those of the entities that are sampled. One without a key is nobody."""
    row, entries = view.chosen.row, []
    for place, (entity, one) in enumerate(zip(entities, found, strict=True)):
        keys = tuple(read(entity[name], kind, name=name) for name, kind in view.keys)
        if None in keys or not served.is_sampled(context.request_id, place, row.logged):
            continue
        values = view.nothing if one is None else tuple(one.values[index] for index in view.places)
        ahead = one is not None and one.of > row.of
        source = row.begun_from if one is not None and row.begun == one.of else ""
        entries.append(served.Entry(keys=keys, values=values, of=one.of if ahead and one else None, source=source))
    return served.Served(
        view=row.id,
        dataset=row.dataset,
        zone=row.zone,
        source=row.source,
        of=Moment(row.of),
        at=context.now,
        keys=tuple(Column(name=name, type=str(kind)) for name, kind in view.keys),
        features=view.columns,
        entries=tuple(entries),
    )


def _found(view: Served, entities: Sequence[dict[str, Any]], now: Moment) -> list[Found | None]:
    """An entity without a key is nobody, as among labels."""
    keys = [[_key(entity, name, kind, number) for name, kind in view.keys] for number, entity in enumerate(entities, 1)]
    asked = [place for place, key in enumerate(keys) if None not in key]
    found: list[Found | None] = [None] * len(keys)
    read_now = read_together([Asked(view.online, [keys[place] for place in asked])], now=now)[0]
    for place, one in zip(asked, read_now, strict=True):
        found[place] = one
    return found


def _key(entity: dict[str, Any], name: str, kind: Type, number: int) -> Any:
    if name not in entity:
        raise Invalid(f"Entity {number} has no {name!r}. It has {listed(tuple(entity))}.")
    return read(entity[name], kind, name=name)


def _values(view: Served, one: Found | None) -> list[Any]:
    if one is None:
        return list(view.nothing)
    return [shown(one.values[place], kind) for place, kind in zip(view.places, view.kinds, strict=True)]


def _refuse_unknown_keys(views: Sequence[Served], entities: Sequence[dict[str, Any]]) -> None:
    known = {name for view in views for name, _ in view.keys}
    for number, entity in enumerate(entities, 1):
        if unknown := tuple(sorted(entity.keys() - known)):
            raise Invalid(
                f"Entity {number} has {listed(unknown)}, by which no view here knows one: {listed(tuple(sorted(known)))}."
            )


def _shown(view: Served) -> declared.ServedView:
    return declared.ServedView(view=view.chosen.reference, moment=Moment(view.chosen.row.of), columns=view.columns)


def _told(_: Context, __: object, found: declared.FeatureValues) -> declared.FeatureValues:
    return found
