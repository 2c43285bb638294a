"""SQL of what revisions did, in spans of time. Added to by reports, read by whoever looks at traffic or judges a canary."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import and_, bindparam, delete, func, select
from sqlalchemy.dialects import postgresql, sqlite

from falaj.base.clock import Moment
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.serving.store.tables import Found, windows

FINE: Final = 10  # seconds
COARSE: Final = 60


def of_pinned(span: int) -> int:
    """The span under which those calls lie whose caller chose the revision: apart, so that nobody who judges a revision by what
    it did in a span comes upon them."""
    return -span


_KEY: Final = [column.name for column in windows.primary_key]
_COUNTED: Final = [column.name for column in windows.columns if column.name not in _KEY]


def _put(engine: Any) -> Any:
    statement = engine.insert(windows)
    return statement.on_conflict_do_update(index_elements=_KEY, set_={name: statement.excluded[name] for name in _COUNTED})


_PUT: Final = Prepared({"sqlite": _put(sqlite), "postgresql": _put(postgresql)})
_OF_PLANE: Final = select(windows).where(
    windows.c.plane == bindparam("plane"),
    windows.c.endpoint.in_(bindparam("endpoints", expanding=True)),
    windows.c.span == bindparam("span"),
    windows.c.at == bindparam("at"),
)


def of_plane(work: UnitOfWork, plane: str, endpoints: Collection[str], span: int, at: int) -> dict[tuple[str, int], Found]:
    """One span of a plane's windows, by endpoint and revision."""
    found: dict[tuple[str, int], Found] = {}
    wanted = sorted(set(endpoints))
    for start in range(0, len(wanted), 500):
        given = {"plane": plane, "endpoints": wanted[start : start + 500], "span": span, "at": at}
        found |= {(row.endpoint, row.revision): row for row in work.execute(_OF_PLANE, given)}
    return found


def put(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    """Keep these windows as they are now. All columns are given."""
    if rows:
        _PUT.run_many(work, rows)


def since(work: UnitOfWork, endpoint: str, span: int, since: int, revisions: Collection[int] | None = None) -> Sequence[Found]:
    """In order of time."""
    mine = select(windows).where(windows.c.endpoint == endpoint, windows.c.span == span, windows.c.at >= since)
    if revisions is not None:
        mine = mine.where(windows.c.revision.in_(sorted(set(revisions))))
    return work.execute(mine.order_by(windows.c.at, windows.c.revision)).all()


def unlogged_since(work: UnitOfWork, endpoint: str, since: int) -> int:
    """Calls that were to be logged and were not."""
    mine = (windows.c.endpoint == endpoint, windows.c.span.in_((COARSE, of_pinned(COARSE))), windows.c.at >= since)
    return int(work.execute(select(func.coalesce(func.sum(windows.c.unlogged), 0)).where(*mine)).scalar_one())


def forget_before(work: UnitOfWork, span: int, moment: Moment, limit: int) -> int:
    """So many of the oldest at most; how many."""
    old = select(*windows.primary_key).where(windows.c.span == span, windows.c.at < moment).order_by(windows.c.at).limit(limit)
    keys = [row._mapping for row in work.execute(old)]
    if keys:
        same = and_(*(windows.c[name] == bindparam(f"its_{name}") for name in _KEY))
        work.execute(delete(windows).where(same), [{f"its_{name}": key[name] for name in _KEY} for key in keys])
    return len(keys)
