"""SQL that asks the registry's tables whether a version was approved for production."""

from collections.abc import Sequence

from sqlalchemy import select

from falaj.database.work import UnitOfWork
from falaj.registry.store.tables import aliases, moves, versions
from falaj.serving.store.tables import Found


def approved_moves(work: UnitOfWork, model: str, version: int) -> Sequence[Found]:
    """Alias and approval of every move of an alias or stage to a version that somebody approved."""
    found = select(moves.c.alias, moves.c.approval).where(
        moves.c.model == model, moves.c.version == version, moves.c.approval != "", moves.c.kind != "remove"
    )
    return work.execute(found).all()


def names_held(work: UnitOfWork, model: str, version: int) -> set[str]:
    """The aliases that point at a version, and its stage."""
    pointing = select(aliases.c.alias).where(aliases.c.model == model, aliases.c.version == version)
    stage = select(versions.c.stage).where(versions.c.model == model, versions.c.number == version)
    return {*work.execute(pointing).scalars(), *work.execute(stage).scalars()}
