"""Committing a write: what takes long before the transaction, what makes the version within it, together with the ledger."""

import dataclasses
from collections.abc import Sequence

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context, Database
from falaj.datasets.intents import Intent, intent_of, next_columns
from falaj.datasets.operations import writing as declared
from falaj.datasets.operations.versions import Version
from falaj.datasets.parts import Parts
from falaj.datasets.publishing import Draft, Placed, publish
from falaj.datasets.rewriting import Rewriter, Rewritten, Stage
from falaj.datasets.store import versions as version_store
from falaj.datasets.store import writes as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, required_write, schema_of, versions_shown
from falaj.datasets.writing import came_between
from falaj.tables.schemas import Schema


@value
class Prepared:
    """What a merge or a deletion makes of version `of`."""

    of: int
    rewritten: Rewritten


class CommitService:
    def __init__(self, database: Database, parts: Parts, rewriter: Rewriter) -> None:
        self._database = database
        self._parts = parts
        self._rewriter = rewriter

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.COMMIT_WRITE, self.prepare, self.commit)]

    def prepare(self, context: Context, request: declared.CommitWrite) -> Prepared | None:
        found = self._database.read(lambda work: self._staged(dataclasses.replace(context, work=work), request))
        if found is None:
            return None
        number, intent, stage = found
        if intent.where:
            return Prepared(of=number, rewritten=self._rewriter.deleted(stage, intent.where))
        return Prepared(of=number, rewritten=self._rewriter.merged(stage, intent.keys))

    def commit(self, context: Context, request: declared.CommitWrite, prepared: Prepared | None) -> Version:
        dataset = required_dataset(context, request.dataset, hold=True)
        write = required_write(context, dataset, request.write, hold=True)
        if write.state == store.COMMITTED:
            made = required_version(context, dataset, str(write.version))
            return versions_shown(context.work, dataset, [made])[0]
        if write.state != store.OPEN:
            raise Conflict("This write was given up; open another.")
        intent = intent_of(write)
        if intent.held and dataset.current != write.parent:
            raise Conflict(came_between(dataset, write.parent))
        pieces = _complete(store.pieces_of(context.work, write.id), request.pieces, write.mode)
        draft = self._draft(context, dataset, write, intent, pieces, prepared)
        version = publish(context, dataset, draft)
        store.forget_pieces(context.work, write.id)
        store.change(context.work, write.id, state=store.COMMITTED, version=version.version, changed=context.now)
        context.facts["write"] = write.id
        return version

    def _staged(self, context: Context, request: declared.CommitWrite) -> tuple[int, Intent, Stage] | None:
        """What has to be rewritten, where anything has; whatever is wrong is refused before the work is done."""
        dataset = required_dataset(context, request.dataset)
        write = required_write(context, dataset, request.write)
        if write.state != store.OPEN or write.mode not in ("merge", "delete"):
            return None
        intent = intent_of(write)
        if dataset.current != write.parent:
            raise Conflict(came_between(dataset, write.parent))
        pieces = _complete(store.pieces_of(context.work, write.id), request.pieces, write.mode)
        current = _current(context, dataset)
        for key in intent.keys:
            _columns(intent).column(key)
        stage = Stage(
            project=context.required_project,
            zone=dataset.zone,
            current=schema_of(current) if current else _columns(intent),
            parts=self._parts.openable(context, version_store.parts_of(context.work, current)) if current else (),
            given=intent.columns,
            pieces=self._parts.openable(context, pieces),
        )
        return dataset.current, intent, stage

    def _draft(
        self,
        context: Context,
        dataset: Found,
        write: Found,
        intent: Intent,
        pieces: Sequence[Found],
        prepared: Prepared | None,
    ) -> Draft:
        current = _current(context, dataset)
        before = schema_of(current) if current else None
        added = [Placed(part=piece.id) for piece in pieces]
        removed: Sequence[str] | None = ()
        if write.mode == "overwrite":
            removed = None
        elif write.mode != "append":
            if prepared is None or prepared.of != dataset.current:
                raise Conflict(came_between(dataset, write.parent))
            removed = prepared.rewritten.removed
            known = {part.position: part.known for part in version_store.parts_standing(context.work, dataset.id)}
            for position, new in sorted(prepared.rewritten.added.items()):
                part = self._parts.enter(context, dataset.id, new, known[position])
                added.append(Placed(part=part, position=position))
        schema = next_columns(before, _columns(intent) if pieces or before is None else before, intent, write.mode)
        return Draft(mode=write.mode, schema=schema, removed=removed, added=added, origin=intent.origin)


def _current(context: Context, dataset: Found) -> Found | None:
    return version_store.find(context.work, dataset.id, dataset.current) if dataset.current else None


def _columns(intent: Intent) -> Schema:
    if intent.columns is None:
        raise Invalid("Nothing was sent yet: send at least one piece.")
    return intent.columns


def _complete(pieces: Sequence[Found], expected: int, mode: str) -> Sequence[Found]:
    """All pieces, of which there must be as many as were sent, without a gap."""
    if mode == "delete":
        if expected:
            raise Invalid("A deletion takes no pieces.")
        return ()
    if not expected:
        raise Invalid("A write without a piece makes no version: send at least one.")
    numbers = {piece.number for piece in pieces}
    if beyond := sorted(number for number in numbers if number > expected):
        raise Conflict(f"Piece {beyond[0]} came as well, and only {expected} were announced. Say how many were sent.")
    if missing := sorted(set(range(1, expected + 1)) - numbers)[:5]:
        raise Conflict(f"These pieces have not come: {', '.join(map(str, missing))}. Send them and commit again.")
    return pieces
