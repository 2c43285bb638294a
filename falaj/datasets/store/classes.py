"""SQL of the classes of columns."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import delete, insert, select

from falaj.database.inserts import insert_all_or_skip
from falaj.database.work import UnitOfWork
from falaj.datasets.store.tables import Found, classes, datasets, made_of


class ByColumn(Mapping[str, str]):
    """Kinds by column, whatever letters are small: `Email` is what `email` is. It goes over the names as they were given."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self._kinds = dict(kinds)
        self._folded = {name.casefold(): kind for name, kind in sorted(self._kinds.items(), key=lambda one: one[1])}

    def __getitem__(self, name: str) -> str:
        return self._folded[name.casefold()]

    def __contains__(self, name: Any) -> bool:
        return isinstance(name, str) and name.casefold() in self._folded

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


def classes_of(work: UnitOfWork, dataset: str) -> ByColumn:
    found = select(classes.c.name, classes.c.kind).where(classes.c.dataset == dataset).order_by(classes.c.name)
    return ByColumn({row.name: row.kind for row in work.execute(found)})


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


# What columns of derived datasets were made of


def add_made_of(work: UnitOfWork, dataset: str, columns: Collection[tuple[str, str, str]]) -> None:
    """Each is a column of the dataset, a dataset that it came from, and the column there; an empty name stands for all."""
    rows = [
        {"dataset": dataset, "name": name, "source": source, "source_name": column}
        for name, source, column in sorted(set(columns))
    ]
    if rows:
        insert_all_or_skip(work, made_of, rows)


def made_from(work: UnitOfWork, source: str) -> Sequence[Found]:
    return work.execute(select(made_of).where(made_of.c.source == source)).all()
