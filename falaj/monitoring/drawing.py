"""References from datasets: bins chosen from a sample of the rows, and then every row counted, by a data worker."""

from collections.abc import Mapping, Sequence
from typing import Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.database.work import Context
from falaj.datasets.reading import ReadService
from falaj.monitoring.binning import bins_of, countable, settled, with_bins
from falaj.monitoring.operations.monitors import Wishes
from falaj.monitoring.references import ALWAYS, MOST_KINDS, RANKS, Column, Sample
from falaj.tables import types
from falaj.tables.orders import Surveyed
from falaj.tables.schemas import Schema

MOST_SAMPLED: Final = 1000  # rows
_MOST_VALUES: Final = 100_000  # of all sampled rows together


@value
class Drawn:
    """`version` is the one that was read, with its number."""

    version: str
    columns: tuple[Column, ...]
    sample: Sample


def drawn(reading: ReadService, context: Context, reference: str, names: Sequence[str], wishes: Wishes) -> Drawn:
    """Of these columns, all settled; those of types that nobody counts, and those that the caller may not see, are left out."""
    version, schema = reading.columns(context, reference)
    if wishes.season != "none" and not _has_moments(schema, wishes.time):
        raise Invalid(f"{reference!r} has no column of moments {wishes.time!r}: a season needs `time`, when a row was.")
    wanted = countable(schema, names)
    found = reading.survey(context, version, wanted, ranks=RANKS, kinds=MOST_KINDS, sampled=most_sampled(len(wanted)))
    columns = with_bins(schema, found)
    counted = settled(columns, reading.count(context, version, bins_of(columns), slot=_slot(wishes)))
    return Drawn(version=version, columns=counted, sample=_sample(found))


def most_sampled(columns: int) -> int:
    """Rows, so that those of a wide table take no more room than others."""
    return min(MOST_SAMPLED, _MOST_VALUES // max(1, columns))


def _sample(found: Mapping[str, Surveyed]) -> Sample:
    return Sample(names=tuple(found), rows=tuple(zip(*(one.sampled for one in found.values()), strict=True)))


def _has_moments(schema: Schema, name: str) -> bool:
    return any(one.name == name and types.parse(one.type).word == "moment" for one in schema.columns)


def _slot(wishes: Wishes) -> str:
    """In SQL, as `references.slot_of` has it; nothing where there is no season, whose only slot is `ALWAYS`."""
    if wishes.season == "none":
        return ALWAYS
    timezone, time = wishes.timezone.replace("'", "''"), wishes.time.replace('"', '""')
    local = f"timezone('{timezone}', \"{time}\")"
    return f"strftime({local}, '%H')" if wishes.season == "hour" else f"(isodow({local}) - 1) || '-' || strftime({local}, '%H')"
