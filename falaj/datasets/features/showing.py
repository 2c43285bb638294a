"""Feature views as messages tell them, with how fresh the values are that are served."""

from collections.abc import Sequence
from typing import Final

from falaj.base.clock import Moment
from falaj.database.work import Context
from falaj.datasets.features.definitions import Definition, columns_of, definition_of
from falaj.datasets.mentions import split
from falaj.datasets.operations.features import FeatureView, Freshness, ViewFunction
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import derivations as derivation_store
from falaj.datasets.store import kept_features as kept
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import derivation_of

MILLION: Final = 1_000_000


def views_shown(context: Context, rows: Sequence[Found]) -> tuple[FeatureView, ...]:
    newest = kept.newest_of(context.work, [row.id for row in rows])
    return tuple(_shown(row, _freshness(context, row, newest[row.id]) if row.id in newest else None) for row in rows)


def _freshness(context: Context, row: Found, place: Found) -> Freshness:
    """A view of one version of a dataset never is behind it; one that is derived is behind what its rows are made of."""
    definition = definition_of(row)
    name, word = split(definition.dataset)
    dataset = dataset_store.find(context.work, context.required_project.id, name)
    read, _, number = place.source.partition("@")
    current, since, count = place.source, None, 0
    if dataset is not None and not word.isdecimal():
        current = f"{name}@{dataset.current}"
        before = int(number) if number.isdecimal() and read == name and dataset.id == place.dataset else 0
        count, since = version_store.published_after(context.work, dataset.id, before)
        if definition.derived and before:
            count, since = _behind_inputs(context, definition, dataset, before)
    return Freshness(
        moment=Moment(place.of),
        source=place.source,
        entities=place.rows,
        newest_event=None if place.newest is None else Moment(place.newest),
        current=current,
        behind=count,
        behind_since=None if since is None else Moment(since),
    )


def _behind_inputs(context: Context, definition: Definition, dataset: Found, number: int) -> tuple[int, int | None]:
    """How many versions were published of what the rows of a version are made of, where that is not one for ever."""
    version = version_store.find(context.work, dataset.id, number)
    made = None if version is None else derivation_store.of_versions(context.work, [version.id]).get(version.id)
    count, first = 0, list[int]()
    for one in () if made is None else derivation_of(made).inputs:
        source = dataset_store.find(context.work, context.required_project.id, one.dataset)
        if source is None or one.reference in definition.inputs or f'"{one.reference}"' in definition.sql:
            continue
        many, since = version_store.published_after(context.work, source.id, one.version)
        count, first = count + many, [*first, *([] if since is None else [since])]
    return count, min(first, default=None)


def function_of(definition: Definition) -> ViewFunction | None:
    if not definition.source:
        return None
    return ViewFunction(source=definition.source, function=definition.function, lock=definition.lock)


def _shown(row: Found, fresh: Freshness | None) -> FeatureView:
    definition = definition_of(row)
    return FeatureView(
        id=row.id,
        view=row.name,
        version=row.version,
        dataset=definition.dataset,
        sql=definition.sql,
        python=function_of(definition),
        inputs=definition.inputs,
        keys=definition.keys,
        event=definition.event,
        known=definition.known,
        features=definition.features,
        time_to_live=definition.time_to_live,
        description=row.description,
        columns=columns_of(row.columns),
        materialised=None if fresh is None else fresh.moment,
        freshness=fresh,
        log=row.logged / MILLION,
        created=Moment(row.created),
        created_by=row.created_by,
    )
