"""What others said since the last turn: jobs that came, are to go or wrote a checkpoint, hosts to drain, other queues."""

from typing import Final

from falaj.base.clock import Moment
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.jobs.learning import Durations
from falaj.jobs.recovering import read_drains
from falaj.jobs.store import controllers, jobs, news
from falaj.jobs.store.tables import Found
from falaj.jobs.turns import Superseded

AT_ONCE: Final = 2000  # words in one turn


@value
class Heard:
    """`drains` is None where nothing was said about them."""

    ids: tuple[str, ...] = ()
    jobs: tuple[Found, ...] = ()
    cancelled: tuple[str, ...] = ()
    checkpoints: frozenset[str] = frozenset()
    drains: dict[str, bool] | None = None
    queues: bool = False


def hear(work: UnitOfWork, epoch: int, durations: Durations) -> Heard:
    """Raises `Superseded`, so that one whose time is over does not even do again what it could not do before."""
    if controllers.epoch(work) != epoch:
        raise Superseded
    found = news.first(work, AT_ONCE)
    if not found:
        return Heard()
    by_kind: dict[str, list[str]] = {}
    for _, kind, job in found:
        by_kind.setdefault(kind, []).append(job)
    checkpoints = by_kind.get(news.CHECKPOINT, [])
    rows = jobs.told(work, list(dict.fromkeys(by_kind.get(news.SUBMITTED, []) + checkpoints)))
    durations.read(work, [row.kin for row in rows])
    return Heard(
        ids=tuple(id for id, _, _ in found),
        jobs=tuple(rows),
        cancelled=tuple(by_kind.get(news.CANCELLED, ())),
        checkpoints=frozenset(checkpoints),
        drains=read_drains(work) if news.NODES in by_kind else None,
        queues=news.QUEUES in by_kind,
    )


def last_checkpoint(row: Found) -> Moment | None:
    return None if row.checkpointed is None else Moment(row.checkpointed)
