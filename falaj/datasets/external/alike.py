"""The same table registered under two names: what is classified of it under one is so under the other, or else whoever may not
see a column would register its table once more."""

from collections.abc import Sequence
from typing import Final

from falaj.base.errors import Forbidden
from falaj.database.work import Context
from falaj.datasets.carrying import remember
from falaj.datasets.deriving.answering import classify
from falaj.datasets.external.pins import Registered, registered_of
from falaj.datasets.operations.classes import PERSONAL
from falaj.datasets.sight import Sight
from falaj.datasets.store import classes as class_store
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store.tables import Found

_DATABASE: Final = "postgres"


def refuse_hidden_table(context: Context, sight: Sight, name: str, registered: Registered) -> None:
    """Raises `Forbidden` where the table, or some of its files, is registered under another name and has columns there that
    the caller may not see. A column may have had another name in the state that he asks for, so it is all of the table."""
    for one in _alike(context, registered):
        if (one.name != name or one.deleted is not None) and (hidden := sight.masked(context, one)):
            raise Forbidden(
                f"This table is the dataset {one.name!r} as well, with columns that you may not see ({', '.join(hidden)}): "
                f"ask for the permission {PERSONAL.name}.",
                rule=PERSONAL.name,
            )


def keep_classes(context: Context, dataset: Found, registered: Registered, columns: Sequence[str]) -> None:
    """Of a dataset that was just pinned with these columns: they have the classes that others have of the same table, now and
    whenever one of them is classified."""
    for one in _alike(context, registered):
        if one.id == dataset.id:
            continue
        kinds = class_store.classes_of(context.work, one.id)
        classify(context, dataset, {name: kinds[name] for name in columns if name in kinds})
        remember(context, dataset.id, [(name, one.id, name) for name in columns])
        if one.deleted is None:
            remember(context, one.id, [(name, dataset.id, name) for name in columns])


def _alike(context: Context, registered: Registered) -> list[Found]:
    """Datasets of the project, also of those that were deleted: their rows are still there."""
    rows = dataset_store.external_in(context.work, context.required_project.id)
    return [row for row in rows if (there := registered_of(row)) is not None and _overlap(there, registered)]


def _overlap(one: Registered, other: Registered) -> bool:
    """Whether they may have rows in common. A table of a database can be named with its schema and without."""
    if one.place != other.place:
        return False
    if _DATABASE in (one.kind, other.kind):
        return one.table.rpartition(".")[2] == other.table.rpartition(".")[2]
    first, second = (f"{table.rstrip('/')}/" for table in (one.table, other.table))
    return first.startswith(second) or second.startswith(first)
