"""Checks that read other datasets: who may not see all of those is not shown what such a check found, and declares none."""

from collections.abc import Sequence
from typing import Final

from falaj.base.errors import Forbidden
from falaj.database.work import Context
from falaj.datasets.checking.rules import others
from falaj.datasets.operations.checks import Check
from falaj.datasets.operations.classes import PERSONAL
from falaj.datasets.sight import Sight
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store.tables import Found

READ_OTHERS: Final = ("sql", "refers")


def unseen(context: Context, sight: Sight, dataset: Found, checks: Sequence[Check]) -> frozenset[str]:
    """The checks of a dataset that read another of which the caller may not see all."""
    kept = _kept(context, sight, dataset, checks)
    return frozenset(check.name for check in checks if not kept.keys().isdisjoint(others(check, dataset.name)))


def refuse_unseen(context: Context, sight: Sight, dataset: Found, checks: Sequence[Check]) -> None:
    """How many rows a check finds says what they hold. A SELECT may speak of columns without their names, so that it reads
    nothing of which the caller may not see all."""
    kept = _kept(context, sight, dataset, checks)
    for check in checks:
        hidden = _among(kept[dataset.name], check.columns) | _among(kept.get(check.dataset, ()), check.references)
        if check.kind == "sql":
            hidden |= {column for name in (*others(check, dataset.name), dataset.name) for column in kept.get(name, ())}
        if hidden:
            raise Forbidden(
                f"Check {check.name!r} reads columns that you may not see ({', '.join(sorted(hidden))}): leave it out, or ask "
                f"for the permission {PERSONAL.name}.",
                rule=PERSONAL.name,
            )


def _among(hidden: Sequence[str], named: Sequence[str]) -> set[str]:
    """In whatever case, because a query finds them so."""
    asked = {name.casefold() for name in named}
    return {name for name in hidden if name.casefold() in asked}


def _kept(context: Context, sight: Sight, dataset: Found, checks: Sequence[Check]) -> dict[str, tuple[str, ...]]:
    """By the dataset's name: its columns that are kept from the caller. The checks' own is always among them."""
    names = sorted({name for check in checks for name in others(check, dataset.name)})
    found = dataset_store.named(context.work, context.required_project.id, names) if names else ()
    hidden = {row.name: sight.masked(context, row) for row in found}
    return {name: columns for name, columns in hidden.items() if columns} | {dataset.name: sight.masked(context, dataset)}
