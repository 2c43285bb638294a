"""The ledger as one file of JSON lines: keys and endorsements, then heads, then leaves.

`offline` verifies it without a database.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from falaj.base.encoding import canonical
from falaj.database.work import Database
from falaj.governance.ledger import store
from falaj.governance.ledger.events import to_cloudevent
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.offline import FORMAT
from falaj.governance.ledger.store import StoredLeaf
from falaj.keys.signatures import PublicKey, endorsements_of

BATCH = 500


def export_lines(database: Database, size: int, keys: Sequence[PublicKey]) -> Iterator[bytes]:
    """The first `size` leaves with their stored hashes, and the heads over them. Reads by itself: what is sequenced stays."""
    endorsements = [endorsement.document() for endorsement in endorsements_of(keys)]
    yield _line(
        {"format": FORMAT, "size": size, "keys": {key.id: key.public.hex() for key in keys}, "endorsements": endorsements}
    )
    after = 0
    while batch := [head for head in _read_heads(database, after) if head.size <= size]:
        yield b"".join(_line({"head": head.document()}) for head in batch)
        after = batch[-1].size
    for start in range(0, size, BATCH):
        leaves, hashes = _read_leaves(database, start, min(start + BATCH, size))
        yield b"".join(
            _line({"index": leaf.index, "hash": hashes.get(leaf.index or 0, b"").hex(), "leaf": _document(leaf.record)})
            for leaf in leaves
        )


def export_events(database: Database, size: int) -> Iterator[bytes]:
    """The same leaves as CloudEvents, one a line."""
    for start in range(0, size, BATCH):
        leaves, _ = _read_leaves(database, start, min(start + BATCH, size))
        yield b"".join(_line(to_cloudevent(leaf.readable(), leaf.index or 0)) for leaf in leaves)


def _read_heads(database: Database, after: int) -> list[Head]:
    return database.read(lambda work: store.heads_beyond(work, after, BATCH))


def _read_leaves(database: Database, start: int, end: int) -> tuple[list[StoredLeaf], dict[int, bytes]]:
    return database.read(lambda work: (store.sequenced(work, start, end), store.leaf_hashes(work, start, end)))


def _document(record: bytes) -> Any:
    """The record as JSON, for its canonical bytes come back from it; one that somebody spoiled leaves as text, and is found."""
    try:
        document = json.loads(record)
        canonical(document)
        return document
    except (ValueError, RecursionError):
        return record.decode(errors="replace")


def _line(document: Mapping[str, Any]) -> bytes:
    return canonical(document) + b"\n"
