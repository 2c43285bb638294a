"""What a batch makes of personal or sensitive columns stays so: the kept ones, and what the model says by those that it takes.

Said when it is planned, before a row is there, and again once the names of all columns are known. Written down as well is what
came from what: a column that is classified later takes these with it.
"""

from collections.abc import Mapping, Sequence

from falaj.database.work import Context
from falaj.datasets.carrying import SENSITIVE, remember
from falaj.datasets.store import classes as store


def carry_classes(
    context: Context, *, into: str, source: str, kept: Sequence[str], taken: Sequence[str], predicted: Sequence[str]
) -> None:
    """In a transaction; `into` and `source` are ids of datasets. `taken` is empty for a model without a signature: then it may
    take any column."""
    made = [(name, source, name) for name in kept]
    remember(context, into, [*made, *((name, source, column) for name in predicted for column in taken or ("",))])
    classes = store.classes_of(context.work, source)
    kinds = {classes[name] for name in taken if name in classes} if taken else set(classes.values())
    wanted = {name: classes[name] for name in kept if name in classes}
    if kinds:
        wanted |= dict.fromkeys(predicted, SENSITIVE if SENSITIVE in kinds else kinds.pop())
    _strengthen(context, into, wanted)


def _strengthen(context: Context, into: str, wanted: Mapping[str, str]) -> None:
    """What was sensitive stays so."""
    before = store.classes_of(context.work, into)
    store.change(context.work, into, {name: kind for name, kind in wanted.items() if before.get(name) not in (kind, SENSITIVE)})
