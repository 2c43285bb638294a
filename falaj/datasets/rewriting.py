"""Merging and deleting: the parts of a version that lose rows are made anew without them, the others stay as they are.

Everything is done by data workers, which see these tables and nothing else, outside of any transaction; `committing` makes it
count, if nothing came between.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from falaj.base.caller import ProjectFacts
from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.datasets.parts import NewPart, Openable, Parts, opened
from falaj.datasets.workers import DataWorkers
from falaj.tables.orders import QueryLimits, TableToRead
from falaj.tables.schemas import Schema

_LIMITS: Final = QueryLimits(seconds=600, rows=1)


@value
class Stage:
    """What a merge or a deletion begins with: the current version and the pieces that were sent."""

    project: ProjectFacts
    zone: str
    current: Schema
    parts: Sequence[Openable]
    given: Schema | None = None
    pieces: Sequence[Openable] = ()


@value
class Rewritten:
    """Parts to remove by their ids, and those that take the place of some of them, by the position they are put in."""

    removed: tuple[str, ...]
    added: Mapping[int, NewPart]


class Rewriter:
    def __init__(self, parts: Parts, workers: DataWorkers) -> None:
        self._parts = parts
        self._workers = workers

    def merged(self, stage: Stage, keys: Sequence[str]) -> Rewritten:
        """The parts without the rows whose keys are among those of the pieces. Raises `Invalid` where keys come twice."""
        if stage.given is None:
            raise ValueError("a merge needs pieces")
        with opened(stage.given, stage.pieces) as given:
            self._refuse_duplicates(given, keys)
            same = " AND ".join(f"before.{quoted(key)} IS NOT DISTINCT FROM given.{quoted(key)}" for key in keys)
            gone = f"EXISTS (SELECT 1 FROM given WHERE {same})"  # nosec B608 - confined
            return self._without(stage, gone, {"given": given})

    def deleted(self, stage: Stage, where: str, hidden: Sequence[str] = ()) -> Rewritten:
        """The parts without the rows that the condition is true of. Where columns are hidden from who asks, nothing of what a
        data worker says of rows is told. Raises `Invalid`."""
        self._workers.refuse_unlike_condition(where, hidden)
        try:
            return self._without(stage, f"coalesce((\n{where}\n), false)", {})
        except Invalid:
            if not hidden:
                raise
            raise Invalid(
                "The condition cannot be answered of these rows. Why is not said, because some of their columns are "
                "classified: see whether its columns are there, and whether their types are what it compares them with."
            ) from None

    def joined(self, project: ProjectFacts, zone: str, schema: Schema, parts: Sequence[Openable]) -> NewPart:
        """Parts as one, in their order."""
        stage = Stage(project=project, zone=zone, current=schema, parts=parts)
        with opened(schema, parts) as table:
            return self._rest(stage, {"before": table}, "SELECT * FROM before")

    def _without(self, stage: Stage, gone: str, others: Mapping[str, TableToRead]) -> Rewritten:
        removed, added = [], {}
        for part in stage.parts:
            with opened(stage.current, [part]) as table:
                tables = {"before": table, **others}
                asked = f"SELECT count(*) FROM before WHERE {gone}"  # nosec B608 - confined
                if not (gone_rows := self._workers.query_rows(tables, asked, limits=_LIMITS).rows[0][0]):
                    continue
                removed.append(part.row.id)
                if gone_rows < part.row.rows:
                    rest = f"SELECT before.* FROM before WHERE NOT {gone}"  # nosec B608 - confined
                    added[part.row.position] = self._rest(stage, tables, rest)
        return Rewritten(removed=tuple(removed), added=added)

    def _rest(self, stage: Stage, tables: Mapping[str, TableToRead], sql: str) -> NewPart:
        return self._parts.make_of(stage.project, stage.zone, tables, sql, schema=stage.current)

    def _refuse_duplicates(self, given: TableToRead, keys: Sequence[str]) -> None:
        columns = ", ".join(quoted(key) for key in keys)
        sql = f"SELECT {columns}, count(*) FROM given GROUP BY {columns} HAVING count(*) > 1 LIMIT 1"  # nosec B608 - confined
        if twice := self._workers.query_rows({"given": given}, sql, limits=_LIMITS).rows:
            said = ", ".join(f"{key} {value!r}" for key, value in zip(keys, twice[0], strict=False))
            raise Invalid(f"{twice[0][-1]} of the given rows have the same key ({said}): which of them counts is not known.")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
