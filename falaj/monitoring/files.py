"""The same check of two plain Parquet files, without a platform: in constant memory, in the process that asks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from falaj.monitoring.binning import bins_of, countable, settled, with_bins
from falaj.monitoring.checking import Checked, checked, comparable
from falaj.monitoring.deciding import Rule
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.references import ALWAYS, MOST_KINDS, RANKS, Reference
from falaj.tables.arrow_schemas import from_arrow
from falaj.tables.counting import ParquetRows, counted, surveyed

DEFAULTS: Final = Rule(floor=Wishes().floor, one_in=Wishes().one_in)


def files_checked(reference: Path, now: Path, rule: Rule = DEFAULTS, ignore: Sequence[str] = ()) -> list[Checked]:
    """The furthest first."""
    usual, seen = ParquetRows(reference), ParquetRows(now)
    before, after = from_arrow(usual.schema), from_arrow(seen.schema)
    names = countable(before, [name for name in before.names if name not in ignore])
    shared = comparable(with_bins(before, surveyed(usual, names, ranks=RANKS, kinds=MOST_KINDS)), before, after)
    columns = settled(shared, counted(usual, bins_of(shared)))
    counts = {name: some[ALWAYS] for name, some in counted(seen, bins_of(columns)).items() if some}
    return checked(Reference(key="", source=str(reference), columns=columns), counts, rule)
