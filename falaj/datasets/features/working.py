"""What data workers do for feature views, from the outside of their walls. `falaj.tables.joining.orders` is the inside."""

import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final

from falaj.base.values import value
from falaj.datasets.workers import DataWorkers, MadePart, WorkerFailed, in_memory
from falaj.datasets.working import answers
from falaj.tables import types
from falaj.tables.joining.told import hearing, told_view
from falaj.tables.joining.views import View
from falaj.tables.orders import TableToRead
from falaj.tables.schemas import Schema
from falaj.tables.telling import told_key, told_schema, told_table

_SHARE: Final = 0.3  # of a worker's memory, for labels and what is gathered for them; rows that are read come on top
_CHECKED_WITHIN: Final = 60.0
_WITHIN: Final = 3600.0
_MOST_BYTES: Final = 4 << 30  # of what is materialised at a time
_LONGEST_LINE: Final = 4 << 20
_NONSENSE: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, struct.error, ArithmeticError, RecursionError)


@value
class ViewToRead:
    """A view with its rows; `known` is for each of their parts when it became known."""

    view: View
    table: TableToRead
    known: tuple[int, ...]


@value
class Lines:
    """Entities with their values, a line each, in memory, at their start. Whoever asked closes `file`. `schema` has the keys
    and the features. `newest` is the last event that is known, `changes` when values will be others though no row comes."""

    file: IO[bytes]
    schema: Schema
    rows: int
    newest: int | None = None
    changes: int | None = None


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

    def materialised(self, view: ViewToRead, at: int, since: tuple[int, int] | None = None) -> Lines:
        """What is known of every entity at a moment, or of those of which it may be something else than at an earlier moment of
        which so many parts were read. Nothing of it touches a disk."""
        return self._lines("materialise", view, {"at": at, "since": since}, [])

    def replayed(self, view: ViewToRead, keys: Schema, given: IO[bytes]) -> Lines:
        """What is known of given entities: a line of JSON each, with the keys as labels call them, and a moment."""
        return self._lines("replay", view, {"keys": told_schema(keys)}, [given.fileno()])

    def _lines(self, order: str, view: ViewToRead, said: Mapping[str, Any], more: Sequence[int]) -> Lines:
        into = in_memory(_MOST_BYTES)
        try:
            files = [into.fileno(), *more]
            told = {
                "order": order,
                "source": _told_source(view, files),
                "memory_bytes": int(self._workers.memory_bytes * _SHARE),
                **said,
            }
            answer = self._workers.do(told, files, seconds=_WITHIN)
            os.ftruncate(into.fileno(), min(answers.number(answer, "size"), _MOST_BYTES))
            into.seek(0)
            return Lines(
                file=into,
                schema=answers.schema(answer),
                rows=answers.number(answer, "rows"),
                newest=_moment(answer.get("newest")),
                changes=_moment(answer.get("changes")),
            )
        except BaseException:
            into.close()
            raise


def rows_of(lines: Lines) -> Iterator[list[Any]]:
    """Plain values of the schema's columns, and event and knowledge of the newest row behind them. Raises `WorkerFailed` for
    what cannot be."""
    changes = [hearing(types.parse(column.type)) for column in lines.schema.columns]
    count = 0
    while line := lines.file.readline(_LONGEST_LINE):
        count += 1
        try:
            *told, event, known = json.loads(line)
            row = [one if change is None else change(one) for one, change in zip(told, changes, strict=True)]
        except _NONSENSE:
            raise _nonsense() from None
        yield [*row, _moment(event), _moment(known)]
    if count != lines.rows:
        raise _nonsense()


def _moment(told: Any) -> int | None:
    if told is not None and (type(told) is not int or not -(1 << 63) <= told < 1 << 63):
        raise _nonsense()
    return told


def _nonsense() -> WorkerFailed:
    return WorkerFailed("The data worker said something that cannot be. What it read may be hostile.")


def _told_source(view: ViewToRead, files: list[int]) -> dict[str, Any]:
    return {"view": told_view(view.view), "table": told_table(view.table, files), "known": view.known}
