"""SQL of the rows that say which controller may write: one of the jobs, one of the pools."""

from typing import Final

from sqlalchemy import bindparam, select, update

from falaj.database.inserts import insert_or_skip
from falaj.database.prepared import Prepared
from falaj.database.work import UnitOfWork
from falaj.jobs.store.tables import controllers

JOBS: Final = "jobs"
POOLS: Final = "pools"
_COUNT: Final = Prepared(
    update(controllers)
    .where(controllers.c.name == bindparam("which"), controllers.c.epoch == bindparam("mine"))
    .values(plans=controllers.c.plans + 1)
)


def take_over(work: UnitOfWork, which: str = JOBS) -> int:
    """A new epoch: nobody who began before writes any more."""
    raised = update(controllers).where(controllers.c.name == which).values(epoch=controllers.c.epoch + 1)
    epoch = work.execute(raised.returning(controllers.c.epoch)).scalar()
    if epoch is None:
        if not insert_or_skip(work, controllers, {"name": which, "epoch": 1, "plans": 0}):
            return take_over(work, which)
        return 1
    return int(epoch)


def count(work: UnitOfWork, epoch: int, which: str = JOBS) -> bool:
    """Count a turn of that epoch, and hold the row until the transaction ends; false where another controller took over."""
    return _COUNT.run(work, which=which, mine=epoch) == 1


_PRESENT: Final = Prepared(select(controllers.c.epoch).where(controllers.c.name == bindparam("which")))


def epoch(work: UnitOfWork, which: str = JOBS) -> int:
    """The present one."""
    row = _PRESENT.first(work, which=which)
    return 0 if row is None else int(row[0])
