"""Checking leaves and nodes: whether they still add up to every signed root, and if not, which of them was touched."""

import json
from collections.abc import Mapping

from falaj.base.clock import Moment
from falaj.governance.ledger.head_checks import HeadChecks
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.misplaced import Misplaced
from falaj.governance.ledger.reports import Findings, Found
from falaj.governance.ledger.sources import Source, Stored
from falaj.governance.ledger.trees import Frontier, Node, leaf_hash

CHUNK = 2048


class LeafChecks:
    """Leaves against nodes, nodes against heads.

    Two trees are grown: one from the stored leaf hashes and, once they differ, one from the records. Whichever adds up to a
    signed root is the genuine one, and the other is what somebody changed.
    """

    def __init__(self, source: Source, heads: HeadChecks, findings: Findings) -> None:
        self._source = source
        self._heads = heads
        self._findings = findings
        self._checkpoints = heads.checkpoints(source.heads())
        self._checkpoint = next(self._checkpoints, None)
        self._by_nodes = Frontier()
        self._by_records: Frontier | None = None  # None while it is the same tree
        self._misplaced = Misplaced()
        self._suspects: list[int] = []  # leaf hashes that do not fit their record, since the last good head
        self._wrong_nodes: list[Node] = []  # inner nodes that do not fit what is below, since the last good head
        self._good = 0  # size of the last head that held
        self._blind = False  # a leaf is gone with its hash, so later roots cannot be computed
        self._missing_from: int | None = None  # where the present row of missing leaves began
        self._broken = False

    def check(self) -> None:
        total = self._heads.covered
        for start in range(0, total, CHUNK):
            end = min(start + CHUNK, total)
            leaves, nodes = self._source.chunk(start, end)
            for index in range(start, end):
                self._check_leaf(index, leaves.get(index), nodes)
                while self._checkpoint is not None and self._checkpoint.size == index + 1:
                    self._check_root(self._checkpoint)
                    self._checkpoint = next(self._checkpoints, None)
        self._report_end(total)

    def _check_leaf(self, index: int, leaf: Stored | None, nodes: Mapping[Node, bytes]) -> None:
        node = nodes.get((0, index))
        found = None if leaf is None else leaf_hash(leaf.record)
        if leaf is None:
            if self._missing_from is None:
                self._missing_from = index
            self._misplaced.gap(index, node)
            self._blind = self._blind or node is None
        else:
            self._missing_from = None
            self._check_columns(index, leaf)
        if found is not None and node is None:
            self._suspect_node((0, index))
        elif found is not None and node is not None and node != found:
            if len(self._suspects) < Findings.LARGEST:
                self._suspects.append(index)
            self._misplaced.differs(index, found, node)
            self._by_records = self._by_records or self._by_nodes.copy()
        made = self._by_nodes.add(node or found or bytes(32))
        if self._by_records is not None:
            self._by_records.add(found or node or bytes(32))
        if self._source.has_inner_nodes:
            for place, computed in made[1:]:
                if nodes.get(place) != computed:
                    self._suspect_node(place)

    def _suspect_node(self, place: Node) -> None:
        if len(self._wrong_nodes) < Findings.LARGEST:
            self._wrong_nodes.append(place)

    def _check_columns(self, index: int, leaf: Stored) -> None:
        """Listings go by the columns, so they are held against the record, though the tree covers the record alone."""
        if leaf.columns is None:
            return
        try:
            says = json.loads(leaf.record)
            texts = (says[name] for name in ("operation", "project", "principal", "outcome"))
            said = (says["id"], Moment.parse(says["inserted"]), *texts)
        except (ValueError, KeyError, TypeError):
            return  # then the record itself was changed, which its hash tells
        if said != leaf.columns:
            message = f"The columns of leaf {index} do not say what its record says: listings may hide it."
            self._findings.add(Found.COLUMNS_CHANGED, message, first=index)

    def _check_root(self, head: Head) -> None:
        if self._blind:
            return
        if self._by_nodes.root().hex() == head.root:
            for level, position in self._wrong_nodes:
                first, last = position << level, ((position + 1) << level) - 1
                message = f"Node {position} of level {level}, over leaves {first} to {last}, was changed or removed."
                self._findings.add(Found.NODE_CHANGED, message, first=first, last=last)
            self._hold(head.size)
        elif self._by_records is not None and self._by_records.root().hex() == head.root:
            for index in self._suspects:
                self._misplaced.forget(index)
                message = f"The stored hash of leaf {index} was changed; the leaf itself is as it was signed."
                self._findings.add(Found.NODE_CHANGED, message, first=index)
            self._by_nodes = self._by_records
            self._hold(head.size)
        elif not self._broken:  # every later head fails with the first
            self._broken = True
            self._report_rewritten(head)

    def _hold(self, size: int) -> None:
        self._by_records = None
        self._suspects.clear()
        self._wrong_nodes.clear()
        self._good = size

    def _report_rewritten(self, head: Head) -> None:
        """Leaves and their hashes were changed together. Inner nodes that were forgotten say more exactly where."""
        places = [position for level, position in self._wrong_nodes if level == 1]
        first, last = (2 * min(places), 2 * max(places) + 1) if places else (self._good, head.size - 1)
        self._findings.add(
            Found.HISTORY_REWRITTEN,
            f"The leaves no longer add up to the head of {head.size} leaves signed at {head.at}, the earliest that fails:"
            f" leaves {first} to {last} were changed together with their hashes.",
            first=first,
            last=last,
            at=head.at,
        )

    def _report_end(self, total: int) -> None:
        covering = self._heads.covering
        if self._missing_from is not None and covering is not None:
            self._misplaced.truncated_from(self._missing_from)
            self._findings.add(
                Found.LOG_TRUNCATED,
                f"The log was truncated: it has {self._missing_from} leaves, the head signed at {covering.at} covers {total}.",
                first=self._missing_from,
                last=total - 1,
                at=covering.at,
            )
        self._misplaced.report(self._findings)
        extent = self._source.extent()
        if extent > total:
            message = f"Leaves {total} to {extent - 1} have an index but no head covers them: no sequencer put them there."
            self._findings.add(Found.LEAF_UNSIGNED, message, first=total, last=extent - 1)
