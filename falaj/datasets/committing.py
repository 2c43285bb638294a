"""Committing a write: `preparing` does what takes long, and this makes the version, in one transaction with the ledger."""

from collections.abc import Sequence

from falaj.base.errors import Conflict
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context
from falaj.datasets.carrying import SENSITIVE, remember
from falaj.datasets.checking.verdicts import Verdicts
from falaj.datasets.deriving.answering import classify
from falaj.datasets.intents import Intent, intent_of
from falaj.datasets.judging import holding, publish_judged
from falaj.datasets.operations import writing as declared
from falaj.datasets.operations.versions import Version
from falaj.datasets.parts import Parts
from falaj.datasets.preparing import Prepared, Preparer, complete, current_of, next_schema
from falaj.datasets.publishing import Draft, Placed, digest_of, link_inputs
from falaj.datasets.store import classes as class_store
from falaj.datasets.store import datasets as dataset_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store import writes as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, required_write, schema_of, schema_text, versions_shown
from falaj.datasets.writing import came_between
from falaj.tables.schemas import Schema


class CommitService:
    def __init__(self, parts: Parts, preparer: Preparer, verdicts: Verdicts) -> None:
        self._parts = parts
        self._preparer = preparer
        self._verdicts = verdicts

    def bindings(self) -> list[Bound]:
        return [bind_prepared(declared.COMMIT_WRITE, self._preparer.prepare, self.commit)]

    def commit(self, context: Context, request: declared.CommitWrite, prepared: Prepared | None) -> Version:
        dataset = required_dataset(context, request.dataset, hold=True)
        write = required_write(context, dataset, request.write, hold=True)
        if write.state == store.COMMITTED:
            made = required_version(context, dataset, str(write.version), gone_too=True)
            return versions_shown(context.work, dataset, [made])[0]
        if write.state != store.OPEN:
            raise Conflict("This write was given up; open another.")
        intent = intent_of(write)
        if intent.held and dataset.current != write.parent:
            raise Conflict(came_between(dataset, write.parent))
        verdict = holding(context, dataset, prepared.verdict if prepared else None)
        pieces = complete(store.pieces_of(context.work, write.id), request, write.mode)
        draft = self._draft(context, dataset, write, intent, pieces, prepared)
        if intent.unless_same and not (verdict and verdict.broken) and _is_current(context, dataset, draft, pieces):
            return _kept(context, dataset, write, intent)
        version = publish_judged(context, self._verdicts, dataset, draft, verdict)
        store.forget_pieces(context.work, write.id, [piece.number for piece in pieces])
        store.change(context.work, write.id, state=store.COMMITTED, version=version.version, changed=context.now)
        context.facts["write"] = write.id
        return version

    def _draft(
        self,
        context: Context,
        dataset: Found,
        write: Found,
        intent: Intent,
        pieces: Sequence[Found],
        prepared: Prepared | None,
    ) -> Draft:
        current = current_of(context, dataset)
        before = schema_of(current) if current else None
        added = [Placed(part=piece.id) for piece in pieces]
        removed: Sequence[str] | None = ()
        if write.mode == "overwrite":
            removed = None
        elif write.mode != "append":
            if prepared is None or prepared.rewritten is None or prepared.of != dataset.current:
                raise Conflict(came_between(dataset, write.parent))
            removed = prepared.rewritten.removed
            known = {part.position: part.known for part in version_store.parts_standing(context.work, dataset.id)}
            for position, new in sorted(prepared.rewritten.added.items()):
                part = self._parts.enter(context, dataset.id, new, known[position])
                added.append(Placed(part=part, position=position))
        schema = next_schema(before, intent, write.mode, has_pieces=bool(pieces))
        _remember_inputs(context, dataset, intent, schema)
        return Draft(
            mode=write.mode, schema=schema, removed=removed, added=added, origin=intent.origin, derivation=intent.derivation
        )


def _is_current(context: Context, dataset: Found, draft: Draft, pieces: Sequence[Found]) -> bool:
    """Whether what would take the place of the current version is the same, column by column and part by part."""
    current = current_of(context, dataset)
    if current is None or current.pruned is not None:
        return False
    return bool(current.digest == digest_of(schema_text(draft.schema), pieces))


def _kept(context: Context, dataset: Found, write: Found, intent: Intent) -> Version:
    """The current version is what became of the write. What was sent is let go like any piece that a commit does not take."""
    current = required_version(context, dataset, str(dataset.current))
    store.change(context.work, write.id, state=store.COMMITTED, version=current.number, changed=context.now)
    if intent.derivation is not None:
        link_inputs(context, dataset, intent.derivation, current)
    context.facts.update(
        dataset=dataset.id, version=current.id, number=current.number, digest=current.digest, write=write.id, same=True
    )
    return versions_shown(context.work, dataset, [current])[0]


def _remember_inputs(context: Context, dataset: Found, intent: Intent, schema: Schema) -> None:
    """What a function makes of rows may be anywhere in its result: all of it came from all of them, and is as personal or
    sensitive as anything in them."""
    kinds = set[str]()
    for one in intent.derivation.inputs if intent.derivation is not None else ():
        source = dataset_store.find(context.work, context.required_project.id, one.dataset)
        if source is not None:
            remember(context, dataset.id, [("", source.id, "")])
            kinds |= set(class_store.classes_of(context.work, source.id).values())
    if kinds:
        classify(context, dataset, dict.fromkeys(schema.names, SENSITIVE if SENSITIVE in kinds else kinds.pop()))
