"""Holding what happened against the ledger: the leaf that each event left, and the proof that the newest head covers it."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from falaj.base.clock import MINUTE, Moment
from falaj.base.errors import Unavailable
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.governance.ledger import queries
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.key_checks import PURPOSE
from falaj.governance.ledger.leaves import Leaf
from falaj.governance.ledger.signatures import is_genuine
from falaj.governance.ledger.store import Wanted, list_leaves, newest_head
from falaj.governance.ledger.trees import includes, leaf_hash
from falaj.keys.signatures import PublicKey, chained, endorsements_of
from falaj.lifecycle.operations.stories import Ledger, Recorded

_AT_ONCE: Final = 1000  # leaves of one project and operation in such a span: more than there ever are
_CLOCKS_DIFFER: Final = 10 * MINUTE


@value
class Sought:
    """The leaf of what happened at `at`: of one of `operations`, whose facts, or whose request, have the `id` under `name`,
    there alone or as one of several.

    Where a clock was behind, it was inserted a little before. `said` is what its facts have to say besides. One of that very
    moment whose facts are `at_least` these will do: there it was done along with something else.
    """

    at: Moment
    operations: tuple[str, ...]
    name: str
    id: str
    said: Mapping[str, Any] = field(default_factory=dict)
    at_least: Mapping[str, str] = field(default_factory=dict)

    def is_it(self, leaf: Leaf) -> bool:
        known = leaf.outcome == "done" and leaf.operation in self.operations
        if not known:
            return False
        if any(self._is_in(told.get(self.name)) for told in (leaf.facts, leaf.request)):
            return True
        same = leaf.inserted == self.at and bool(self.at_least)
        return same and all(leaf.facts.get(name) == fact for name, fact in self.at_least.items())

    def _is_in(self, told: Any) -> bool:
        return self.id in told.values() if isinstance(told, dict) else bool(self.id == told)


class Proofs:
    """Within one transaction, so that all proofs lead to the same head."""

    def __init__(self, work: UnitOfWork, project: str, keys: Sequence[PublicKey]) -> None:
        self._work, self._project = work, project
        self._head = newest_head(work)
        self._own = [key for key in keys if key.purpose == PURPOSE]
        self._genuine = self._head is not None and is_genuine(self._head, chained(self._own))
        self._made: list[Recorded] = []

    def of(self, sought: Sought) -> Recorded:
        made = self._of(sought)
        self._made.append(made)
        return made

    def ledger(self) -> Ledger:
        """Once all was looked for."""
        proven, waiting = (sum(one.state == state for one in self._made) for state in ("proven", "waiting"))
        troubled = len(self._made) - proven - waiting
        return Ledger(
            head=self._head,
            genuine=self._genuine,
            keys={key.id: key.public.hex() for key in self._own},
            endorsements=endorsements_of(self._own),
            proven=proven,
            waiting=waiting,
            troubled=troubled,
            words=_words(self._head, self._genuine, len(self._made), proven, waiting),
        )

    def _of(self, sought: Sought) -> Recorded:
        leaf = self._find(sought)
        if leaf is None:
            return Recorded(state="missing", words="The ledger has no leaf that says this: run `falaj audit verify`.")
        id = leaf.id
        if changed := sorted(name for name, fact in sought.said.items() if leaf.facts.get(name) != fact):
            words = f"The ledger says otherwise about {', '.join(changed)}: the platform's own record was changed."
            return Recorded(state="differs", leaf=id, words=words)
        try:
            proof = queries.prove(self._work, id=id)
        except Unavailable:
            words = "Recorded, and not yet under a signed head: that takes about a second."
            return Recorded(state="waiting", leaf=id, words=words)
        root = bytes.fromhex(proof.head.root)
        if not self._genuine or not includes(root, proof.head.size, leaf_hash(proof.record), proof.index, proof.path):
            words = "The proof does not lead to a genuine head: run `falaj audit verify`, for the ledger was changed."
            return Recorded(state="differs", leaf=id, index=proof.index, words=words)
        return Recorded(
            state="proven",
            leaf=id,
            index=proof.index,
            words=f"Leaf {proof.index} of {proof.head.size} under the head that was signed at {_second(proof.head.at)}.",
            record=proof.record.decode(errors="replace"),
            path=tuple(node.hex() for node in proof.path),
        )

    def _find(self, sought: Sought) -> Leaf | None:
        that_moment = Wanted(project=self._project, since=sought.at, until=Moment(sought.at + 1))
        before = Moment(max(0, sought.at - _CLOCKS_DIFFER))
        wider = (
            Wanted(project=self._project, operation=operation, since=before, until=that_moment.until)
            for operation in sought.operations
        )
        for wanted in (that_moment, *wider):
            listed = list_leaves(self._work, wanted, newest_first=True, after=None, limit=_AT_ONCE)
            if (leaf := next((leaf for leaf in (one.readable() for one in listed) if sought.is_it(leaf)), None)) is not None:
                return leaf
        return None


def _words(head: Head | None, genuine: bool, events: int, proven: int, waiting: int) -> str:
    if head is None:
        return "No head of the ledger is signed yet: that takes about a second after the first leaf."
    if not genuine:
        return "The newest head was not signed by a key of this ledger: run `falaj audit verify`."
    of_head = f"the head of {head.size} leaves that was signed at {_second(head.at)}"
    told = f"{proven} of {events} recorded events are proven under {of_head}."
    rest = events - proven - waiting
    told += f" Waiting for the next head: {waiting}." if waiting else ""
    return told + (f" Not as the ledger has it: {rest}. Run `falaj audit verify`." if rest else "")


def _second(at: Moment) -> str:
    return f"{str(at)[:19]}Z"
