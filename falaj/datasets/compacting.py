"""Compacting: neighbours among the parts that are small become one. The rows and their order stay."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from falaj.base.errors import Conflict
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.external.pins import refuse_external
from falaj.datasets.operations import tidying as declared
from falaj.datasets.operations.datasets import OneDataset
from falaj.datasets.operations.versions import Version
from falaj.datasets.parts import NewPart, Openable, Parts
from falaj.datasets.publishing import Draft, Placed, publish
from falaj.datasets.rewriting import Rewriter
from falaj.datasets.store import versions as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, schema_of
from falaj.tables.schemas import Schema

SMALL_BYTES: Final = 16 << 20
LARGE_BYTES: Final = 64 << 20
LARGE_ROWS: Final = 4_000_000


@value
class Joined:
    """Parts that became one."""

    before: tuple[Found, ...]
    new: NewPart


class CompactService:
    def __init__(self, database: Database, parts: Parts, rewriter: Rewriter) -> None:
        self._database = database
        self._parts = parts
        self._rewriter = rewriter

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.COMPACT, self.prepare, self.compact)]

    def prepare(self, context: Context, request: OneDataset) -> tuple[Joined, ...]:
        dataset, schema, runs = self._database.read(lambda work: self._runs(dataclasses.replace(context, work=work), request))
        return tuple(
            Joined(
                before=tuple(part.row for part in run),
                new=self._rewriter.joined(context.required_project, dataset.zone, schema, run),
            )
            for run in runs
        )

    def compact(self, context: Context, request: OneDataset, joined: tuple[Joined, ...]) -> Version:
        """What was appended meanwhile stays behind; what was rewritten meanwhile is a conflict."""
        dataset = required_dataset(context, request.dataset, hold=True)
        standing = {part.id: part for part in store.parts_of(context.work, required_version(context, dataset, "current"))}
        removed = [part.id for one in joined for part in one.before]
        renamed = [standing[id].renamed for id in removed if id in standing]
        if len(renamed) < len(removed) or renamed != [part.renamed for one in joined for part in one.before]:
            raise Conflict(f"Dataset {request.dataset!r} was changed while it was compacted; compact it again.")
        added = [Placed(part=self._joined(context, dataset, one), position=one.before[0].position) for one in joined]
        current = required_version(context, dataset, "current")
        draft = Draft(mode="compact", schema=schema_of(current), removed=removed, added=added)
        return publish(context, dataset, draft)

    def _joined(self, context: Context, dataset: Found, one: Joined) -> str:
        """Its rows count as known when the last of them were: never earlier than they were."""
        return self._parts.enter(context, dataset.id, one.new, max(part.known for part in one.before))

    def _runs(self, context: Context, request: OneDataset) -> tuple[Found, Schema, list[list[Openable]]]:
        dataset = required_dataset(context, request.dataset)
        refuse_external(dataset, "compact it")
        current = required_version(context, dataset, "current")
        runs = runs_of_small(store.parts_of(context.work, current))
        if not runs:
            raise Conflict(f"There is nothing to compact in {request.dataset!r}: its parts are large enough.")
        return dataset, schema_of(current), [list(self._parts.openable(context, run)) for run in runs]


def runs_of_small(parts: Sequence[Found]) -> list[list[Found]]:
    """Neighbours that are small, and together not too large; two of them at least."""
    runs: list[list[Found]] = [[]]
    for part in parts:
        run = runs[-1]
        fits = (
            sum(one.size for one in run) + part.size <= LARGE_BYTES and sum(one.rows for one in run) + part.rows <= LARGE_ROWS
        )
        if part.size >= SMALL_BYTES:
            runs.append([])
        elif fits:
            run.append(part)
        else:
            runs.append([part])
    return [run for run in runs if len(run) > 1]
