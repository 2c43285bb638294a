"""What takes long of a commit, before its transaction: parts are rewritten, and what would become the version is checked."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from falaj.base.errors import Conflict, Invalid
from falaj.base.values import value
from falaj.database.work import Context, Database
from falaj.datasets.checking.running import Checker, Rules, Subject
from falaj.datasets.checking.verdicts import Verdict, Verdicts
from falaj.datasets.intents import Intent, intent_of, next_columns
from falaj.datasets.operations.writing import CommitWrite
from falaj.datasets.parts import NewPart, Openable, Parts
from falaj.datasets.rewriting import Rewriter, Rewritten, Stage
from falaj.datasets.sight import Sight
from falaj.datasets.store import checks as check_store
from falaj.datasets.store import versions as version_store
from falaj.datasets.store import writes as store
from falaj.datasets.store.tables import Found
from falaj.datasets.views import required_dataset, required_write, schema_of
from falaj.datasets.writing import came_between
from falaj.tables.schemas import Schema

REWRITING = ("merge", "delete")


@value
class Prepared:
    """What a merge or a deletion makes of version `of`, and what checks found of what it would become."""

    of: int
    rewritten: Rewritten | None
    verdict: Verdict | None


@value
class _Planned:
    """`schema` is that of the version that is to be, `stage` what it is made from, `hidden` what of it the caller
    may not see."""

    dataset: Found
    mode: str
    intent: Intent
    schema: Schema
    stage: Stage
    rules: Rules
    hidden: tuple[str, ...]


class Preparer:
    def __init__(
        self, database: Database, parts: Parts, rewriter: Rewriter, checker: Checker, verdicts: Verdicts, sight: Sight
    ) -> None:
        self._database = database
        self._parts = parts
        self._rewriter = rewriter
        self._checker = checker
        self._verdicts = verdicts
        self._sight = sight

    def prepare(self, context: Context, request: CommitWrite) -> Prepared | None:
        planned = self._database.read(lambda work: self._planned(dataclasses.replace(context, work=work), request))
        if planned is None:
            return None
        rewritten = self._rewritten(planned) if planned.mode in REWRITING else None
        verdict = self._verdict(context, planned, rewritten) if planned.rules.checks else None
        return Prepared(of=planned.dataset.current, rewritten=rewritten, verdict=verdict)

    def _planned(self, context: Context, request: CommitWrite) -> _Planned | None:
        """None where nothing takes long; whatever is wrong is refused before the work is done."""
        dataset = required_dataset(context, request.dataset)
        write = required_write(context, dataset, request.write)
        if write.state != store.OPEN:
            return None
        if write.mode not in REWRITING and not check_store.declared(context.work, dataset.id):
            return None
        intent = intent_of(write)
        if intent.held and dataset.current != write.parent:
            raise Conflict(came_between(dataset, write.parent))
        pieces = complete(store.pieces_of(context.work, write.id), request, write.mode)
        current = current_of(context, dataset)
        before = schema_of(current) if current else None
        for key in intent.keys:
            columns_of(intent).column(key)
        self._sight.refuse_keys(context, dataset, intent.keys, "merging")
        stage = Stage(
            project=context.required_project,
            zone=dataset.zone,
            current=before or columns_of(intent),
            parts=self._parts.openable(context, version_store.parts_of(context.work, current)) if current else (),
            given=intent.columns,
            pieces=self._parts.openable(context, pieces),
        )
        return _Planned(
            dataset=dataset,
            mode=write.mode,
            intent=intent,
            schema=next_schema(before, intent, write.mode, has_pieces=bool(pieces)),
            stage=stage,
            rules=self._checker.rules(context, dataset),
            hidden=self._sight.masked(context, dataset),
        )

    def _rewritten(self, planned: _Planned) -> Rewritten:
        if planned.intent.where:
            return self._rewriter.deleted(planned.stage, planned.intent.where, planned.hidden)
        return self._rewriter.merged(planned.stage, planned.intent.keys)

    def _verdict(self, context: Context, planned: _Planned, rewritten: Rewritten | None) -> Verdict:
        stage, dataset = planned.stage, planned.dataset
        gone = set(rewritten.removed) if rewritten else set()
        parts: list[Openable | NewPart] = [*stage.pieces, *(rewritten.added.values() if rewritten else ())]
        if planned.mode != "overwrite":
            parts += [part for part in stage.parts if part.row.id not in gone]
        subject = Subject(name=dataset.name, schema=planned.schema, parts=parts)
        outcomes = self._checker.run(subject, planned.rules, context.now)
        return self._verdicts.made(stage.project, stage.zone, dataset.current, planned.rules.text, outcomes)


def current_of(context: Context, dataset: Found) -> Found | None:
    return version_store.find(context.work, dataset.id, dataset.current) if dataset.current else None


def columns_of(intent: Intent) -> Schema:
    if intent.columns is None:
        raise Invalid("Nothing was sent yet: send at least one piece.")
    return intent.columns


def next_schema(before: Schema | None, intent: Intent, mode: str, *, has_pieces: bool) -> Schema:
    """Of the version that the write makes."""
    return next_columns(before, columns_of(intent) if has_pieces or before is None else before, intent, mode)


def complete(pieces: Sequence[Found], request: CommitWrite, mode: str) -> Sequence[Found]:
    """All pieces, of which there must be as many as were sent, without a gap; or those that were chosen."""
    if mode == "delete":
        if request.pieces:
            raise Invalid("A deletion takes no pieces.")
        return ()
    if not request.pieces:
        raise Invalid("There is nothing in it to make a version of: send at least one piece, such as a file with a header.")
    found = {piece.number: piece for piece in pieces}
    if request.only:
        return _chosen(found, request)
    expected = request.pieces
    if beyond := sorted(number for number in found if number > expected):
        raise Conflict(f"Piece {beyond[0]} came as well, and only {expected} were announced. Say how many were sent.")
    if len(found) < expected:
        raise Conflict(_not_come(number for number in range(1, expected + 1) if number not in found))
    return pieces


def _chosen(found: Mapping[int, Found], request: CommitWrite) -> Sequence[Found]:
    if len(request.only) != request.pieces:
        raise Invalid(f"{request.pieces} pieces are announced, and {len(request.only)} named.")
    if len(set(request.only)) < len(request.only):
        raise Invalid("A piece is named twice: its rows would be, too.")
    if any(number not in found for number in request.only):
        raise Conflict(_not_come(number for number in request.only if number not in found))
    return [found[number] for number in request.only]


def _not_come(missing: Iterable[int]) -> str:
    return f"These pieces have not come: {', '.join(map(str, islice(missing, 5)))}. Send them and commit again."
