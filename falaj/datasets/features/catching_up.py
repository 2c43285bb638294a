"""How much a round of materialising has to read, decided from what the one before had: everything, or what came since.

Rows that were there stay where they were only as long as a version begins with the parts of the one before: appending does
that, and merging where nothing is replaced. Whatever rewrites a part, restores or compacts makes a round read everything.
"""

from collections.abc import Sequence
from enum import StrEnum

from falaj.base.values import value
from falaj.database.work import Context
from falaj.datasets.features.sources import ViewSource
from falaj.datasets.store import versions as version_store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import schema_of
from falaj.tables.joining.views import View


class Reads(StrEnum):
    EVERYTHING = "everything"
    CHANGED = "changed"  # all rows, and of them only entities whose values may be others now
    APPENDED = "appended"  # the parts that came since, whose rows are held against the newest that are kept
    NOTHING = "nothing"  # there is no new part, and no row became known or left a window meanwhile


@value
class Round:
    """`base` is the place that is brought up to date, of which so many parts were read."""

    reads: Reads
    base: Found | None = None
    parts: int = 0


def planned(context: Context, source: ViewSource, places: Sequence[Found], of: int) -> Round:
    """`places` are those of the view, the newest that can be read first."""
    before = places[0] if places else None
    parts = None if before is None else _read_before(context, source, before)
    if before is None or parts is None or before.of > of:
        return Round(reads=Reads.EVERYTHING)
    quiet = before.changes is None or of < before.changes
    if quiet and parts == len(source.of.parts):
        return Round(reads=Reads.NOTHING, base=before, parts=parts)
    if quiet and parts and only_newest(source.chosen.view) and _in_order(source, parts):
        return Round(reads=Reads.APPENDED, base=before, parts=parts)
    return Round(reads=Reads.CHANGED, base=before, parts=parts)


def only_newest(view: View) -> bool:
    """Whether all values are those of one row: the newest of all times."""
    return view.time_to_live is None and all(one.function == "last" and one.period is None for one in view.features)


def _read_before(context: Context, source: ViewSource, before: Found) -> int | None:
    """How many parts were read before, where those are the first of what is read now; None where something else was, or
    somebody who began to write did not come to an end."""
    name, _, number = before.source.partition("@")
    if before.of is None or before.writer or before.dataset != source.of.dataset.id or name != source.of.dataset.name:
        return None
    version = version_store.find(context.work, before.dataset, int(number)) if number.isdecimal() else None
    if version is None or version.pruned is not None:  # which parts it had cannot be told for certain any more
        return None
    then = [(part.id, part.renamed) for part in version_store.parts_of(context.work, version)]
    now = [(part.row.id, part.row.renamed) for part in source.of.parts]
    kinds = {column.name: column.type for column in schema_of(version).columns}
    types = {column.name: column.type for column in source.of.schema.columns}
    same = all(kinds.get(name) == types.get(name) for name in source.chosen.view.columns())
    return len(then) if same and now[: len(then)] == then else None


def _in_order(source: ViewSource, parts: int) -> bool:
    """Whether a row of a new part is newer than an old one of the same event: by a column that says it, or by their parts."""
    known = [part.row.known for part in source.of.parts]
    return bool(source.chosen.view.known) or min(known[parts:]) >= max(known[:parts])
