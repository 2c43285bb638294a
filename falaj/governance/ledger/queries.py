"""Questions to the ledger in the database, within the caller's transaction."""

from collections.abc import Iterator, Mapping, Sequence

from falaj.base.clock import MINUTE, Moment
from falaj.base.errors import Corrupt, Invalid, NotFound, Unavailable
from falaj.base.values import value
from falaj.database.work import UnitOfWork
from falaj.governance.ledger import store
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.store import StoredLeaf
from falaj.governance.ledger.trees import Node, consistency_proof, inclusion_proof

# A leaf is visible at the end of its transaction and sequenced within a second of that; no transaction lives this long.
LONGEST_DELAY = 10 * MINUTE


class StoredLedger:
    """The ledger in the database, as verification wants to see it."""

    has_inner_nodes = True

    def __init__(self, work: UnitOfWork) -> None:
        self._work = work

    def heads(self) -> Iterator[Head]:
        return store.each_head(self._work)

    def chunk(self, start: int, end: int) -> tuple[Mapping[int, StoredLeaf], Mapping[Node, bytes]]:
        leaves = {leaf.index: leaf for leaf in store.sequenced(self._work, start, end) if leaf.index is not None}
        return leaves, store.nodes_completed(self._work, start, end)

    def extent(self) -> int:
        return store.sequenced_count(self._work)

    def unsequenced(self) -> tuple[int, Moment | None]:
        return store.unsequenced(self._work)


@value
class Inclusion:
    """That a leaf is in the tree of `head`: hash upwards from the leaf's hash along `path`."""

    index: int
    record: bytes
    path: tuple[bytes, ...]
    head: Head


@value
class AsOf:
    """The ledger at a moment: what was sequenced under `head`, and how many leaves were recorded but not yet sequenced.

    `covered_by` is the next head, the first that may cover those; None when there is none yet.
    """

    size: int
    head: Head | None
    covered_by: Head | None
    unsequenced: int


def follow(work: UnitOfWork, after: int, limit: int) -> Sequence[StoredLeaf]:
    """The sequenced leaves after an index, in order. Nothing appears later before an index that was given out."""
    return store.sequenced(work, after + 1, after + 1 + limit)


def as_of(work: UnitOfWork, at: Moment) -> AsOf:
    head = store.last_head_until(work, at)
    size = head.size if head else 0
    later = store.last_head_until(work, at + LONGEST_DELAY)
    waited = store.unsequenced_at(work, at, size, later.size if later else 0)
    return AsOf(size=size, head=head, covered_by=store.first_head_after(work, at), unsequenced=waited)


def prove(work: UnitOfWork, *, id: str = "", index: int | None = None) -> Inclusion:
    """Proof of a leaf's place under the newest head."""
    leaf = store.find_leaf(work, id=id, index=index)
    if leaf is None:
        raise NotFound(f"There is no leaf {id or index} in the ledger.")
    head = store.newest_head(work)
    if leaf.index is None or head is None or leaf.index >= head.size:
        raise Unavailable(f"Leaf {id or index} is recorded but not yet sequenced; ask again in a second.", delay=1)
    try:
        path = inclusion_proof(leaf.index, head.size, lambda wanted: store.read_nodes(work, wanted))
    except KeyError as error:
        raise Corrupt(f"Node {error} of the ledger's tree is gone; run a verification.") from error
    return Inclusion(index=leaf.index, record=leaf.record, path=tuple(path), head=head)


def prove_growth(work: UnitOfWork, old: int, new: int) -> tuple[bytes, ...]:
    """Proof that the tree of `new` leaves begins with the tree of `old`."""
    newest = store.newest_head(work)
    size = newest.size if newest else 0
    if not 0 < old <= new <= size:
        raise Invalid(f"Sizes {old} and {new} do not fit: 1 <= old <= new <= {size} leaves under the newest head is expected.")
    try:
        return tuple(consistency_proof(old, new, lambda wanted: store.read_nodes(work, wanted)))
    except KeyError as error:
        raise Corrupt(f"Node {error} of the ledger's tree is gone; run a verification.") from error
