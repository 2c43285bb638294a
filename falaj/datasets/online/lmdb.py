"""The online store in a folder of this host: LMDB, read through shared memory by any number of processes while one writes.

A key as long as a view is the view's tally; longer ones are places of its rows, so they follow it. A commit is on the disk when
it returns, and a process that is killed within one leaves nothing of it.

LMDB keeps no checksums. A changed row is told by whoever opens it; damage to what stands around rows can hide some of them,
which `rows` tells, or end the process that reads it (3 of 2,500 flipped bits did); it never shows a wrong row.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from falaj.base.clock import Moment
from falaj.base.errors import Misconfigured, OutOfSpace
from falaj.datasets.online.errors import OnlineRefused, OnlineUnavailable, StoreDamaged
from falaj.datasets.online.lmdb_rows import drop_some, keep_tally, put, some_rows, tally_of
from falaj.datasets.online.stores import (
    Freshness,
    Stored,
    check_places,
    check_rows,
    pack_moment,
    unpack_moment,
)

T = TypeVar("T")

FIRST_MAP: Final = 1 << 30  # of address space; the file is as large as what is in it
MOST_READERS: Final = 2048  # threads that read at one time, of all processes
SPARE: Final = 64  # readers that a process keeps ready between reads
_FULL: Final = [os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)]


class LmdbStore:
    """`OnlineStore` in a folder. There is one for it in a process; a fork cannot use what it inherits."""

    def __init__(self, folder: Path, *, first_map: int = FIRST_MAP) -> None:
        self._folder = folder
        self._lmdb = _lmdb()
        self._writing = threading.Lock()
        self._mapping = threading.Lock()  # held while something is read, for the map must not be moved then
        self._environment = self._opened(first_map)
        self._process = os.getpid()

    def write(self, view: bytes, rows: Sequence[Stored]) -> int:
        check_rows(view, rows)
        in_order = sorted(rows, key=_place)  # which is the order on the disk
        return self._changed(lambda transaction: put(transaction, view, in_order))

    def complete(self, view: bytes, of: Moment) -> None:
        def mark(transaction: Any) -> None:
            tally = tally_of(transaction, view)
            keep_tally(transaction, view, tally._replace(complete=max(tally.complete, pack_moment(of))))

        self._changed(mark)

    def read(self, places: Sequence[bytes]) -> list[bytes | None]:
        check_places(places)
        return self._looked(lambda transaction: [transaction.get(place) for place in places])

    def drop(self, view: bytes, *, before: Moment | None = None) -> int:
        earliest = None if before is None else pack_moment(before)
        removed, place = 0, view
        while place:
            gone, place = self._changed(partial(drop_some, view=view, start=place, earliest=earliest))
            removed += gone
        return removed

    def rows(self, view: bytes) -> Iterator[Stored]:
        tally = self._looked(partial(tally_of, view=view))
        hidden, count, place = 0, 0, view
        while place:
            some, hiding, place = self._looked(partial(some_rows, view=view, start=place))
            hidden, count = hidden + hiding, count + len(some)
            yield from some
        missing = 0 if self._looked(partial(tally_of, view=view)) != tally else abs(tally.rows - count)
        if hidden or missing:
            raise StoreDamaged(
                f"The online store in {self._folder} is damaged: of {tally.rows} rows of a view {hidden + missing} cannot be "
                "found. Remove the folder and materialise its views again."
            )

    def freshness(self, view: bytes) -> Freshness:
        tally = self._looked(partial(tally_of, view=view))
        return Freshness(rows=tally.rows, newest=unpack_moment(tally.newest), complete=unpack_moment(tally.complete))

    def probe(self) -> None:
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise OnlineUnavailable(f"The folder {self._folder} cannot be written to; is its disk mounted?", delay=5)
        self._looked(lambda transaction: transaction.id())

    def close(self) -> None:
        with self._writing, self._mapping:
            self._environment.close()

    def _looked(self, look: Callable[[Any], T]) -> T:
        self._check_process()
        try:
            with self._mapping:
                transaction = self._begin()
                try:
                    return look(transaction)
                finally:
                    transaction.abort()
        except self._lmdb.Error as error:
            raise self._told(error) from error

    def _begin(self) -> Any:
        try:
            return self._environment.begin()
        except self._lmdb.MapResizedError:  # by another process
            self._set_map(0)
        except self._lmdb.ReadersFullError:
            self._environment.reader_check()  # takes out those of processes that were killed
        return self._environment.begin()

    def _changed(self, change: Callable[[Any], T]) -> T:
        """Do it in one transaction, in a larger map where this one is too small."""
        self._check_process()
        try:
            with self._writing:
                while True:
                    try:
                        return self._attempt(change)
                    except self._lmdb.MapFullError:
                        self._remap(2 * self._environment.info()["map_size"])
                    except self._lmdb.MapResizedError:
                        self._remap(0)
        except self._lmdb.Error as error:
            raise self._told(error) from error

    def _attempt(self, change: Callable[[Any], T]) -> T:
        transaction = self._environment.begin(write=True)
        try:
            done = change(transaction)
            transaction.commit()
        except BaseException:
            transaction.abort()
            raise
        return done

    def _remap(self, size: int) -> None:
        with self._mapping:
            self._environment.reader_check()  # a killed reader keeps old pages from being used again
            self._set_map(size)

    def _set_map(self, size: int) -> None:
        """Zero is what others made of it. An environment that lost its map is of no use any more: then there is a new one."""
        before = self._environment.info()["map_size"]
        try:
            self._environment.set_mapsize(size)
        except self._lmdb.Error as error:
            self._environment.close()
            self._environment = self._opened(before)
            raise OutOfSpace(
                f"The online store in {self._folder} cannot grow beyond {before >> 20} MiB: this process may map no more "
                f"memory ({error}).",
                delay=5,
            ) from error

    def _opened(self, map_size: int) -> Any:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return self._lmdb.open(
                str(self._folder),
                map_size=map_size,
                mode=0o600,
                max_readers=MOST_READERS,
                max_spare_txns=SPARE,
                readahead=False,
            )
        except (self._lmdb.Error, OSError) as error:
            raise self._told(error) from error

    def _check_process(self) -> None:
        if os.getpid() != self._process:  # it would be told by nobody, and read pages that are no longer its own
            raise OnlineRefused(f"The online store in {self._folder} was opened by another process, of which this is a fork.")

    def _told(self, error: Exception) -> Exception:
        if isinstance(error, self._lmdb.DiskError) or any(sign in str(error) for sign in _FULL):
            return OutOfSpace(f"The disk that holds {self._folder} is full; free some space. Reading goes on.", delay=5)
        if isinstance(error, (self._lmdb.CorruptedError, self._lmdb.PageNotFoundError, self._lmdb.InvalidError)):
            return StoreDamaged(
                f"The online store in {self._folder} is damaged: remove the folder and materialise its views again."
            )
        if isinstance(error, (PermissionError, self._lmdb.ReadonlyError)):
            return OnlineRefused(f"The folder {self._folder} is not the platform's own; look at [features] in falaj.toml.")
        return OnlineUnavailable(f"The online store in {self._folder} does not answer: {error}")


def _place(stored: Stored) -> bytes:
    return stored.place


def _lmdb() -> Any:
    """The vendor's library, loaded when a store needs it: it is an extra."""
    try:
        import lmdb
    except ImportError:
        raise Misconfigured("The online store needs a library that is not here: pip install lmdb") from None
    return lmdb
