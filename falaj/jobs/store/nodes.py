"""SQL of the hosts that jobs run on."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from falaj.base.clock import Moment
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.jobs.store import news
from falaj.jobs.store.tables import Found, nodes


def _upsert(module: Any) -> Any:
    """Whether it drains is for people to say, not for its engine."""
    row = module.insert(nodes)
    told = {name: row.excluded[name] for name in ("engine", "zone", "facts", "cards", "seen", "lost")}
    return row.on_conflict_do_update(index_elements=[nodes.c.name], set_=told)


_PUT: Final = Prepared({"sqlite": _upsert(sqlite), "postgresql": _upsert(postgresql)})
_LOSE: Final = Prepared(update(nodes).where(nodes.c.name == bindparam("node")).values(lost=bindparam("lost")))


def every(work: UnitOfWork) -> Sequence[Found]:
    return work.execute(select(nodes).order_by(nodes.c.name)).all()


def find(work: UnitOfWork, name: str) -> Found | None:
    return work.execute(select(nodes).where(nodes.c.name == name)).first()


def put(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    """As their engines say now: `name`, `engine`, `zone`, `facts`, `seen`, and `cards` where they say what those do."""
    _PUT.run_many(work, [{"cards": "", "draining": False, "stopping": False, "lost": None, **row} for row in rows])


def lose(work: UnitOfWork, names: Sequence[str], now: Moment) -> None:
    _LOSE.run_many(work, [{"node": name, "lost": int(now)} for name in names])


def drain(work: UnitOfWork, name: str, *, draining: bool, stopping: bool, now: Moment) -> bool:
    """Let nothing new start there, or let it again; `stopping` also asks what runs there to give back. False where there is
    no such node. The controller hears of it."""
    changed = update(nodes).where(nodes.c.name == name).values(draining=draining, stopping=draining and stopping)
    if work.execute(changed).rowcount == 0:
        return False
    news.say(work, news.NODES, now)
    return True


def remove(work: UnitOfWork, name: str, now: Moment) -> None:
    """One that was given back for good, and with it whether it drains."""
    if work.execute(delete(nodes).where(nodes.c.name == name)).rowcount:
        news.say(work, news.NODES, now)
