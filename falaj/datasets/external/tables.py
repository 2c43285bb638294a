"""Every kind of table that can be registered: the files that a state of it consists of."""

from falaj.base.errors import Invalid
from falaj.datasets.external import delta, iceberg, listing
from falaj.datasets.external.pins import Registered, Snapshot
from falaj.datasets.external.places import OpenPlace
from falaj.datasets.workers import DataWorkers


class Tables:
    """Thread-safe. Opens no transaction."""

    def __init__(self, workers: DataWorkers) -> None:
        self._workers = workers

    def snapshot(self, place: OpenPlace, registered: Registered, at: str) -> Snapshot:
        """As it is now, or as it was `at` a version or snapshot of its own."""
        match registered.kind:
            case "postgres" | "parquet" if at:
                raise Invalid(f"A table of the kind {registered.kind} has no versions of its own: leave `at` out.")
            case "postgres":
                return listing.of_postgres(registered)
            case "parquet":
                return listing.of_folder(place, registered)
            case "delta":
                return delta.of_delta(self._workers, place, registered, at)
            case "iceberg":
                return iceberg.of_iceberg(self._workers, place, registered, at)
