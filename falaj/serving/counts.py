"""What a revision did, as numbers that can be added up: over planes, over spans of time."""

from collections.abc import Iterable
from typing import Any, Final

from falaj.base.values import value
from falaj.serving.latencies import BUCKETS, quantile

FIELDS: Final = ("requests", "errors", "shed", "rows", "batches", "compared", "differed", "unlogged")
_MOST: Final = 2**62  # no report, however wrong, can make a number that a database does not take


@value
class Counts:
    """`latencies` counts calls by bucket, see `latencies.py`; empty where there were none."""

    requests: int = 0
    errors: int = 0
    shed: int = 0
    rows: int = 0
    batches: int = 0
    compared: int = 0
    differed: int = 0
    unlogged: int = 0
    latencies: tuple[int, ...] = ()

    def columns(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIELDS} | {"latencies": _written(self.latencies)}

    def milliseconds(self, share: float) -> float:
        """Within which this share of the calls was answered."""
        return quantile(self.latencies, share) * 1000


def counts_of(row: Any) -> Counts:
    """Of a row that has the columns; of a report, whose latencies are a tuple."""
    latencies = row.latencies if isinstance(row.latencies, tuple) else _read(row.latencies)
    return Counts(**{name: getattr(row, name) for name in FIELDS}, latencies=_whole(latencies))


def capped(*several: int) -> int:
    """Their sum, as far as it is believed."""
    return min(sum(several), _MOST)


def total(several: Iterable[Counts]) -> Counts:
    found = list(several)
    if len(found) == 1:
        return found[0]
    sums = {name: capped(*(getattr(one, name) for one in found)) for name in FIELDS}
    full = [one.latencies for one in found if one.latencies]
    latencies = tuple(capped(*counts) for counts in zip(*full, strict=True)) if full else ()
    return Counts(**sums, latencies=latencies)


def _whole(latencies: tuple[int, ...]) -> tuple[int, ...]:
    """Every bucket; what a plane counts in buckets that are not known here is counted in the last."""
    if not latencies or len(latencies) == BUCKETS:
        return latencies
    return (*latencies[: BUCKETS - 1], *[0] * (BUCKETS - 1 - len(latencies)), sum(latencies[BUCKETS - 1 :]))


def _written(latencies: tuple[int, ...]) -> str:
    """Only the buckets that have something: `31:5,32:17`."""
    return ",".join(f"{bucket}:{count}" for bucket, count in enumerate(latencies) if count)


def _read(text: str) -> tuple[int, ...]:
    if not text:
        return ()
    latencies = [0] * BUCKETS
    for part in text.split(","):
        bucket, _, count = part.partition(":")
        latencies[int(bucket)] = int(count)
    return tuple(latencies)
