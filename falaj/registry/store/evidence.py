"""SQL of gates as they are defined, of which are required where, and of the evidence they left, which is only ever added to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import and_, delete, func, insert, select

from falaj.database.work import UnitOfWork
from falaj.registry.store.tables import Found, evidence, gates, required_gates

EVERY_MODEL = ""


# Definitions


def gates_of(work: UnitOfWork, project: str) -> dict[str, Found]:
    """By name, in order."""
    mine = select(gates).where(gates.c.project == project).order_by(gates.c.name)
    return {row.name: row for row in work.execute(mine)}


def define(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    forget(work, row["project"], row["name"])
    work.execute(insert(gates).values(row))


def forget(work: UnitOfWork, project: str, name: str) -> None:
    work.execute(delete(gates).where(gates.c.project == project, gates.c.name == name))


# Requirements


def requirements_of(work: UnitOfWork, project: str) -> Sequence[Found]:
    mine = select(required_gates).where(required_gates.c.project == project)
    return work.execute(mine.order_by(required_gates.c.model, required_gates.c.alias, required_gates.c.gate)).all()


def required(work: UnitOfWork, project: str, model: str, alias: str) -> frozenset[str]:
    """The gates that a version of this model has to have passed for this alias."""
    named = required_gates.c.model.in_([model, EVERY_MODEL])
    mine = (required_gates.c.project == project, named, required_gates.c.alias == alias.lower())
    return frozenset(work.execute(select(required_gates.c.gate).where(*mine)).scalars())


def require(work: UnitOfWork, project: str, model: str, alias: str, names: Iterable[str]) -> None:
    """Instead of those that were required there."""
    place = {"project": project, "model": model, "alias": alias.lower()}
    there = and_(*(required_gates.c[name] == wanted for name, wanted in place.items()))
    work.execute(delete(required_gates).where(there))
    if rows := [{**place, "gate": name} for name in sorted(set(names))]:
        work.execute(insert(required_gates), rows)


def require_nothing(work: UnitOfWork, project: str) -> None:
    work.execute(delete(required_gates).where(required_gates.c.project == project))


# Evidence


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(evidence).values(row))


def newest(work: UnitOfWork, version: str) -> Sequence[Found]:
    """Of each gate the last under each definition it ever had, oldest first; without documents."""
    last = select(func.max(evidence.c.id).label("id")).where(evidence.c.version == version)
    last_ones = last.group_by(evidence.c.gate, evidence.c.definition).subquery()
    told = [column for column in evidence.c if column.name != "document"]
    return work.execute(select(*told).join(last_ones, last_ones.c.id == evidence.c.id).order_by(evidence.c.id)).all()


def page(work: UnitOfWork, version: str, gate: str, before: str, limit: int) -> Sequence[Found]:
    """Newest first; of every gate where none is named."""
    mine = select(evidence).where(evidence.c.version == version)
    if gate:
        mine = mine.where(evidence.c.gate == gate)
    if before:
        mine = mine.where(evidence.c.id < before)
    return work.execute(mine.order_by(evidence.c.id.desc()).limit(limit)).all()
