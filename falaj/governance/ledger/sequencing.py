"""The sequencer gives leaves their order, grows the tree and signs a head; the order is the order of assignment.

A leaf of a long transaction may become visible after younger ones got their index: it simply gets a later one. What has an
index keeps it for ever.
"""

from collections.abc import Callable

from falaj.base.clock import SECOND, Clock
from falaj.base.errors import Conflict, Corrupt
from falaj.base.failpoints import failpoint
from falaj.base.values import value
from falaj.database.work import Database, UnitOfWork
from falaj.governance.ledger import store
from falaj.governance.ledger.copies import HeadCopies
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.recording import close_windows
from falaj.governance.ledger.signatures import Signer, sign_head
from falaj.governance.ledger.trees import Frontier, Node, frontier_at, leaf_hash

BATCH = 1000
WINDOW = 10 * SECOND


@value
class Step:
    """What one round did. `more` says that leaves are still waiting and the next round should come at once."""

    sequenced: int
    windows: int
    copied: int
    head: Head | None
    more: bool


@value
class Plan:
    """Leaves to give an index to, on top of the head that was the newest when this was decided."""

    newest: Head | None
    ids: tuple[str, ...]
    nodes: tuple[tuple[Node, bytes], ...]
    frontier: Frontier
    signer: Signer


class Sequencer:
    """One round per `step`, under a lease. Two at once do no harm: an index cannot be given twice, so one of them yields.

    `signer` is asked for the current signer in every round, so that a rotated key is used from then on.
    """

    def __init__(
        self,
        database: Database,
        signer: Callable[[UnitOfWork], Signer],
        copies: HeadCopies,
        clock: Clock,
        *,
        batch: int = BATCH,
        window: int = WINDOW,
    ) -> None:
        self._database = database
        self._signer = signer
        self._copies = copies
        self._clock = clock
        self._batch = batch
        self._window = window

    def step(self, *, close_all_windows: bool = False) -> Step:
        """Close due windows, sequence and sign one batch, and bring the copies outside up to date.

        `close_all_windows` does not wait for windows to become due: for an orderly end, and before a backup.
        """
        closed = self._close_windows(self._clock.now() + 1 if close_all_windows else self._clock.now() - self._window)
        plan = self._database.read(self._plan)
        head = self._sequence(plan) if plan.ids else None
        copied = self._copies.catch_up(
            lambda size, limit: self._database.read(lambda work: store.heads_beyond(work, size, limit)),
            lambda size: self._database.read(lambda work: store.head_of_size(work, size)),
        )
        return Step(
            sequenced=len(plan.ids) if head else 0,
            windows=closed,
            copied=copied,
            head=head,
            more=len(plan.ids) == self._batch or (head is None and bool(plan.ids)),
        )

    def _close_windows(self, started_before: int) -> int:
        if not self._database.read(lambda work: store.any_window_due(work, started_before=started_before)):
            return 0
        closed = self._database.write(
            lambda work: close_windows(work, started_before=started_before, now=self._clock.now(), limit=self._batch)
        )
        failpoint("ledger.windows-closed")
        return closed

    def _plan(self, work: UnitOfWork) -> Plan:
        """Hash what waits. The tree is held against the newest head first, so that a tampered one is never signed."""
        newest = store.newest_head(work)
        waiting = store.waiting(work, self._batch)
        try:
            frontier = frontier_at(newest.size if newest else 0, lambda wanted: store.read_nodes(work, wanted))
        except KeyError as error:
            raise Corrupt(f"Node {error} of the ledger's tree is gone. Run a verification before anything else.") from error
        if newest is not None and frontier.root().hex() != newest.root:
            raise Corrupt(
                f"The ledger's tree of {newest.size} leaves is not the one signed at {newest.at}, so nothing more is signed on"
                " top of it. Run a verification before anything else."
            )
        nodes = [node for row in waiting for node in frontier.add(leaf_hash(bytes(row.record)))]
        return Plan(
            newest=newest,
            ids=tuple(row.id for row in waiting),
            nodes=tuple(nodes),
            frontier=frontier,
            signer=self._signer(work),
        )

    def _sequence(self, plan: Plan) -> Head | None:
        """Sign outside the transaction, for the signer may be slow; None where another sequencer was faster."""
        at = max(self._clock.now(), plan.newest.at) if plan.newest else self._clock.now()
        head = sign_head(plan.signer, size=plan.frontier.size, root=plan.frontier.root(), at=at, previous=plan.newest)

        def apply(work: UnitOfWork) -> bool:
            if store.newest_head(work) != plan.newest:
                return False
            store.insert_nodes(work, plan.nodes)  # first: another sequencer waits, and then conflicts, here
            store.give_positions(work, plan.newest.size if plan.newest else 0, plan.ids)
            store.insert_head(work, head)
            return True

        try:
            if not self._database.write(apply):
                return None
        except Conflict:
            return None
        failpoint("ledger.head-signed")
        return head
