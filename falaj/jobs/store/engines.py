"""SQL of the engines: which ones do not answer, and what those of other control planes report."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from falaj.base.clock import Moment
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.jobs.store.tables import engines


def _upsert(module: Any, *mine: str, **counted: Any) -> Any:
    """Two write a row, each its own part of it."""
    row = module.insert(engines)
    told = {name: row.excluded[name] for name in mine} | counted
    return row.on_conflict_do_update(index_elements=[engines.c.name], set_=told)


_MODULES: Final = {"sqlite": sqlite, "postgresql": postgresql}
_NOTE: Final = Prepared({name: _upsert(module, "silent_since") for name, module in _MODULES.items()})
_REPORT: Final = Prepared({name: _upsert(module, "report", beats=engines.c.beats + 1) for name, module in _MODULES.items()})
_BEATS: Final = Prepared(select(engines.c.name, engines.c.beats).where(engines.c.beats > 0))
_SILENT: Final = Prepared(select(engines.c.name, engines.c.silent_since).where(engines.c.silent_since.is_not(None)))
_ONE: Final = Prepared(select(engines.c.report).where(engines.c.name == bindparam("engine")))


def note(work: UnitOfWork, rows: Sequence[Mapping[str, Any]]) -> None:
    """`name`, and since when it is silent; None where it answers."""
    _NOTE.run_many(work, [{"beats": 0, "report": "", **row} for row in rows])


def silent(work: UnitOfWork) -> dict[str, Moment]:
    """Those that do not answer, and since when."""
    return {name: Moment(since) for name, since in _SILENT.all(work)}


def report(work: UnitOfWork, name: str, text: str) -> None:
    _REPORT.run_many(work, [{"name": name, "silent_since": None, "beats": 1, "report": text}])


def beats(work: UnitOfWork) -> dict[str, int]:
    """How often each of those that report did."""
    return {name: int(count) for name, count in _BEATS.all(work)}


def reported(work: UnitOfWork, name: str) -> str:
    row = _ONE.first(work, engine=name)
    return "" if row is None else str(row[0])
