"""Checking heads: signatures, the chain, the copies outside, and a head that an auditor kept."""

import heapq
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from falaj.governance.ledger.copies import read_copy
from falaj.governance.ledger.heads import Head
from falaj.governance.ledger.reports import Findings, Found
from falaj.governance.ledger.signatures import is_genuine

MOST_STRAY_HEADS = 10_000


class HeadChecks:
    """Heads and their copies: signatures, the chain, and what one has that the other lacks."""

    def __init__(self, keys: Mapping[str, bytes], findings: Findings, arrived: Callable[[Head], bool]) -> None:
        self._keys = keys
        self._findings = findings
        self._arrived = arrived
        self.forged: set[int] = set()
        self.strays: list[Head] = []  # genuine heads that the database does not have
        self.newest: Head | None = None
        self.covered = 0  # leaves under the largest genuine head from anywhere
        self.covering: Head | None = None
        self.count = 0
        self.notes: list[str] = []

    def check_chain(self, heads: Iterator[Head]) -> None:
        previous: Head | None = None
        for head in heads:
            self.count += 1
            if not is_genuine(head, self._keys):
                self.forged.add(head.size)
                why = "its signature does not hold" if head.key in self._keys else f"nobody vouches for its key {head.key!r}"
                message = f"The head of {head.size} leaves, dated {head.at}, is forged: {why}."
                self._findings.add(Found.HEAD_FORGED, message, at=head.at)
            else:
                self._cover(head)
                if previous is None or previous.size not in self.forged:
                    self._check_link(previous, head)
            previous = self.newest = head

    def _check_link(self, previous: Head | None, head: Head) -> None:
        if head.previous == (previous.digest() if previous else ""):
            return
        place = f"after the one of {previous.size} leaves" if previous else "at the beginning"
        self._findings.add(
            Found.HEAD_MISSING,
            f"The head of {head.size} leaves signed at {head.at} does not follow the one before it: a head {place} is missing.",
            at=head.at,
        )

    def check_copy(self, file: Path, heads: Iterator[Head]) -> None:
        """Walk a copy and the stored heads side by side, both by size."""
        altered: set[int] = set()
        stored, beyond = next(heads, None), None
        for number, copied in self._genuine_lines(file, altered):
            while stored is not None and stored.size < copied.size:
                if stored.size not in altered:
                    message = f"{file} lacks the head of {stored.size} leaves signed at {stored.at}."
                    self._findings.add(Found.COPY_INCOMPLETE, message, at=stored.at)
                stored = next(heads, None)
            if stored is None:
                if self._arrived(copied):
                    return
                beyond = copied
                self._stray(copied)
            elif stored.size > copied.size:
                self._stray(copied)
                message = f"The head of {copied.size} leaves signed at {copied.at} is in {file} but not in the database."
                self._findings.add(Found.HEAD_MISSING, message, at=copied.at)
            else:
                self._compare(stored, copied, f"line {number} of {file}")
                stored = next(heads, None)
        if beyond is not None:
            self._rolled_back(beyond, str(file))
        elif stored is not None:
            self.notes.append(f"{file} ends before the head of {stored.size} leaves signed at {stored.at}; it will catch up.")

    def _genuine_lines(self, file: Path, altered: set[int]) -> Iterator[tuple[int, Head]]:
        """The heads of a copy with their line numbers; what was altered is named, and its size noted where it has one."""
        last = 0
        for number, copied in enumerate(read_copy(file), start=1):
            if copied is None:
                why = "is not a head"
            elif copied.size <= last:
                why = "is out of order"
            elif not is_genuine(copied, self._keys):
                why = "is not signed"
            else:
                last = copied.size
                yield number, copied
                continue
            if copied is not None:
                altered.add(copied.size)
            self._findings.add(Found.COPY_ALTERED, f"Line {number} of {file} {why}: the copy was altered.")

    def check_expected(self, expected: Head, heads: Iterator[Head]) -> None:
        if not is_genuine(expected, self._keys):
            self._findings.add(Found.HEAD_FORGED, "The head that was handed in has no valid signature.", at=expected.at)
            return
        stored = next((head for head in heads if head.size >= expected.size), None)
        if stored is None and self._arrived(expected):
            self.notes.append("The head that was handed in is newer than this verification; run it again.")
        elif stored is None:
            self._stray(expected)
            self._rolled_back(expected, "the head that was handed in")
        elif stored.size > expected.size:
            self._stray(expected)
            message = f"The head of {expected.size} leaves that was handed in, signed at {expected.at}, is not in the database."
            self._findings.add(Found.HEAD_MISSING, message, at=expected.at)
        else:
            self._compare(stored, expected, "the head that was handed in")

    def _compare(self, stored: Head, other: Head, where: str) -> None:
        if stored == other:
            return
        self._stray(other)
        if stored.size not in self.forged:  # a forged one was named already
            self._findings.add(
                Found.HEAD_CONTRADICTED,
                f"The stored head of {stored.size} leaves, signed at {stored.at}, differs from {where}, signed at {other.at},"
                " though both signatures hold: two histories were signed.",
                at=other.at,
            )

    def _rolled_back(self, head: Head, where: str) -> None:
        size = self.newest.size if self.newest else 0
        self._findings.add(
            Found.HEAD_ROLLED_BACK,
            f"The newest stored head covers {size} leaves, but {where} has one signed at {head.at} that covers {head.size}.",
            at=head.at,
        )

    def _stray(self, head: Head) -> None:
        self._cover(head)
        if len(self.strays) < MOST_STRAY_HEADS:
            self.strays.append(head)

    def _cover(self, head: Head) -> None:
        if head.size > self.covered:
            self.covered, self.covering = head.size, head

    def checkpoints(self, heads: Iterator[Head]) -> Iterator[Head]:
        """Every genuine head there is, by size: the roots that the leaves must add up to."""
        genuine = (head for head in heads if head.size not in self.forged)
        return heapq.merge(genuine, sorted(self.strays, key=lambda head: head.size), key=lambda head: head.size)
