"""What became of the rows between two versions: counted by a data worker, from one question in SQL."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from falaj.base.errors import Invalid
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.operations import comparing as declared
from falaj.datasets.parts import Openable, Parts, opened
from falaj.datasets.profiling import Profiled, Profiles
from falaj.datasets.rewriting import quoted
from falaj.datasets.sight import Sight
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, schema_of
from falaj.datasets.workers import DataWorkers, WorkerFailed
from falaj.tables import types
from falaj.tables.orders import QueryLimits, TableToRead
from falaj.tables.schemas import Column, Schema

_LIMITS: Final = QueryLimits(seconds=600, rows=1)


@value
class _Side:
    row: Found
    schema: Schema
    parts: Sequence[Openable]
    profile: Profiled
    masked: tuple[str, ...]


class CompareService:
    def __init__(self, database: Database, parts: Parts, workers: DataWorkers, profiles: Profiles, sight: Sight) -> None:
        self._database = database
        self._sight = sight
        self._parts = parts
        self._profiles = profiles
        self._workers = workers

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.COMPARE_VERSIONS, self.compare, _told)]

    def compare(self, context: Context, request: declared.CompareVersions) -> declared.Difference:
        before, after = self._database.read(lambda work: self._sides(dataclasses.replace(context, work=work), request))
        for key in request.keys:
            before.schema.column(key)
            after.schema.column(key)
        shared = [name for name in _comparable(before.schema, after.schema) if name not in after.masked]
        if before.row.digest == after.row.digest:
            return _difference(request, before, after, (0, 0, 0), ())
        rows, changed = self._rows(request, before, after, shared)
        shifts = _shifts(self._profiles.compared(before.profile, after.profile), after.masked)
        return _difference(request, before, after, rows, changed, shifts)

    def _rows(
        self, request: declared.CompareVersions, before: _Side, after: _Side, shared: Sequence[str]
    ) -> tuple[tuple[int, int, int], tuple[declared.ChangedColumn, ...]]:
        """How many were added, removed and changed, and in which columns."""
        with ExitStack() as stack:
            tables = {
                "before": stack.enter_context(opened(before.schema, before.parts)),
                "after": stack.enter_context(opened(after.schema, after.parts)),
            }
            if not request.keys:
                return self._as_wholes(tables, shared), ()
            self._refuse_duplicates(tables, request)
            others = [name for name in shared if name not in request.keys]
            added, removed, changed, *each = self._asked(tables, _by_key(request.keys, others))
        found = tuple(declared.ChangedColumn(name=name, rows=rows) for name, rows in zip(others, each, strict=True) if rows)
        return (added, removed, changed), found

    def _sides(self, context: Context, request: declared.CompareVersions) -> tuple[_Side, _Side]:
        dataset = required_dataset(context, request.dataset)
        rows = [required_version(context, dataset, word, quarantined_too=True) for word in (request.version, request.other)]
        context.facts["versions"] = [row.id for row in rows]
        masked = self._sight.masked(context, dataset)
        self._sight.refuse_keys(context, dataset, request.keys, "telling rows apart")
        first, second = (
            _Side(
                row=row,
                schema=schema_of(row),
                parts=self._parts.openable(context, store.parts_of(context.work, row)),
                profile=self._profiles.opened(context, row),
                masked=masked,
            )
            for row in rows
        )
        return first, second

    def _as_wholes(self, tables: dict[str, TableToRead], shared: Sequence[str]) -> tuple[int, int, int]:
        """Rows that are only in one of them, where they come as often; columns that are only in one do not count."""
        columns = ", ".join(quoted(name) for name in shared) or "1"
        this, that = f"SELECT {columns} FROM after", f"SELECT {columns} FROM before"  # nosec B608 - confined
        sql = f"SELECT (SELECT count(*) FROM ({this} EXCEPT ALL {that})), (SELECT count(*) FROM ({that} EXCEPT ALL {this}))"  # nosec B608
        added, removed = self._asked(tables, sql)
        return added, removed, 0

    def _refuse_duplicates(self, tables: dict[str, TableToRead], request: declared.CompareVersions) -> None:
        columns = ", ".join(quoted(key) for key in request.keys)
        for name, word in (("before", request.version), ("after", request.other)):
            sql = f"SELECT count(*) FROM (SELECT 1 FROM {name} GROUP BY {columns} HAVING count(*) > 1)"  # nosec B608 - confined
            if twice := self._asked({name: tables[name]}, sql)[0]:
                keys = ", ".join(request.keys)
                raise Invalid(
                    f"In version {word} there are {twice} keys that several rows have: rows are not told apart by {keys}."
                )

    def _asked(self, tables: dict[str, TableToRead], sql: str) -> list[int]:
        return [int(number) for number in self._workers.query_rows(tables, sql, limits=_LIMITS).rows[0]]


def _by_key(keys: Sequence[str], others: Sequence[str]) -> str:
    """One row: added, removed, changed, and for every other column in how many rows it changed."""
    chosen = [f"{quoted(name)} AS k{place}" for place, name in enumerate(keys)]
    chosen += [f"{quoted(name)} AS c{place}" for place, name in enumerate(others)]
    here = f"SELECT true AS here, {', '.join(chosen)} FROM"
    same = " AND ".join(f"b.k{place} IS NOT DISTINCT FROM a.k{place}" for place in range(len(keys)))
    apart = [f"b.c{place} IS DISTINCT FROM a.c{place}" for place in range(len(others))]
    counts = ["count(*) FILTER (b.here IS NULL)", "count(*) FILTER (a.here IS NULL)"]
    counts += [f"count(*) FILTER (b.here AND a.here AND ({one}))" for one in (" OR ".join(apart) or "false", *apart)]
    named = ", ".join(f"{count} AS n{place}" for place, count in enumerate(counts))
    return f"SELECT {named} FROM ({here} before) AS b FULL JOIN ({here} after) AS a ON {same}"  # nosec B608 - confined


def _comparable(before: Schema, after: Schema) -> list[str]:
    """Columns of both whose values can be held against each other."""
    later = {column.name: column for column in after.columns}
    return [column.name for column in before.columns if column.name in later and _fit(column, later[column.name])]


def _fit(one: Column, other: Column) -> bool:
    first, second = types.parse(one.type), types.parse(other.type)
    return types.fits(first, into=second) or types.fits(second, into=first)


def _shifts(compared: Sequence[Mapping[str, Any]], masked: Collection[str]) -> tuple[declared.Shift, ...]:
    """What moved, most first. Of what the caller may not see not even that it did: who writes a guess would find it right."""
    try:
        found = [_shift(one) for one in compared if one["name"] not in masked]
    except (KeyError, TypeError, ValueError, IndexError):
        raise WorkerFailed("The data worker said something that cannot be. What it read may be hostile.") from None
    moved = [one for one in found if one.distance or one.nulls[0] != one.nulls[1]]
    return tuple(sorted(moved, key=lambda one: -(one.distance or 0.0)))


def _shift(one: Mapping[str, Any]) -> declared.Shift:
    return declared.Shift(
        name=str(one["name"]),
        distance=None if one.get("distance") is None else float(one["distance"]),
        nulls=(float(one["nulls"][0]), float(one["nulls"][1])),
        distinct=(int(one["distinct"][0]), int(one["distinct"][1])) if "distinct" in one else None,
        mean=(one["mean"][0], one["mean"][1]) if "mean" in one else None,
    )


def _told(_: Context, __: object, found: declared.Difference) -> declared.Difference:
    return found


def _difference(
    request: declared.CompareVersions,
    before: _Side,
    after: _Side,
    rows: tuple[int, int, int],
    changed: tuple[declared.ChangedColumn, ...],
    shifts: tuple[declared.Shift, ...] = (),
) -> declared.Difference:
    earlier = {column.name: column for column in before.schema.columns}
    later = {column.name: column for column in after.schema.columns}
    return declared.Difference(
        dataset=request.dataset,
        before=before.row.number,
        after=after.row.number,
        columns_added=tuple(column for name, column in later.items() if name not in earlier),
        columns_removed=tuple(column for name, column in earlier.items() if name not in later),
        columns_retyped=tuple(
            declared.Retyped(name=name, before=column.type, after=later[name].type)
            for name, column in earlier.items()
            if name in later and later[name].type != column.type
        ),
        rows_before=before.row.rows,
        rows_after=after.row.rows,
        rows_added=rows[0],
        rows_removed=rows[1],
        rows_changed=rows[2],
        changed=changed,
        shifts=shifts,
    )
