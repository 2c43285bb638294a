"""The protocol of an online store. It sees keyed hashes, moments and ciphertext, nothing else.

Which of two rows of an entity is newer is told by their ranks: first by the moment of the materialisation that found them, for
that one saw everything known by then, deletions too; then by event and knowledge time, for rows that are added one by one to
what a materialisation left.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from falaj.base.clock import Moment
from falaj.base.errors import Invalid, TooLarge
from falaj.base.values import value

VIEW_BYTES: Final = 16
PLACE_BYTES: Final = 32  # of a row: its view, then its entity
RANK_BYTES: Final = 24
MOMENT_BYTES: Final = 8
MOST_ROWS: Final = 10_000  # of one call, whether it reads or writes: others wait no longer than that takes
MOST_BYTES: Final = 32 << 20  # likewise, of what is written
_RANK: Final = struct.Struct(">QQQ")
_ZERO: Final = 1 << 63  # 1970: earlier moments are below it, so that bytes are ordered as moments are
_NO_TIME: Final = -_ZERO


class Rank(NamedTuple):
    """A row gives way to those of a higher rank only. A row without event or knowledge time is below those with one."""

    of: int
    event: int | None = None
    known: int | None = None


class Stored(NamedTuple):
    """A row at its place. It begins with its rank."""

    place: bytes
    row: bytes


@value
class Freshness:
    """How new a view is: `complete` is the newest materialisation that was written to its end, `newest` the newest of which
    any row was written, `rows` how many rows there are."""

    complete: Moment | None
    newest: Moment | None
    rows: int


class OnlineStore(Protocol):
    """Rows at places of 32 bytes, of which the first 16 are their view's.

    Thread-safe, and usable by many processes at once, of which each makes its own. Everything may be repeated: a row gives way
    to one of a higher rank and to no other, so the same row again changes nothing. More than `MOST_ROWS` rows or places in a
    call raise `TooLarge`. A full disk or server raises `OutOfSpace`, and a store that does not answer in time `Unavailable`:
    then a write was done whole or not at all. A store that is found damaged raises `Corrupt`.
    """

    def write(self, view: bytes, rows: Sequence[Stored]) -> int:
        """Put rows of one view at their places, all or none, but those that would replace a row of no lower rank; how many
        were put."""
        ...

    def complete(self, view: bytes, of: Moment) -> None:
        """Say that the materialisation of this moment was written to its end."""
        ...

    def read(self, places: Sequence[bytes]) -> list[bytes | None]:
        """The rows at these places, in their order; none where there is none."""
        ...

    def drop(self, view: bytes, *, before: Moment | None = None) -> int:
        """Remove the rows of earlier materialisations, which from then on write nothing more, or the whole view with all that
        is known of it; how many rows went. Goes by pieces: one that was cut short is repeated."""
        ...

    def rows(self, view: bytes) -> Iterator[Stored]:
        """All rows of a view, a piece at a time, in any order; one may come twice or not at all where it is written meanwhile.
        Raises `Corrupt` at the end where rows are missing, as far as the store can tell."""
        ...

    def freshness(self, view: bytes) -> Freshness: ...

    def probe(self) -> None:
        """Whether the store could be used now; raises what a use would raise."""
        ...

    def close(self) -> None: ...


def pack_rank(rank: Rank) -> bytes:
    try:
        return _RANK.pack(*(_ZERO + (_NO_TIME if moment is None else moment) for moment in rank))
    except (struct.error, TypeError):
        raise Invalid(f"Moments are whole microseconds that fit into 64 bits, unlike those of {tuple(rank)}.") from None


def unpack_rank(row: bytes) -> Rank:
    of, event, known = _RANK.unpack_from(row)
    return Rank(of - _ZERO, event - _ZERO if event else None, known - _ZERO if known else None)


def pack_moment(moment: int | None) -> bytes:
    """As a rank begins. Without a moment: before all of them."""
    return pack_rank(Rank(_NO_TIME if moment is None else moment))[:MOMENT_BYTES]


def unpack_moment(packed: bytes) -> Moment | None:
    number = int.from_bytes(packed)
    return Moment(number - _ZERO) if number else None


def check_rows(view: bytes, rows: Sequence[Stored]) -> None:
    if len(rows) > MOST_ROWS or sum(len(stored.row) for stored in rows) > MOST_BYTES:
        raise TooLarge(f"{len(rows)} rows are too many for one write: at most {MOST_ROWS}, and {MOST_BYTES >> 20} MiB.")
    if len(view) != VIEW_BYTES or any(len(place) != PLACE_BYTES or not place.startswith(view) for place, _ in rows):
        raise Invalid(f"A row's place is its view's {VIEW_BYTES} bytes and {PLACE_BYTES - VIEW_BYTES} of its entity.")
    if any(len(row) < RANK_BYTES for _, row in rows):
        raise Invalid(f"A row begins with the {RANK_BYTES} bytes of its rank.")


def check_places(places: Sequence[bytes]) -> None:
    if len(places) > MOST_ROWS:
        raise TooLarge(f"{len(places)} rows are too many to be read at once: at most {MOST_ROWS}.")
