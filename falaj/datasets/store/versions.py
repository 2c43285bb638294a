"""SQL of versions, of parts, and of which part belongs to which versions."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import and_, delete, func, insert, select, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.datasets.store.tables import Found, copies, datasets, parts, pieces, pushes, spans, versions

STANDING: Final = 2**62  # the end of a span that has none yet
PUBLISHED: Final = 0  # the line of what was published
_AT_ONCE: Final = 500


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(versions).values(row))


def find(work: UnitOfWork, dataset: str, number: int) -> Found | None:
    return work.execute(select(versions).where(versions.c.dataset == dataset, versions.c.number == number)).first()


def with_digest(work: UnitOfWork, project: str, dataset: str, digest: str) -> Found | None:
    """The first version of a dataset of this name whose digest begins so, with when the dataset was `deleted`, if it was: one
    that is there comes before one that is not."""
    named = select(versions, datasets.c.deleted).join(datasets, datasets.c.id == versions.c.dataset)
    mine = (
        versions.c.project == project,
        versions.c.digest >= digest,
        versions.c.digest <= f"{digest}g",
        datasets.c.name == dataset,
    )
    return work.execute(named.where(*mine).order_by(datasets.c.deleted.is_not(None), versions.c.number).limit(1)).first()


def list_before(work: UnitOfWork, dataset: str, before: int, limit: int) -> Sequence[Found]:
    """Newest first."""
    found = select(versions).where(versions.c.dataset == dataset, versions.c.number < before)
    return work.execute(found.order_by(versions.c.number.desc()).limit(limit)).all()


def newest_quarantined(work: UnitOfWork, dataset: str) -> int:
    """0 where none waits."""
    waits = (versions.c.dataset == dataset, versions.c.line != PUBLISHED, versions.c.pruned.is_(None))
    return int(work.execute(select(func.max(versions.c.number)).where(*waits)).scalar() or 0)


def current_of(work: UnitOfWork, ids: Collection[str]) -> dict[str, Found]:
    """The current version of each dataset that has one, by the dataset's id."""
    joined = select(versions).join(datasets, datasets.c.id == versions.c.dataset)
    found = joined.where(datasets.c.id.in_(ids), versions.c.number == datasets.c.current)
    return {row.dataset: row for row in work.execute(found)}


def living(work: UnitOfWork, dataset: str) -> Sequence[Found]:
    """Those that were published and can be read, newest first."""
    published = (versions.c.dataset == dataset, versions.c.line == PUBLISHED)
    mine = select(versions).where(*published, versions.c.pruned.is_(None))
    return work.execute(mine.order_by(versions.c.number.desc())).all()


def published_after(work: UnitOfWork, dataset: str, number: int) -> tuple[int, int | None]:
    """How many were published since the one with this number, and when the first of them was."""
    later = (versions.c.dataset == dataset, versions.c.line == PUBLISHED, versions.c.number > number)
    found = work.execute(select(func.count().label("many"), func.min(versions.c.created).label("first")).where(*later)).one()
    return int(found.many), found.first


def current_at(work: UnitOfWork, dataset: str, at: int) -> int:
    """The number of the one that was published last by a moment; 0: none was."""
    earlier = (versions.c.dataset == dataset, versions.c.line == PUBLISHED, versions.c.created <= at)
    return int(work.execute(select(func.max(versions.c.number)).where(*earlier)).scalar() or 0)


def schemas_of(work: UnitOfWork, dataset: str) -> Sequence[Found]:
    """Each once, of whatever can be read, what waits in quarantine too; newest first."""
    mine = (versions.c.dataset == dataset, versions.c.pruned.is_(None))
    newest = func.max(versions.c.number)
    return work.execute(select(versions.c.schema).where(*mine).group_by(versions.c.schema).order_by(newest.desc())).all()


def renames_of(work: UnitOfWork, dataset: str) -> Sequence[Found]:
    """What the columns of each part are called wherever it is, of parts whose columns have more names than one."""
    mine = spans.c.dataset == dataset
    renamed = select(spans.c.part).where(mine, spans.c.renamed != "")
    return work.execute(select(spans.c.part, spans.c.renamed).where(mine, spans.c.part.in_(renamed)).distinct()).all()


def prune(work: UnitOfWork, dataset: str, numbers: Sequence[int], now: Moment) -> None:
    for start in range(0, len(numbers), _AT_ONCE):
        some = versions.c.number.in_(numbers[start : start + _AT_ONCE])
        work.execute(update(versions).where(versions.c.dataset == dataset, some).values(pruned=now))


def keep_profile(work: UnitOfWork, version: str, blob: str) -> None:
    work.execute(update(versions).where(versions.c.id == version).values(profile=blob))


def lacks_profile(work: UnitOfWork, dataset: str, version: str) -> bool:
    """Whether it can be read, and no profile of it is kept, of a dataset that is held."""
    mine = (versions.c.id == version, versions.c.dataset == dataset)
    found = select(versions.c.id).where(*mine, versions.c.pruned.is_(None), versions.c.profile.is_(None))
    return work.execute(found).first() is not None


def forget_profiles(work: UnitOfWork, dataset: str, *, pruned: bool) -> list[str]:
    """The ids of versions whose profiles were kept, and are no more: of those that were pruned, or all."""
    mine = and_(versions.c.dataset == dataset, versions.c.profile.is_not(None))
    mine = and_(mine, versions.c.pruned.is_not(None)) if pruned else mine
    found = [str(row.id) for row in work.execute(select(versions.c.id).where(mine))]
    if found:
        work.execute(update(versions).where(mine).values(profile=None))
    return found


