"""SQL of variants, their files and their certificates."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import and_, delete, func, insert, literal, or_, select, tuple_, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.optimisation.store.tables import Found, certificates, files, optimisations, variants

CERTIFIED: Final = "certified"
_SEEN: Final = (
    select(
        variants,
        optimisations.c.model_name,
        optimisations.c.version,
        optimisations.c.request,
        certificates.c.fit,
        certificates.c.digest.label("certificate"),
    )
    .join(optimisations, optimisations.c.id == variants.c.optimisation)
    .outerjoin(certificates, certificates.c.variant == variants.c.id)
)

_ORDER: Final = (variants.c.optimisation.desc(), variants.c.place, variants.c.id)  # newest searches first


def add(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        work.execute(insert(variants), list(rows))


def find(work: UnitOfWork, optimisation: str, name: str, *, hold: bool = False) -> Found | None:
    wanted = select(variants).where(variants.c.optimisation == optimisation, variants.c.name == name)
    return work.execute(wanted.with_for_update() if hold else wanted).first()


def named(work: UnitOfWork, version_id: str, name: str) -> Sequence[Found]:
    """Those of a version that have this name, newest first; or the one that has it for an id."""
    wanted = _SEEN.where(variants.c.version_id == version_id, or_(variants.c.name == name, variants.c.id == name))
    return work.execute(wanted.order_by(variants.c.id.desc())).all()


def of_optimisations(work: UnitOfWork, ids: Sequence[str]) -> Sequence[Found]:
    return work.execute(_SEEN.where(variants.c.optimisation.in_(ids)).order_by(*_ORDER)).all()


def of_version(work: UnitOfWork, version_id: str) -> Sequence[Found]:
    return work.execute(_SEEN.where(variants.c.version_id == version_id).order_by(*_ORDER)).all()


def page(
    work: UnitOfWork, project: str, model: str, version_id: str, after: tuple[Any, ...] | None, limit: int
) -> Sequence[Found]:
    """Of a model, or of one version where it is named; `after` is the optimisation, the place and the id of the last one
    seen."""
    wanted = _SEEN.where(optimisations.c.project == project, optimisations.c.model == model)
    if version_id:
        wanted = wanted.where(variants.c.version_id == version_id)
    if after is not None:
        optimisation, place, id = after
        behind = tuple_(variants.c.place, variants.c.id) > tuple_(literal(place), literal(id))
        wanted = wanted.where(
            or_(variants.c.optimisation < optimisation, and_(variants.c.optimisation == optimisation, behind))
        )
    return work.execute(wanted.order_by(*_ORDER).limit(limit)).all()


def change(work: UnitOfWork, id: str, **values: Any) -> None:
    work.execute(update(variants).where(variants.c.id == id).values(**values))


def remove(work: UnitOfWork, id: str) -> None:
    """The row stays, because what was tried is part of what is known, and so does its certificate: how many were judged on the
    same rows is part of what the next one says."""
    work.execute(delete(files).where(files.c.variant == id))


# Files


def put_file(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    """In the place of one of the same name."""
    work.execute(delete(files).where(files.c.variant == row["variant"], files.c.name == row["name"]))
    work.execute(insert(files).values(row))


def files_of(work: UnitOfWork, ids: Sequence[str]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for row in work.execute(select(files).where(files.c.variant.in_(ids)).order_by(files.c.variant, files.c.name)):
        found.setdefault(row.variant, []).append(row)
    return found


def drop_files(work: UnitOfWork, id: str, but: Sequence[str] = ()) -> None:
    work.execute(delete(files).where(files.c.variant == id, files.c.name.not_in(but)))


# Certificates


def certify(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(certificates).values(row))


def certificate_of(work: UnitOfWork, variant: str) -> Found | None:
    return work.execute(select(certificates).where(certificates.c.variant == variant)).first()


def judged_on(work: UnitOfWork, version_id: str, held_out: str) -> tuple[int, int]:
    """How many variants of a version were judged on these rows, and how many of them refused."""
    same = select(certificates.c.fit).where(certificates.c.version_id == version_id, certificates.c.held_out == held_out)
    fit = [row.fit for row in work.execute(same)]
    return len(fit), fit.count(False)


def refused_on(work: UnitOfWork, versions: Collection[str]) -> dict[tuple[str, str], int]:
    """How many variants of each of these versions were refused, by version and rows."""
    by = (certificates.c.version_id, certificates.c.held_out)
    refused = select(*by, func.count().label("many")).where(by[0].in_(versions), certificates.c.fit.is_(False)).group_by(*by)
    return {(row.version_id, row.held_out): row.many for row in work.execute(refused)}


def give_up(work: UnitOfWork, optimisation: str, reason: str, now: Moment) -> Sequence[str]:
    """What nobody will make any more, and what was brought of it; their ids."""
    left = (variants.c.optimisation == optimisation, variants.c.state.in_(("planned", "begun")))
    ids = [row.id for row in work.execute(select(variants.c.id).where(*left))]
    work.execute(delete(files).where(files.c.variant.in_(ids)))
    work.execute(update(variants).where(variants.c.id.in_(ids)).values(state="dropped", reason=reason, settled=now))
    return ids
