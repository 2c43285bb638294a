"""Leaves as CloudEvents 1.0: the sequenced ledger is the outbox, and consumers remember how far they read."""

from typing import Any

from falaj.governance.ledger.leaves import Leaf


def to_cloudevent(leaf: Leaf, index: int) -> dict[str, Any]:
    """JSON format of CloudEvents, with the `sequence` extension, whose text sorts like the index."""
    return {
        "specversion": "1.0",
        "id": leaf.id,
        "source": f"/falaj/projects/{leaf.project}" if leaf.project else "/falaj",
        "type": f"falaj.{leaf.operation}.{leaf.outcome}",
        "time": str(leaf.inserted),
        "sequence": f"{index:020d}",
        "datacontenttype": "application/json",
        "data": leaf.document(),
    }
