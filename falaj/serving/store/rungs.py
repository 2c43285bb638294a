"""SQL of the ladders of revisions: which variants may stand in for them, and their files."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Select, insert, select

from falaj.database.work import UnitOfWork
from falaj.serving.store.tables import Found, endpoints, revisions, rung_files, rungs


def add(work: UnitOfWork, row: Mapping[str, Any], files: Iterable[Mapping[str, Any]]) -> None:
    work.execute(insert(rungs).values(row))
    key = {"revision": row["revision"], "place": row["place"]}
    work.execute(insert(rung_files), [{**file, **key, "position": position} for position, file in enumerate(files)])


def of_revisions(work: UnitOfWork, ids: Collection[str]) -> dict[str, list[Found]]:
    """By revision, in order."""
    if not ids:
        return {}
    mine = select(rungs).where(rungs.c.revision.in_(sorted(set(ids))))
    return _by_revision(work.execute(mine.order_by(rungs.c.place)).all())


def files_of(work: UnitOfWork, revision: str) -> dict[int, list[Found]]:
    """By place."""
    mine = select(rung_files).where(rung_files.c.revision == revision)
    return _by_place(work.execute(mine.order_by(rung_files.c.place, rung_files.c.position)).all())


def in_zone(work: UnitOfWork, zone: str) -> dict[str, list[tuple[Found, list[Found]]]]:
    """Of the revisions that a zone's state names, by revision and in order, each with its files."""
    ladders = _by_revision(work.execute(_used(select(rungs), rungs, zone).order_by(rungs.c.place)).all())
    if not ladders:
        return {}
    ordered = _used(select(rung_files), rung_files, zone).order_by(rung_files.c.place, rung_files.c.position)
    files = {id: _by_place(rows) for id, rows in _by_revision(work.execute(ordered).all()).items()}
    return {id: [(rung, files[id][rung.place]) for rung in ladder] for id, ladder in ladders.items()}


def _used(columns: Select[Any], table: Any, zone: str) -> Select[Any]:
    joined = columns.join(revisions, revisions.c.id == table.c.revision).join(endpoints, endpoints.c.id == revisions.c.endpoint)
    return joined.where(revisions.c.used, endpoints.c.zone == zone, endpoints.c.deleted.is_(None))


def _by_revision(rows: Sequence[Found]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for row in rows:
        found.setdefault(row.revision, []).append(row)
    return found


def _by_place(rows: Sequence[Found]) -> dict[int, list[Found]]:
    found: dict[int, list[Found]] = {}
    for row in rows:
        found.setdefault(row.place, []).append(row)
    return found
