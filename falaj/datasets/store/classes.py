"""SQL of the classes of columns."""

from collections.abc import Collection, Mapping

from sqlalchemy import delete, insert, select

from falaj.database.work import UnitOfWork
from falaj.datasets.store.tables import classes, datasets


def classes_of(work: UnitOfWork, dataset: str) -> dict[str, str]:
    """By column."""
    found = select(classes.c.name, classes.c.kind).where(classes.c.dataset == dataset).order_by(classes.c.name)
    return {row.name: row.kind for row in work.execute(found)}


def any_in(work: UnitOfWork, project: str) -> bool:
    """Whether some dataset of the project has such columns."""
    found = select(classes.c.name).join(datasets, datasets.c.id == classes.c.dataset).where(datasets.c.project == project)
    return work.execute(found.limit(1)).first() is not None


def change(work: UnitOfWork, dataset: str, kinds: Mapping[str, str], gone: Collection[str] = ()) -> None:
    """Of a dataset that is held."""
    for name in {*kinds, *gone}:
        work.execute(delete(classes).where(classes.c.dataset == dataset, classes.c.name == name))
    if kinds:
        work.execute(insert(classes), [{"dataset": dataset, "name": name, "kind": kind} for name, kind in kinds.items()])