# Parts


def add_part(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(parts).values(row))


def publish_parts(work: UnitOfWork, ids: Sequence[str], now: Moment) -> None:
    """The rows of those that were in no version yet are known from now on."""
    for start in range(0, len(ids), _AT_ONCE):
        some = parts.c.id.in_(ids[start : start + _AT_ONCE])
        work.execute(update(parts).where(some, parts.c.known.is_(None)).values(known=now))


def set_known(work: UnitOfWork, part: str, known: int | None) -> None:
    """When the rows of a part became known; None: not yet."""
    work.execute(update(parts).where(parts.c.id == part).values(known=known))


def parts_elsewhere(work: UnitOfWork, dataset: str) -> Sequence[Found]:
    """Those of a dataset whose rows are not kept here, the oldest first, whether or not they are in a version yet."""
    return work.execute(
        select(parts).where(parts.c.dataset == dataset, parts.c.elsewhere.is_not(None)).order_by(parts.c.id)
    ).all()


def find_part(work: UnitOfWork, dataset: str, part: str) -> Found | None:
    return work.execute(select(parts).where(parts.c.id == part, parts.c.dataset == dataset)).first()


def parts_of(work: UnitOfWork, version: Found) -> Sequence[Found]:
    """The parts of a version in their order, each with its `position` and what its columns are called there."""
    return parts_at(work, version.dataset, version.line, version.number)


def parts_at(work: UnitOfWork, dataset: str, line: int, number: int) -> Sequence[Found]:
    """The same of one whose row is not there yet."""
    here = and_(spans.c.dataset == dataset, spans.c.line == line, spans.c.since <= number, spans.c.until > number)
    found = select(parts, spans.c.position, spans.c.renamed).join(spans, spans.c.part == parts.c.id)
    return work.execute(found.where(here).order_by(spans.c.position)).all()


def parts_standing(work: UnitOfWork, dataset: str) -> Sequence[Found]:
    """The parts of what is published now, in their order."""
    here = and_(spans.c.dataset == dataset, spans.c.line == PUBLISHED, spans.c.until == STANDING)
    found = select(parts, spans.c.position).join(spans, spans.c.part == parts.c.id)
    return work.execute(found.where(here).order_by(spans.c.position)).all()


def end_spans(work: UnitOfWork, dataset: str, ids: Sequence[str], number: int) -> None:
    """From version `number` on these parts belong to what is published no more."""
    here = and_(spans.c.dataset == dataset, spans.c.line == PUBLISHED, spans.c.until == STANDING)
    for start in range(0, len(ids), _AT_ONCE):
        some = spans.c.part.in_(ids[start : start + _AT_ONCE])
        work.execute(update(spans).where(here, some).values(until=number))


def end_all_spans(work: UnitOfWork, dataset: str, number: int) -> None:
    here = and_(spans.c.dataset == dataset, spans.c.line == PUBLISHED, spans.c.until == STANDING)
    work.execute(update(spans).where(here).values(until=number))


def add_spans(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        work.execute(insert(spans), list(rows))


# Letting go


def parts_of_deleted(work: UnitOfWork, limit: int, dataset: str = "") -> Sequence[Found]:
    """Parts of datasets that were deleted, or of this one."""
    gone = select(parts.c.id, parts.c.project).join(datasets, datasets.c.id == parts.c.dataset)
    gone = gone.where(datasets.c.deleted.is_not(None))
    return work.execute((gone.where(datasets.c.id == dataset) if dataset else gone).limit(limit)).all()


def parts_of_pruned(work: UnitOfWork, limit: int, dataset: str = "") -> Sequence[Found]:
    """Parts that no version has any more that can be read, and no write and no push has yet."""
    had = and_(
        versions.c.dataset == spans.c.dataset,
        versions.c.line == spans.c.line,
        versions.c.number >= spans.c.since,
        versions.c.number < spans.c.until,
        versions.c.pruned.is_(None),
    )
    needed = select(spans.c.part).join(versions, had).where(spans.c.part == parts.c.id).exists()
    written = select(pieces.c.part).where(pieces.c.part == parts.c.id).exists()
    mine = select(versions.c.id).where(versions.c.dataset == parts.c.dataset, versions.c.pruned.is_not(None)).exists()
    pushed = select(pushes.c.id).where(pushes.c.part == parts.c.id).exists()
    gone = select(parts.c.id, parts.c.project).where(mine, ~needed, ~written, ~pushed)
    return work.execute((gone.where(parts.c.dataset == dataset) if dataset else gone).limit(limit)).all()


def drop_parts(work: UnitOfWork, ids: Sequence[str]) -> None:
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        work.execute(delete(spans).where(spans.c.part.in_(some)))
        work.execute(delete(pushes).where(pushes.c.part.in_(some), pushes.c.done.is_(None)))
        work.execute(update(pushes).where(pushes.c.part.in_(some)).values(part=None))
        work.execute(delete(pieces).where(pieces.c.part.in_(some)))
        work.execute(delete(copies).where(copies.c.part.in_(some)))
        work.execute(delete(parts).where(parts.c.id.in_(some)))
