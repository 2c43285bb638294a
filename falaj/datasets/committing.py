"""Committing a write: `preparing` does what takes long, and this makes the version, in one transaction with the ledger."""

from collections.abc import Sequence

from falaj.base.errors import Conflict, Unavailable
from falaj.database.binding import Bound, bind_prepared
from falaj.database.work import Context
from falaj.datasets.checking.verdicts import Verdict, Verdicts
from falaj.datasets.intents import Intent, intent_of
from falaj.datasets.operations import writing as declared
from falaj.datasets.operations.versions import Version
from falaj.datasets.parts import Parts
from falaj.datasets.preparing import Prepared, Preparer, complete, current_of, next_schema
from falaj.datasets.publishing import Draft, Placed, publish, quarantine
from falaj.datasets.store import checks as check_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store import writes as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_version, required_write, schema_of, versions_shown
from falaj.datasets.writing import came_between


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
        verdict = _holding(context, dataset, prepared)
        pieces = complete(store.pieces_of(context.work, write.id), request.pieces, write.mode)
        draft = self._draft(context, dataset, write, intent, pieces, prepared)
        version = self._made(context, dataset, draft, verdict)
        store.forget_pieces(context.work, write.id)
        store.change(context.work, write.id, state=store.COMMITTED, version=version.version, changed=context.now)
        context.facts["write"] = write.id
        return version

    def _made(self, context: Context, dataset: Found, draft: Draft, verdict: Verdict | None) -> Version:
        """Published, or in quarantine; with what was found of it."""
        if verdict is None or not verdict.broken:
            return publish(context, dataset, draft)
        version = quarantine(context, dataset, draft) if verdict.stops else publish(context, dataset, draft)
        self._verdicts.keep(context, dataset.id, version, verdict)
        now = required_dataset(context, dataset.name)
        row = required_version(context, now, str(version.version), gone_too=True)
        return versions_shown(context.work, now, [row])[0]

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
        return Draft(mode=write.mode, schema=schema, removed=removed, added=added, origin=intent.origin)


def _holding(context: Context, dataset: Found, prepared: Prepared | None) -> Verdict | None:
    """The verdict, if it is about what is to be made now, under the checks of now; None where there are no checks."""
    rules = check_store.declared(context.work, dataset.id)
    if not rules:
        return None
    verdict = prepared.verdict if prepared else None
    if verdict is None or verdict.rules != rules or verdict.of != dataset.current:
        raise Unavailable(
            f"Another version of {dataset.name!r}, or other checks, came while this one was checked: commit again.", delay=0.1
        )
    return verdict
