"""What is personal or sensitive stays so in what was made of it: also where it was made before somebody said so."""

import json
from collections.abc import Collection, Iterable, Mapping

from falaj.database.work import Context
from falaj.datasets.store import classes as store
from falaj.datasets.store import versions as version_store
from falaj.datasets.views import schema_of

SENSITIVE = "sensitive"


def remember(context: Context, dataset: str, columns: Iterable[tuple[str, str, str]]) -> None:
    """Which columns of a dataset were made of which: its column, the id of the dataset it came from, and the column there. An
    empty name stands for all of them."""
    store.add_made_of(context.work, dataset, [one for one in columns if one[1] != dataset])


def carry(context: Context, dataset: str, kinds: Mapping[str, str]) -> frozenset[str]:
    """Classify whatever was made of columns that were just classified, and what was made of that; the datasets it reached."""
    waiting, reached = [(dataset, {name.casefold(): kind for name, kind in kinds.items()})], set[str]()
    while waiting:
        source, classified = waiting.pop()
        if not classified:
            continue
        for target, made in _made_of(context, source, classified).items():
            before = store.classes_of(context.work, target)
            new = {name: kind for name, kind in made.items() if before.get(name) not in (kind, SENSITIVE)}
            store.change(context.work, target, new)
            if new:
                reached.add(target)
                waiting.append((target, {name.casefold(): kind for name, kind in new.items()}))
    return frozenset(reached)


def _made_of(context: Context, source: str, classified: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """By dataset: its columns that these went into, and the strongest class among them."""
    found: dict[str, dict[str, str]] = {}
    for row in store.made_from(context.work, source):
        name = row.source_name.casefold()
        kinds = set(classified.values()) if not name else {classified[name]} if name in classified else set()
        if not kinds:
            continue
        kind = SENSITIVE if SENSITIVE in kinds else kinds.pop()
        mine = found.setdefault(row.dataset, {})
        for column in names_of(context, row.dataset, row.name) if row.name else _columns(context, row.dataset):
            mine[column] = SENSITIVE if SENSITIVE in (kind, mine.get(column)) else kind
    return found


def _columns(context: Context, dataset: str) -> set[str]:
    return {name for row in version_store.schemas_of(context.work, dataset) for name in schema_of(row).names}


def spelled(context: Context, dataset: str, names: Collection[str]) -> set[str]:
    """These columns as any version that can be read spells them: which letters are small tells no columns apart."""
    folded = {name.casefold() for name in names}
    schemas = version_store.schemas_of(context.work, dataset)
    return {*names, *(name for row in schemas for name in schema_of(row).names if name.casefold() in folded)}


def names_of(context: Context, dataset: str, column: str) -> set[str]:
    """All that the same stored values are called, in whichever version: whoever asks for an earlier one finds them there."""
    called: dict[str, list[dict[str, str]]] = {}
    for row in version_store.renames_of(context.work, dataset):
        called.setdefault(row.part, []).append(json.loads(row.renamed) if row.renamed else {})
    alike = {
        frozenset(one.get(own, own) for one in maps) for maps in called.values() for own in {own for one in maps for own in one}
    }
    found, more = spelled(context, dataset, [column]), True
    while more:
        reached = spelled(context, dataset, found.union(*(names for names in alike if not names.isdisjoint(found))))
        found, more = reached, len(reached) > len(found)
    return found
