"""What the taps of a host's workers saw, window by window, put together until a report has room for it.

Counts add up here, so that many workers say no more than one. Sketches and sampled rows are only handed on, in parts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from falaj.serving.operations.planes import ColumnReport, SampledRow, SketchReport, WatchReport

_OF_A_REPORT: Final = 192 * 1024  # bytes as JSON, about; a request may have one MiB
MOST_BYTES: Final = 16 * 1024 * 1024  # that are held while nobody takes them
MOST_WINDOWS: Final = 10_000
_BESIDES: Final = 200  # bytes of a report or a part of it, beside what differs
_Key: TypeAlias = tuple[str, int, str, int]


class Windows:
    """Bounded: of the oldest windows, those for which there is no room are told as missed: where there are too many of them, in
    the newest one of their revision."""

    def __init__(self) -> None:
        self._held: dict[_Key, WatchReport] = {}
        self._bytes = 0

    def add(self, reports: Iterable[WatchReport]) -> None:
        for report in reports:
            key = report.endpoint, report.revision, report.plan, int(report.at)
            before = self._held.get(key)
            self._put(key, report if before is None else _added(before, report))
        self._make_room()

    def __bool__(self) -> bool:
        return bool(self._held)

    def take(self) -> tuple[WatchReport, ...]:
        """What one report has room for, the oldest first; the rest is in the next ones."""
        taken, room = list[WatchReport](), _OF_A_REPORT
        for key, report in list(self._held.items()):
            if taken and _weight(replace(report, sketches=(), sampled=())) > room:
                break
            part, rest = _cut(report, room)
            taken.append(part)
            room -= _weight(part)
            self._put(key, rest)
            if room <= 0:
                break
        return tuple(taken)

    def _put(self, key: _Key, report: WatchReport | None) -> None:
        before = self._held.get(key)
        self._bytes -= _weight(before) if before is not None else 0
        if report is None:
            self._held.pop(key, None)
        else:
            self._held[key] = report
            self._bytes += _weight(report)

    def _make_room(self) -> None:
        if self._bytes > MOST_BYTES:
            for key, report in list(self._held.items()):
                missed = report.missed + report.rows
                self._put(key, replace(report, rows=0, missed=missed, columns=(), sketches=(), sampled=()))
                if self._bytes <= MOST_BYTES // 2:
                    break
        if len(self._held) > MOST_WINDOWS:
            newest = {key[:2]: key for key in self._held}
            for key in list(self._held)[: len(self._held) - MOST_WINDOWS]:
                self._move(key, newest[key[:2]])

    def _move(self, old: _Key, new: _Key) -> None:
        """The last one of a revision stays."""
        if old != new:
            gone, kept = self._held[old], self._held[new]
            self._put(old, None)
            self._put(new, replace(kept, missed=kept.missed + gone.missed + gone.rows))


def _added(before: WatchReport, more: WatchReport) -> WatchReport:
    return replace(
        before,
        rows=before.rows + more.rows,
        missed=before.missed + more.missed,
        columns=_columns_added(before.columns, more.columns),
        sketches=before.sketches + more.sketches,
        sampled=before.sampled + more.sampled,
    )


def _columns_added(before: tuple[ColumnReport, ...], more: tuple[ColumnReport, ...]) -> tuple[ColumnReport, ...]:
    known = {(one.output, one.name): one for one in before}
    for one in more:
        had = known.get((one.output, one.name))
        known[one.output, one.name] = one if had is None else _column_added(had, one)
    return tuple(known.values())


def _column_added(before: ColumnReport, more: ColumnReport) -> ColumnReport:
    return replace(
        before,
        counts=tuple(map(sum, zip(before.counts, more.counts, strict=True)))
        if len(before.counts) == len(more.counts)
        else before.counts or more.counts,
        finite=before.finite + more.finite,
        total=before.total + more.total,
        squares=before.squares + more.squares,
    )


def _cut(report: WatchReport, room: int) -> tuple[WatchReport, WatchReport | None]:
    """All counts, and as many sketches and sampled rows as there is room for; and the rest, which counts for nothing more."""
    room -= _weight(replace(report, sketches=(), sampled=()))
    sketches, room = _fitting(report.sketches, room)
    sampled, room = _fitting(report.sampled, room)
    part = replace(report, sketches=report.sketches[:sketches], sampled=report.sampled[:sampled])
    if sketches == len(report.sketches) and sampled == len(report.sampled):
        return part, None
    left = report.sampled[sampled:]
    named = tuple(ColumnReport(name=one.name, output=one.output) for one in report.columns) if left else ()
    return part, replace(report, rows=0, missed=0, columns=named, sketches=report.sketches[sketches:], sampled=left)


def _fitting(parts: Sequence[SketchReport | SampledRow], room: int) -> tuple[int, int]:
    """How many of them there is room for, one at least, and what is left of it."""
    for count, one in enumerate(parts):
        if (weight := _weight_of_part(one)) > room and count:
            return count, room
        room -= weight
    return len(parts), room


def _weight_of_part(one: SketchReport | SampledRow) -> int:
    """Of a row as well what escaping its quotes takes."""
    return _BESIDES + (len(one.sketch) if isinstance(one, SketchReport) else 2 * len(one.row.encode()))


def _weight(report: WatchReport) -> int:
    columns = sum(_BESIDES + len(one.name) + 8 * len(one.counts) for one in report.columns)
    return _BESIDES + columns + sum(map(_weight_of_part, report.sketches)) + sum(map(_weight_of_part, report.sampled))
