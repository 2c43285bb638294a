"""SQL of checks, and of what they found."""

from collections.abc import Collection, Sequence
from typing import Final

from sqlalchemy import delete, insert, select, update

from falaj.base.clock import Moment
from falaj.database.work import UnitOfWork
from falaj.datasets.store.tables import Found, checks, findings

_AT_ONCE: Final = 500


def declared(work: UnitOfWork, dataset: str) -> str:
    """JSON; empty where there are none."""
    return str(work.execute(select(checks.c.declared).where(checks.c.dataset == dataset)).scalar() or "")


def declare(work: UnitOfWork, dataset: str, text: str, now: Moment, by: str) -> None:
    """Of a dataset that is held. Without text there are none any more."""
    work.execute(delete(checks).where(checks.c.dataset == dataset))
    if text:
        work.execute(insert(checks).values(dataset=dataset, declared=text, changed=now, changed_by=by))


def add_findings(work: UnitOfWork, *, version: str, dataset: str, found: str, evidence: str) -> None:
    work.execute(insert(findings).values(version=version, dataset=dataset, found=found, evidence=evidence))


def findings_of(work: UnitOfWork, versions: Collection[str]) -> dict[str, Found]:
    """By the version's id."""
    ids, found = sorted(versions), dict[str, Found]()
    for start in range(0, len(ids), _AT_ONCE):
        some = findings.c.version.in_(ids[start : start + _AT_ONCE])
        found |= {row.version: row for row in work.execute(select(findings).where(some))}
    return found


def decide(work: UnitOfWork, version: str, now: Moment) -> None:
    work.execute(update(findings).where(findings.c.version == version).values(decided=now, evidence=""))


def with_evidence(work: UnitOfWork, dataset: str) -> Sequence[Found]:
    return work.execute(select(findings).where(findings.c.dataset == dataset, findings.c.evidence != "")).all()
