"""SQL of what revisions look up: versions of feature views, with what is kept of them for serving now."""

import json
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import insert, select

from falaj.database.work import UnitOfWork
from falaj.datasets.features.store import views
from falaj.datasets.store import kept_features
from falaj.serving.store.tables import Found, endpoints, lookups, revisions


def add(work: UnitOfWork, revision: str, chosen: Sequence[tuple[str, Sequence[str]]]) -> None:
    """Each is a version of a view, by its id, and the features of it that the model takes."""
    rows = [
        {"revision": revision, "position": position, "view": view, "features": json.dumps(list(features))}
        for position, (view, features) in enumerate(chosen)
    ]
    if rows:
        work.execute(insert(lookups), rows)


def of_revisions(work: UnitOfWork, ids: Collection[str]) -> dict[str, list[Found]]:
    """By revision, each with its view."""
    if not ids:
        return {}
    named = select(lookups, views.c.name, views.c.version, views.c.definition, views.c.deleted)
    named = named.join(views, views.c.id == lookups.c.view)
    return _by_revision(work.execute(named.where(lookups.c.revision.in_(sorted(set(ids)))).order_by(lookups.c.position)).all())


def in_zone(work: UnitOfWork, zone: str) -> dict[str, list[Found]]:
    """Of the revisions that a zone's state names, by revision, each with the whole view."""
    whole = select(lookups, views.c.project, views.c.name, views.c.version, views.c.definition, views.c.deleted)
    joined = whole.join(views, views.c.id == lookups.c.view).join(revisions, revisions.c.id == lookups.c.revision)
    used = joined.join(endpoints, endpoints.c.id == revisions.c.endpoint)
    used = used.where(revisions.c.used, endpoints.c.zone == zone, endpoints.c.deleted.is_(None))
    return _by_revision(work.execute(used.order_by(lookups.c.position)).all())


def kept(work: UnitOfWork, ids: Collection[str]) -> Mapping[str, Found]:
    """What is kept of these views for serving, the newest of each."""
    return kept_features.newest_of(work, sorted(set(ids)))


def users_of(work: UnitOfWork, views: Sequence[str]) -> list[str]:
    """Whoever looks versions of views up, in words."""
    found = select(endpoints.c.name).join(revisions, revisions.c.endpoint == endpoints.c.id)
    found = found.join(lookups, lookups.c.revision == revisions.c.id)
    needing = (lookups.c.view.in_(sorted(set(views))), revisions.c.used, endpoints.c.deleted.is_(None))
    named = work.execute(found.where(*needing).distinct().order_by(endpoints.c.name)).scalars()
    return [f"endpoint {name!r}" for name in named]


def _by_revision(rows: Sequence[Found]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for row in rows:
        found.setdefault(row.revision, []).append(row)
    return found
