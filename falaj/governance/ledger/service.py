"""The handlers of the auditor's operations."""

from collections.abc import Callable, Sequence
from typing import Any

from falaj.base.errors import Invalid
from falaj.base.operation import Download
from falaj.base.pages import page_of, read_cursor
from falaj.database.binding import Bound, bind
from falaj.database.work import Context, Database, UnitOfWork
from falaj.governance.ledger import operations as declared
from falaj.governance.ledger import queries, store
from falaj.governance.ledger.copies import HeadCopies
from falaj.governance.ledger.events import to_cloudevent
from falaj.governance.ledger.exports import export_events, export_lines
from falaj.governance.ledger.key_checks import PURPOSE, check_stored_keys
from falaj.governance.ledger.reports import Findings, Report
from falaj.governance.ledger.store import StoredLeaf, Wanted
from falaj.governance.ledger.trees import leaf_hash
from falaj.governance.ledger.verification import verify
from falaj.keys.signatures import PublicKey, endorsements_of


class LedgerService:
    """`keys` tells every signing key of the platform, retired ones included; heads are signed by those for `PURPOSE`."""

    def __init__(self, database: Database, keys: Callable[[UnitOfWork], Sequence[PublicKey]], copies: HeadCopies) -> None:
        self._database = database
        self._keys = keys
        self._copies = copies

    def bindings(self) -> list[Bound]:
        return [
            bind(declared.LOG, self.log),
            bind(declared.LOG_PROJECT, self.log_project),
            bind(declared.HEAD, self.head),
            bind(declared.PROVE, self.prove),
            bind(declared.PROVE_GROWTH, self.prove_growth),
            bind(declared.AS_OF, self.as_of),
            bind(declared.VERIFY, self.verify),
            bind(declared.EXPORT, self.export),
            bind(declared.FOLLOW, self.follow),
            bind(declared.ERASE_SALTS, self.erase_salts),
        ]

    def log(self, context: Context, request: declared.ReadLog) -> declared.LogPage:
        return self._page(context, request, request.project)

    def log_project(self, context: Context, request: declared.ReadProjectLog) -> declared.LogPage:
        return self._page(context, request, context.required_project.id)

    def _page(self, context: Context, request: declared.ReadLog | declared.ReadProjectLog, project: str) -> declared.LogPage:
        wanted = Wanted(
            project=project,
            operation=request.operation,
            principal=request.principal,
            outcome=request.outcome,
            since=request.since,
            until=request.until,
        )
        after = None
        if request.cursor:
            inserted, id = read_cursor(request.cursor, int, str)
            after = (int(inserted), str(id))
        newest_first = request.order == "newest-first"
        found = store.list_leaves(context.work, wanted, newest_first=newest_first, after=after, limit=request.limit + 1)
        page, following = page_of(found, request.limit, lambda leaf: (leaf.columns[1], leaf.columns[0]))
        return declared.LogPage(items=tuple(_entry(leaf) for leaf in page), next=following)

    def head(self, context: Context, request: declared.ReadHead) -> declared.LedgerState:
        count, oldest = store.unsequenced(context.work)
        keys = self._own_keys(context.work)
        return declared.LedgerState(
            head=store.newest_head(context.work),
            unsequenced=count,
            oldest_unsequenced=oldest,
            keys={key.id: key.public.hex() for key in keys},
            endorsements=endorsements_of(keys),
        )

    def prove(self, context: Context, request: declared.ProveLeaf) -> declared.LeafProof:
        if bool(request.leaf) == (request.index is not None):
            raise Invalid("Name the leaf either by its id (leaf) or by its index.")
        proof = queries.prove(context.work, id=request.leaf, index=request.index)
        return declared.LeafProof(
            index=proof.index,
            record=proof.record.decode(errors="replace"),
            hash=leaf_hash(proof.record).hex(),
            path=tuple(node.hex() for node in proof.path),
            head=proof.head,
        )

    def prove_growth(self, context: Context, request: declared.ProveGrowth) -> declared.GrowthProof:
        path = queries.prove_growth(context.work, request.old, request.new)
        return declared.GrowthProof(old=request.old, new=request.new, path=tuple(node.hex() for node in path))

    def as_of(self, context: Context, request: declared.ReadAsOf) -> declared.LedgerAsOf:
        state = queries.as_of(context.work, request.at)
        return declared.LedgerAsOf(
            at=request.at, size=state.size, head=state.head, covered_by=state.covered_by, unsequenced=state.unsequenced
        )

    def verify(self, context: Context, request: declared.VerifyLedger) -> Report:
        """On the snapshot of this call; heads that the sequencer makes meanwhile are looked up in a snapshot of their own."""
        findings = Findings()
        return verify(
            queries.StoredLedger(context.work),
            keys=check_stored_keys(self._keys(context.work), findings),
            findings=findings,
            copies=self._copies.files,
            expected=request.expected,
            arrived=lambda head: self._database.read(lambda work: store.head_of_size(work, head.size)) == head,
        )

    def export(self, context: Context, request: declared.ExportLedger) -> Download:
        """What is sequenced now. It is read while it is sent, outside this transaction, for sequenced leaves do not change."""
        head = store.newest_head(context.work)
        size = head.size if head else 0
        context.facts["size"] = size
        as_leaves = request.format == "leaf"
        chunks = (
            export_lines(self._database, size, self._own_keys(context.work))
            if as_leaves
            else export_events(self._database, size)
        )
        return Download(chunks=chunks, size=None, name=f"ledger-{size}.jsonl", media_type="application/jsonl")

    def _own_keys(self, work: UnitOfWork) -> list[PublicKey]:
        return [key for key in self._keys(work) if key.purpose == PURPOSE]

    def follow(self, context: Context, request: declared.FollowLog) -> declared.FollowPage:
        found = queries.follow(context.work, request.after, request.limit)
        as_events = request.format == "cloudevents"
        items = tuple(_event(leaf) if as_events else {"index": leaf.index, **leaf.readable().document()} for leaf in found)
        last = found[-1].index if found else None
        return declared.FollowPage(items=items, after=request.after if last is None else last)

    def erase_salts(self, context: Context, request: declared.EraseSalts) -> declared.ErasedSalts:
        if bool(request.leaf) == bool(request.principal):
            raise Invalid("Say whose personal values: either of one leaf or of one principal.")
        erased = store.erase_salts(context.work, leaf=request.leaf, principal=request.principal)
        context.facts["erased"] = erased
        return declared.ErasedSalts(erased=erased)


def _entry(stored: StoredLeaf) -> declared.Entry:
    leaf = stored.readable()
    return declared.Entry(index=stored.index, **leaf.document() | {"inserted": leaf.inserted})


def _event(stored: StoredLeaf) -> dict[str, Any]:
    return to_cloudevent(stored.readable(), stored.index or 0)
