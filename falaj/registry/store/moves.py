"""SQL of the moves of aliases and stages: only ever added to."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, insert, select

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.registry.store.tables import Found, moves


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(moves).values(row))


def last_moment(work: UnitOfWork, model: str) -> int:
    last = select(moves.c.at).where(moves.c.model == model).order_by(moves.c.place.desc()).limit(1)
    return int(work.execute(last).scalar() or 0)


def newest_first(work: UnitOfWork, model: str, alias: str, *, before: int | None, limit: int) -> Sequence[Found]:
    """`before` is the place to go on in front of; every alias and stage where `alias` is empty."""
    mine = select(moves).where(moves.c.model == model)
    if alias:
        mine = mine.where(moves.c.alias == alias)
    if before is not None:
        mine = mine.where(moves.c.place < before)
    return work.execute(mine.order_by(moves.c.place.desc()).limit(limit)).all()


def of_alias(work: UnitOfWork, model: str, alias: str) -> Sequence[Found]:
    """What was done with an alias, oldest first: kind, version and approval of each move."""
    columns = select(moves.c.kind, moves.c.version, moves.c.approval)
    return work.execute(columns.where(_alias(model, alias)).order_by(moves.c.place)).all()


def into_stage(work: UnitOfWork, model: str, stage: str) -> dict[int, str]:
    """The versions that ever entered a stage, with the approval that each of them entered it by last."""
    columns = select(moves.c.version, moves.c.approval)
    entered = (moves.c.model == model) & (moves.c.alias == stage) & (moves.c.kind == "stage")
    return {row.version: row.approval for row in work.execute(columns.where(entered).order_by(moves.c.place))}


def last_until(work: UnitOfWork, model: str, alias: str, at: Moment) -> Found | None:
    until = select(moves).where(_alias(model, alias), moves.c.at <= at)
    return work.execute(until.order_by(moves.c.place.desc()).limit(1)).first()


def _alias(model: str, alias: str) -> ColumnElement[bool]:
    """Not a stage that is called the same."""
    return (moves.c.model == model) & (moves.c.alias == alias) & (moves.c.kind != "stage")
