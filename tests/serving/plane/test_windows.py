"""What the taps of several workers saw, put together and cut to the size of reports."""

import random
from dataclasses import replace

import msgspec

from falaj.base.clock import Moment
from falaj.serving.operations.planes import ColumnReport, SampledRow, SketchReport, WatchReport
from falaj.serving.plane import windows
from falaj.serving.plane.windows import Windows

A_REQUEST = 1024 * 1024


def seen(at: int = 0, rows: int = 1, **told) -> WatchReport:
    return WatchReport(endpoint="2" * 32, revision=1, plan="k", at=Moment(at), seconds=60, rows=rows, **told)


def counted(*counts: int, name: str = "age", output: bool = False) -> ColumnReport:
    return ColumnReport(name=name, output=output, counts=counts, finite=sum(counts), total=1.5, squares=2.25)


def taken(held: Windows) -> list[tuple[WatchReport, ...]]:
    """Report by report, until there is nothing more to say."""
    return list(iter(held.take, ()))


def test_what_workers_saw_of_a_window_adds_up_in_any_order():
    told = [
        seen(rows=3, missed=1, columns=(counted(1, 2), counted(3, name="y", output=True))),
        seen(rows=4, columns=(counted(4, 0),)),
        seen(rows=5, columns=(counted(5, 0, name="y"),)),
        seen(at=60, rows=6, columns=(counted(6, 0),)),
    ]
    for order in range(10):
        held = Windows()
        for one in random.Random(order).sample(told, len(told)):
            held.add([one])
        first, second = sorted(held.take(), key=lambda one: one.at)
        assert (first.rows, first.missed, second.rows) == (12, 1, 6)
        assert {(one.name, one.output): (one.counts, one.total) for one in first.columns} == {
            ("age", False): ((5, 2), 3.0),
            ("y", True): ((3,), 1.5),
            ("y", False): ((5, 0), 1.5),
        }
        assert held.take() == ()


def test_what_is_too_large_for_one_report_comes_in_several_and_counts_once():
    held = Windows()
    sketches = tuple(SketchReport(name=f"c{number}", sketch="s" * 6000) for number in range(200))
    rows = tuple(SampledRow(draw=number / 1000, row='["é",1]' * 100) for number in range(1000))
    columns = tuple(counted(*range(20), name=f"c{number}") for number in range(200))
    held.add([seen(at=at, columns=columns, sketches=sketches, sampled=rows) for at in (0, 60)])
    reports = taken(held)
    assert len(reports) > 5
    assert all(len(msgspec.json.encode(one, enc_hook=str)) < A_REQUEST / 2 for one in reports)
    parts = [part for report in reports for part in report if part.at == 60]
    assert sum(part.rows for part in parts) == 1
    assert sum(sum(column.counts) for part in parts for column in part.columns) == 200 * 190
    assert [one for part in parts for one in part.sketches] == list(sketches)
    assert [one for part in parts for one in part.sampled] == list(rows)
    # A row is read by the columns it came with.
    assert all([one.name for one in part.columns] == [one.name for one in columns] for part in parts if part.sampled)


def test_a_window_with_more_columns_than_a_report_has_room_for_comes_to_an_end():
    held = Windows()
    names = [f"c{number}" for number in range(1100)]
    columns, sketches = (counted(*range(20), name=one) for one in names), (SketchReport(name=one, sketch="s") for one in names)
    held.add([seen(columns=tuple(columns), sketches=tuple(sketches), sampled=(SampledRow(draw=0.5, row="[]"),) * 3)])
    reports = taken(held)
    assert len(reports) < 20
    assert sum(len(part.sketches) for report in reports for part in report) == 1100


def test_while_nobody_takes_them_windows_are_bounded_and_what_is_let_go_is_told_as_missed(monkeypatch):
    monkeypatch.setattr(windows, "MOST_BYTES", 1_000_000)
    held = Windows()
    for at in range(500):
        held.add([seen(at=at, columns=(counted(1, 0),), sketches=(SketchReport(name="age", sketch="s" * 10_000),))])
        assert held._bytes <= 1_000_000
    parts = [part for report in taken(held) for part in report]
    assert sum(part.rows for part in parts) + sum(part.missed for part in parts) == 500
    assert sum(part.rows for part in parts if part.at == 499) == 1
    assert sum(part.missed for part in parts if part.at == 0) == 1


def test_there_are_no_more_windows_than_a_report_may_have(monkeypatch):
    monkeypatch.setattr(windows, "MOST_WINDOWS", 10)
    held = Windows()
    held.add([seen(at=at, rows=2, missed=1) for at in range(25)])
    told = held.take()
    assert [int(one.at) for one in told] == list(range(15, 25))
    assert [one.missed for one in told] == [1] * 9 + [1 + 15 * 3]
    assert {one.rows for one in told} == {2}


def test_the_only_window_of_a_revision_is_told_however_many_there_are(monkeypatch):
    monkeypatch.setattr(windows, "MOST_WINDOWS", 1)
    held = Windows()
    held.add([replace(seen(rows=2), revision=revision) for revision in (1, 2, 3)])
    assert [(one.revision, one.rows) for one in held.take()] == [(1, 2), (2, 2), (3, 2)]
