"""SQL of approvals and the votes in them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import and_, delete, insert, not_, select, update

from falaj.base.clock import Moment
from falaj.database.inserts import insert_or_skip
from falaj.database.work import UnitOfWork
from falaj.governance.identity.store import tokens
from falaj.registry.store.tables import Found, approvals, models, votes

OPEN = "open"


def add(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(insert(approvals).values(row))


def find(work: UnitOfWork, project: str, id: str) -> Found | None:
    named = select(approvals, models.c.name.label("model_name")).join(models, models.c.id == approvals.c.model)
    return work.execute(named.where(approvals.c.id == id, approvals.c.project == project)).first()


def wanted(work: UnitOfWork, model: str, alias: str, kind: str, version: int, now: Moment) -> Found | None:
    """The open request for exactly this move."""
    same = and_(
        approvals.c.model == model,
        approvals.c.alias == alias,
        approvals.c.kind == kind,
        approvals.c.version == version,
        approvals.c.state == OPEN,
        approvals.c.expires > now,
    )
    return work.execute(select(approvals).where(same).order_by(approvals.c.id.desc()).limit(1)).first()


def wanted_of(work: UnitOfWork, model: str, version: int, now: Moment) -> Sequence[Found]:
    """The open requests to point an alias at a version."""
    same = (approvals.c.model == model, approvals.c.version == version, approvals.c.kind == "promote")
    return work.execute(select(approvals).where(*same, approvals.c.state == OPEN, approvals.c.expires > now)).all()


def page(
    work: UnitOfWork,
    project: str,
    *,
    model: str,
    which: Literal["open", "closed", "all"],
    now: Moment,
    before: str,
    limit: int,
) -> Sequence[Found]:
    """Newest first; `model` is a name."""
    found = select(approvals, models.c.name.label("model_name")).join(models, models.c.id == approvals.c.model)
    found = found.where(approvals.c.project == project)
    waiting = and_(approvals.c.state == OPEN, approvals.c.expires > now)
    if which != "all":
        found = found.where(waiting if which == "open" else not_(waiting))
    if model:
        found = found.where(models.c.name == model)
    if before:
        found = found.where(approvals.c.id < before)
    return work.execute(found.order_by(approvals.c.id.desc()).limit(limit)).all()


def close(work: UnitOfWork, id: str, state: str) -> None:
    work.execute(update(approvals).where(approvals.c.id == id, approvals.c.state == OPEN).values(state=state))


def need(work: UnitOfWork, id: str, needed: int, rule: str) -> None:
    work.execute(update(approvals).where(approvals.c.id == id).values(needed=needed, rule=rule))


def void(work: UnitOfWork, model: str, version: int | None = None) -> None:
    """What was asked for a version that is no more, or for any of a model that is none any more."""
    of_version = () if version is None else (approvals.c.version == version,)
    asked = update(approvals).where(approvals.c.model == model, approvals.c.state == OPEN, *of_version)
    work.execute(asked.values(state="void"))


# Votes


def add_vote(work: UnitOfWork, row: Mapping[str, Any]) -> bool:
    """False where this principal voted already."""
    return insert_or_skip(work, votes, row)


def replace_vote(work: UnitOfWork, row: Mapping[str, Any]) -> None:
    work.execute(delete(votes).where(votes.c.approval == row["approval"], votes.c.principal == row["principal"]))
    work.execute(insert(votes).values(row))


def votes_in(work: UnitOfWork, ids: Collection[str]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for row in work.execute(select(votes).where(votes.c.approval.in_(sorted(set(ids)))).order_by(votes.c.at)):
        found.setdefault(row.approval, []).append(row)
    return found


# Who stands behind a call


def makers_of(work: UnitOfWork, token: str) -> set[str]:
    """The principals of a token and of all that it was made with: whoever made a token may use it."""
    line = select(tokens.c.id, tokens.c.parent, tokens.c.principal).where(tokens.c.id == token).cte("line", recursive=True)
    line = line.union(select(tokens.c.id, tokens.c.parent, tokens.c.principal).join(line, tokens.c.id == line.c.parent))
    return set(work.execute(select(line.c.principal)).scalars())
