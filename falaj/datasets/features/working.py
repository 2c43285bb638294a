"""What data workers do for feature views, from the outside of their walls. `falaj.tables.joining.orders` is the inside."""

from collections.abc import Sequence
from typing import Any, Final

from falaj.base.values import value
from falaj.datasets.workers import DataWorkers, MadePart
from falaj.datasets.working import answers
from falaj.tables.joining.told import told_view
from falaj.tables.joining.views import View
from falaj.tables.orders import TableToRead
from falaj.tables.schemas import Schema
from falaj.tables.telling import told_key, told_schema, told_table

_SHARE: Final = 0.3  # of a worker's memory, for labels and what is gathered for them; rows that are read come on top
_CHECKED_WITHIN: Final = 60.0
_WITHIN: Final = 3600.0


@value
class ViewToRead:
    """A view with its rows; `known` is for each of their parts when it became known."""

    view: View
    table: TableToRead
    known: tuple[int, ...]


class FeatureWorkers:
    """Thread-safe. Raises what `DataWorkers` raises."""

    def __init__(self, workers: DataWorkers) -> None:
        self._workers = workers

    def check(self, view: View, schema: Schema) -> Schema:
        """The view's keys, as labels call them, and its features with their types. Raises `Invalid` where it cannot be."""
        told = {"order": "check_view", "view": told_view(view), "schema": told_schema(schema)}
        return answers.schema(self._workers.do(told, [], seconds=_CHECKED_WITHIN))

    def training_set(
        self, labels: TableToRead, time: str, views: Sequence[ViewToRead], *, key: bytes, object_id: str
    ) -> MadePart:
        """Sealed as one part under this key."""
        files = [-1]
        told = {
            "order": "make_training_set",
            "labels": told_table(labels, files),
            "time": time,
            "sources": [_told_source(view, files) for view in views],
            "memory_bytes": int(self._workers.memory_bytes * _SHARE),
            "key": told_key(key),
            "object_id": object_id,
        }
        return self._workers.made(lambda into: self._workers.do(told, [into, *files[1:]], seconds=_WITHIN))


def _told_source(view: ViewToRead, files: list[int]) -> dict[str, Any]:
    return {"view": told_view(view.view), "table": told_table(view.table, files), "known": view.known}
