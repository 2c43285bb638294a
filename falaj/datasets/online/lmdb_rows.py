"""What is done within one transaction of LMDB: rows in their places, and the tally of their view beside them."""

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from falaj.datasets.online.stores import MOMENT_BYTES, MOST_ROWS, RANK_BYTES, VIEW_BYTES, Stored, pack_moment

MOST_AT_ONCE: Final = 500  # rows of a piece, for nobody else reads in this process meanwhile
_TALLY: Final = struct.Struct(f">Q{MOMENT_BYTES}s{MOMENT_BYTES}s{MOMENT_BYTES}s")
_NONE: Final = pack_moment(None)


class Tally(NamedTuple):
    """Of a view. What is of a moment before `earliest` is no longer written."""

    rows: int = 0
    newest: bytes = _NONE
    complete: bytes = _NONE
    earliest: bytes = _NONE


def put(transaction: Any, view: bytes, rows: Sequence[Stored]) -> int:
    tally = tally_of(transaction, view)
    added, written, newest = 0, 0, tally.newest
    for place, row in rows:
        of, old = row[:MOMENT_BYTES], transaction.get(place)
        if of < tally.earliest or (old is not None and old[:RANK_BYTES] >= row[:RANK_BYTES]):
            continue
        transaction.put(place, row)
        added += old is None
        written += 1
        newest = max(newest, of)
    if written:
        keep_tally(transaction, view, tally._replace(rows=tally.rows + added, newest=newest))
    return written


def drop_some(transaction: Any, view: bytes, start: bytes, earliest: bytes | None) -> tuple[int, bytes]:
    """Look at as many rows as a call may; how many went, and where to go on: nowhere at the end."""
    removed, looked, place = 0, 0, b""
    cursor = transaction.cursor()
    found = cursor.set_range(start)
    while found and (place := cursor.key()).startswith(view) and looked < MOST_ROWS:
        looked += 1
        if len(place) > VIEW_BYTES and (earliest is None or cursor.value()[:MOMENT_BYTES] < earliest):
            removed += 1
            found = cursor.delete()  # and stands at the next
        else:
            found = cursor.next()
    at_end = not found or not place.startswith(view)
    tally = tally_of(transaction, view)
    if at_end and earliest is None:
        transaction.delete(view)
    else:
        fence = max(tally.earliest, earliest or _NONE)
        keep_tally(transaction, view, tally._replace(rows=tally.rows - removed, earliest=fence))
    return removed, b"" if at_end else place


def some_rows(transaction: Any, view: bytes, start: bytes) -> tuple[list[Stored], int, bytes]:
    """Rows from a place on, how many of them whoever looks for them would not find, and where to go on: nowhere at the end."""
    some: list[Stored] = []
    cursor = transaction.cursor()
    found, place = cursor.set_range(start), b""
    while found and (place := cursor.key()).startswith(view) and len(some) < MOST_AT_ONCE:
        if len(place) > VIEW_BYTES:
            some.append(Stored(place, cursor.value()))
        found = cursor.next()
    hidden = sum(transaction.get(stored.place) != stored.row for stored in some)
    return some, hidden, place if found and place.startswith(view) else b""


def tally_of(transaction: Any, view: bytes) -> Tally:
    kept = transaction.get(view)
    return Tally(*_TALLY.unpack(kept)) if kept else Tally()


def keep_tally(transaction: Any, view: bytes, tally: Tally) -> None:
    transaction.put(view, _TALLY.pack(*tally))
