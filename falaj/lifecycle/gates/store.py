"""Tables and SQL of gates that run, and of what is known of packages."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Boolean, Column, Index, Row, String, Table, Text, delete, func, insert, select, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork, metadata
from falaj.jobs.store.tables import jobs

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy
RUNNING: Final = "running"
PASSED: Final = "passed"
FAILED: Final = "failed"
VOID: Final = "void"  # what it was about is gone
ADVISORY: Final = "advisory"
LICENCE: Final = "licence"

# `definition` and `digest` are the gate's as it was then. `batch` is shared by what was asked for at once. `pinned` is JSON:
# files, versions of data, how it is to be run. `held` says that its files are kept for it.
runs: Final = Table(
    "lifecycle_gate_runs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("batch", String(32), nullable=False),
    Column("version", String(32), nullable=False),
    Column("gate", String(100), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("definition", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("against_alias", String(255), nullable=False),
    Column("against", BigInteger, nullable=False),
    Column("pinned", Text, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("state", String(10), nullable=False),
    Column("words", Text, nullable=False),
    Column("evidence", String(32), nullable=False),
    Column("job", String(32), nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("created_by", String(32), nullable=False),
    Column("ended", BigInteger),
    Index("lifecycle_gate_runs_of_version", "version", "gate", "id"),
    Index("lifecycle_gate_runs_of_batch", "project", "batch"),
    Index("lifecycle_gate_runs_by_state", "state", "job"),
)
# What an operator told of packages: advisories, and which licences they have. `told` is JSON.
packages: Final = Table(
    "lifecycle_packages",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("kind", String(10), primary_key=True),
    Column("package", String(200), primary_key=True),
    Column("told", Text, nullable=False),
)
# When that was told, and the digest of the file it came from.
package_lists: Final = Table(
    "lifecycle_package_lists",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("kind", String(10), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("by", String(32), nullable=False),
)


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(runs).values(row))


def find(work: UnitOfWork, project: str, id: str, *, hold: bool = False) -> Found | None:
    mine = select(runs).where(runs.c.project == project, runs.c.id == id)
    return work.execute(mine.with_for_update() if hold else mine).first()


def of_batch(work: UnitOfWork, project: str, batch: str) -> Sequence[Found]:
    """In the order they were asked for."""
    mine = select(runs).where(runs.c.project == project, runs.c.batch == batch)
    return work.execute(mine.order_by(runs.c.gate)).all()


def last_of_version(work: UnitOfWork, version: str) -> Sequence[Found]:
    """The newest of each gate."""
    last = select(func.max(runs.c.id).label("id")).where(runs.c.version == version).group_by(runs.c.gate).subquery()
    return work.execute(select(runs).join(last, last.c.id == runs.c.id).order_by(runs.c.gate)).all()


def count_running(work: UnitOfWork, project: str) -> int:
    mine = select(func.count()).select_from(runs).where(runs.c.project == project, runs.c.state == RUNNING)
    return int(work.execute(mine).scalar_one())


def over(work: UnitOfWork, but: Collection[str], limit: int) -> Sequence[Found]:
    """Those whose job is over and which nobody settled, oldest first."""
    ended = select(runs).join(jobs, jobs.c.id == runs.c.job).where(runs.c.state == RUNNING, jobs.c.ended.is_not(None))
    return work.execute(ended.where(runs.c.id.not_in(but)).order_by(runs.c.id).limit(limit)).all()


def end(work: UnitOfWork, id: str, *, state: str, words: str, evidence: str, now: Moment) -> None:
    work.execute(
        update(runs)
        .where(runs.c.id == id, runs.c.state == RUNNING)
        .values(state=state, words=words, evidence=evidence, ended=now, held=False)
    )


# Packages


def know(work: UnitOfWork, project: str, kind: str, told: Mapping[str, str], row: Mapping[str, Any]) -> None:
    """Instead of what was told of them before."""
    work.execute(delete(packages).where(packages.c.project == project, packages.c.kind == kind))
    work.execute(delete(package_lists).where(package_lists.c.project == project, package_lists.c.kind == kind))
    if told:
        rows = [{"project": project, "kind": kind, "package": name, "told": one} for name, one in sorted(told.items())]
        work.execute(insert(packages), rows)
    work.execute(insert(package_lists).values({"project": project, "kind": kind, **row}))


def known_list(work: UnitOfWork, project: str, kind: str) -> Found | None:
    mine = select(package_lists).where(package_lists.c.project == project, package_lists.c.kind == kind)
    return work.execute(mine).first()


def told_of(work: UnitOfWork, project: str, kind: str, names: Collection[str]) -> dict[str, str]:
    mine = select(packages.c.package, packages.c.told).where(packages.c.project == project, packages.c.kind == kind)
    return {row.package: row.told for row in work.execute(mine.where(packages.c.package.in_(sorted(names))))}
