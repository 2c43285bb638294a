"""Telling changed, removed and reordered leaves apart, from the hashes that were expected and those that were found."""

from falaj.governance.ledger.reports import Findings, Found

MOST = 100_000


class Misplaced:
    """Positions whose leaf is not the one its hash was taken of. In bounded memory: beyond `MOST` only a count is kept."""

    def __init__(self) -> None:
        self._expected: dict[int, bytes | None] = {}
        self._found: dict[int, bytes] = {}
        self._beyond = 0
        self._end: int | None = None

    def differs(self, index: int, found: bytes, expected: bytes) -> None:
        if len(self._expected) < MOST:
            self._expected[index], self._found[index] = expected, found
        else:
            self._beyond += 1

    def gap(self, index: int, expected: bytes | None) -> None:
        if len(self._expected) < MOST:
            self._expected[index] = expected
        else:
            self._beyond += 1

    def forget(self, index: int) -> None:
        self._expected.pop(index, None)
        self._found.pop(index, None)

    def truncated_from(self, index: int) -> None:
        """Leaves missing at the end are a truncation, not removals; their hashes still tell which were moved forward."""
        self._end = index

    def report(self, findings: Findings) -> None:
        home = {expected: index for index, expected in self._expected.items() if expected is not None}
        moved = {index: home[found] for index, found in self._found.items() if found in home}
        elsewhere = set(moved.values())
        changed = {index for index in self._found if index not in moved}
        removed = [
            index
            for index in self._expected
            if index not in elsewhere and index not in changed and (self._end is None or index < self._end)
        ]
        for first, last in _runs(sorted(changed)):
            findings.add(Found.LEAF_CHANGED, f"{_named(first, last)} changed after being signed.", first=first, last=last)
        for first, last in _runs(sorted(removed)):
            findings.add(Found.LEAF_REMOVED, f"{_named(first, last)} removed.", first=first, last=last)
        self._report_moved(moved, findings)
        findings.omitted += self._beyond

    def _report_moved(self, moved: dict[int, int], findings: Findings) -> None:
        swapped = {index for index, origin in moved.items() if moved.get(origin) == index}
        for index in sorted(swapped):
            if index < moved[index]:
                message = f"Leaves {index} and {moved[index]} were reordered: each stands in the other's place."
                findings.add(Found.LEAVES_REORDERED, message, first=index, last=moved[index])
        shifts: dict[int, list[int]] = {}
        for index, origin in moved.items():
            if index not in swapped:
                shifts.setdefault(origin - index, []).append(index)
        for shift, places in sorted(shifts.items()):
            for first, last in _runs(sorted(places)):
                signed = f"{first + shift} to {last + shift}" if first != last else str(first + shift)
                way = "earlier" if shift > 0 else "later"
                message = f"Leaves were reordered: what was signed at {signed} now stands {abs(shift)} {way}."
                findings.add(Found.LEAVES_REORDERED, message, first=first, last=last)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Consecutive numbers as (first, last)."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _named(first: int, last: int) -> str:
    return f"Leaf {first} was" if first == last else f"Leaves {first} to {last} were"
