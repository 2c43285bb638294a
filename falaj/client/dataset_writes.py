"""Writing a version from outside: pieces sent, some at a time, again where they got lost, and committed together.

What was sent is not sent again by whoever comes back with the same key.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

from falaj.base.errors import Conflict, TemporaryError
from falaj.base.values import value
from falaj.client.dataset_pieces import PieceToSend
from falaj.client.http import Client
from falaj.datasets.operations.versions import SHOW_VERSION, OneVersion, Version
from falaj.datasets.operations.writing import (
    ABANDON_WRITE,
    COMMIT_WRITE,
    OPEN_WRITE,
    WRITE_PART,
    CommitWrite,
    OneWrite,
    OpenWrite,
    Write,
    WritePart,
)

AT_ONCE: Final = 3
ATTEMPTS: Final = 6
LONGEST_WAIT: Final = 10.0
SLICE: Final = 256 << 10

Watching = Callable[[PieceToSend, bool], None]
"""Told of every piece that is there: which, and whether it was there already."""


@value
class Written:
    """`sent` and `skipped` are numbers of pieces. `again`: it had been written before, and nothing was done now."""

    version: Version
    sent: int
    skipped: int
    again: bool = False


def write(caller: Client, request: OpenWrite, pieces: Iterable[PieceToSend], *, watching: Watching | None = None) -> Written:
    """Where something came between, what was sent is given up; after any other end the same call goes on where it was."""
    opened = caller.call(OPEN_WRITE, request)
    if opened.state == "committed":
        version = OneVersion(project=request.project, dataset=request.dataset, version=str(opened.version))
        return Written(version=caller.call(SHOW_VERSION, version), sent=0, skipped=len(opened.pieces), again=True)
    sending = _Sending(caller, request, opened, watching)
    count = sending.send(pieces)
    commit = CommitWrite(project=request.project, dataset=request.dataset, write=opened.id, pieces=count)
    try:
        version_made = caller.call(COMMIT_WRITE, commit)
    except Conflict:  # a version came between, or columns do not go together: no trying again helps
        sending.give_up()
        raise
    return Written(version=version_made, sent=sending.sent, skipped=sending.skipped)


def send(caller: Client, request: WritePart, content: bytes) -> None:
    """A piece, again where it got lost on the way."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            caller.call(WRITE_PART, request, chunks=_in_slices(content))
            return
        except TemporaryError as error:
            if attempt == ATTEMPTS:
                raise
            time.sleep(min(error.delay * attempt, LONGEST_WAIT))


class _Sending:
    def __init__(self, caller: Client, request: OpenWrite, opened: Write, watching: Watching | None) -> None:
        self._caller, self._request, self._opened = caller, request, opened
        self._known: Mapping[int, str] = {piece.piece: piece.source for piece in opened.pieces}
        self._watching = watching
        self._counting = threading.Lock()
        self.sent = self.skipped = 0

    def send(self, pieces: Iterable[PieceToSend]) -> int:
        """How many there are. The first goes alone, because it may decide the columns."""
        count = 0
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="sending pieces") as pool:
            under_way: set[Future[None]] = set()
            try:
                for piece in pieces:
                    count += 1
                    if piece.number in self._known:
                        self._compare(piece)
                        continue
                    under_way.add(pool.submit(self._send, piece))
                    under_way = _fewer(under_way, 1 if piece.number == 1 else AT_ONCE)
                _fewer(under_way, 1)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return count

    def give_up(self) -> None:
        request = OneWrite(project=self._request.project, dataset=self._request.dataset, write=self._opened.id)
        self._caller.call(ABANDON_WRITE, request)

    def _compare(self, piece: PieceToSend) -> None:
        if self._known[piece.number] != piece.source:
            self.give_up()
            raise Conflict("The rows are not those that this write was begun with. What was sent is given up: begin anew.")
        self.skipped += 1
        self._tell(piece, True)

    def _send(self, piece: PieceToSend) -> None:
        request = WritePart(
            project=self._request.project,
            dataset=self._request.dataset,
            write=self._opened.id,
            piece=piece.number,
            first_line=piece.first_line,
        )
        send(self._caller, request, piece.content)
        with self._counting:
            self.sent += 1
            self._tell(piece, False)

    def _tell(self, piece: PieceToSend, known: bool) -> None:
        if self._watching is not None:
            self._watching(piece, known)


def _in_slices(content: bytes) -> Iterator[bytes]:
    """What a socket does not take at once is copied before the next try: of a whole piece that would be most of the work."""
    for start in range(0, len(content), SLICE):
        yield content[start : start + SLICE]


def _fewer(under_way: set[Future[None]], most: int) -> set[Future[None]]:
    """Wait until fewer than `most` are on their way, and raise what one of them raised."""
    while len(under_way) >= most:
        done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
        for one in done:
            one.result()
    return under_way
