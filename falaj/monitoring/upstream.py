"""What changed upstream of a revision, by lineage: versions of the data it is held against, or its model was made from, views
that it looks up, its endpoint's split, revisions beside it; and what of it people may not be told in numbers."""

from typing import Final

from falaj.base.clock import DAY, Moment
from falaj.database.work import UnitOfWork
from falaj.datasets.features import store as view_store
from falaj.datasets.mentions import split
from falaj.datasets.store import classes as class_store
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.views import schema_of
from falaj.monitoring.checking import schema_changes
from falaj.monitoring.choosing import known_to, made_of
from falaj.monitoring.explaining import Happened
from falaj.monitoring.operations.checks import ChangedColumn
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.references import Reference
from falaj.registry.views import people
from falaj.serving.splits import in_words, read_arms
from falaj.serving.store import endpoints as endpoint_store
from falaj.serving.store import lookups as lookup_store
from falaj.serving.store.tables import Found
from falaj.serving.views import read_options

_LOOKED_BACK: Final = DAY  # before something began: its cause may come first
_MOST: Final = 20
_LAST: Final = 2**62


def changed_columns(work: UnitOfWork, project: str, reference: Reference) -> tuple[tuple[ChangedColumn, ...], str]:
    """Of the columns that are watched, those that the newest version of the reference's dataset has not, or as another type."""
    dataset, version = _dataset(work, project, reference)
    if dataset is None or version is None or dataset.current in (None, 0, version.number):
        return (), ""
    newest = version_store.find(work, dataset.id, dataset.current)
    if newest is None or newest.number < version.number:
        return (), ""
    watched = {one.name for one in reference.columns if not one.is_output}
    found = schema_changes(schema_of(version), schema_of(newest))
    return tuple(one for one in found if one.before and one.column in watched), f"{dataset.name}@{newest.number}"


def private_columns(
    work: UnitOfWork, project: str, endpoint: Found, revision: int, reference: Reference, wishes: Wishes
) -> frozenset[str]:
    """By the names that the reference has for them."""
    is_any = class_store.any_in(work, project)  # most projects have none, and lineage need not be asked for every window
    datasets = known_to(work, project, endpoint, revision, reference, wishes) if is_any else []
    kept = [read_options(endpoint.options).masked, *(class_store.classes_of(work, one.id) for one in datasets)]
    return frozenset(one.name for one in reference.columns if any(one.name in some for some in kept))


def happened(
    work: UnitOfWork, project: str, endpoint: Found, reference: Reference, revision: int, since: Moment
) -> tuple[Happened, ...]:
    """Since what was seen began, or shortly before."""
    start, row = since - _LOOKED_BACK, endpoint_store.revisions_of(work, endpoint.id, {revision})[revision]
    dataset, version = _dataset(work, project, reference)
    drawn = [(dataset, version)] if dataset is not None and version is not None else []
    found = [
        *(one for data in drawn or made_of(work, project, row.version_id) for one in _versions(work, *data, start)),
        *_views(work, project, row.id),
        *_changes(work, endpoint, start),
        *_revisions(work, endpoint),
    ]
    last = {one.what: one for one in sorted(found, key=lambda one: one.at)}
    return tuple(one for one in last.values() if one.at >= start)


def _dataset(work: UnitOfWork, project: str, reference: Reference) -> tuple[Found | None, Found | None]:
    """The reference's dataset and the version that it was drawn from; none where it was learnt."""
    name, number = split(reference.source)
    dataset = dataset_store.find(work, project, name) if reference.drawn_by and number.isdigit() else None
    return dataset, None if dataset is None else version_store.find(work, dataset.id, int(number))


def _versions(work: UnitOfWork, dataset: Found, version: Found, start: int) -> list[Happened]:
    """Newer ones; several are told as one."""
    rows = version_store.list_before(work, dataset.id, _LAST, _MOST)
    newer = [
        row for row in rows if row.number > version.number and row.line == version_store.PUBLISHED and row.created >= start
    ]
    if not newer:
        return []
    last, least = max(newer, key=lambda row: row.number), min(row.number for row in newer)
    which = f"version {last.number}" if last.number == least else f"versions {least} to {last.number}"
    return [Happened(at=Moment(last.created), what=f"{dataset.name} got {which}")]


def _views(work: UnitOfWork, project: str, revision: str) -> list[Happened]:
    looked = lookup_store.of_revisions(work, [revision]).get(revision, [])
    kept = lookup_store.kept(work, [row.view for row in looked]) if looked else {}
    found = []
    for row in looked:
        if (filled := kept.get(row.view)) is not None and filled.of is not None:
            found.append(
                Happened(at=Moment(filled.of), what=f"the view {row.name}@{row.version} was filled from {filled.source}")
            )
        newer = [one for one in view_store.living(work, project, row.name) if one.version > row.version]
        found += [Happened(at=Moment(one.created), what=f"the view {row.name} got version {one.version}") for one in newer]
    return found


def _changes(work: UnitOfWork, endpoint: Found, start: int) -> list[Happened]:
    """Of several of a kind by one person the last, which says how it is now."""
    rows = [row for row in endpoint_store.changes_before(work, endpoint.id, None, _MOST) if row.at >= start]
    names = people(work, {row.by for row in rows} - {""})
    last = {(row.kind, row.by): row for row in sorted(rows, key=lambda row: row.at) if row.kind != "deploy"}
    return [
        Happened(
            at=Moment(row.at),
            what=f"a {row.kind} by {names[row.by].name if row.by in names else 'the platform'} gave "
            f"{in_words(read_arms(row.arms))}",
        )
        for row in last.values()
    ]


def _revisions(work: UnitOfWork, endpoint: Found) -> list[Happened]:
    rows = endpoint_store.revisions_before(work, endpoint.id, None, _MOST)
    return [
        Happened(at=Moment(row.created), what=f"revision {row.number} ({row.model_name} v{row.version}) was deployed")
        for row in rows
    ]
