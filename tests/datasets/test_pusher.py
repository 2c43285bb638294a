"""The pusher in notebooks and services: rows in order, each once, though answers get lost; and what was refused is told."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from falaj.base.errors import Conflict, Invalid, Unavailable
from falaj.client.pushing import Pusher, pusher
from falaj.datasets.operations import datasets, pushing
from tests.datasets.platform import PROJECT, Platform


class Line:
    """The way to the platform: every so many answers get lost after the call was done, or before."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self.calls = 0

    def call(self, operation: Any, request: Any, *, chunks: Any = None) -> Any:
        self.calls += 1
        if self.calls % 3 == 1:
            raise Unavailable("broken before it came", delay=0)
        result = self._platform.call(operation, request, chunks=chunks)
        if self.calls % 3 == 2:
            raise Unavailable("broken after it was done", delay=0)
        return result


def opened(platform: Platform, **fields: Any) -> tuple[Any, Pusher]:
    line: Any = Line(platform)
    return line, pusher("events", project=PROJECT, client=line, create=True, **fields)


def test_rows_come_in_order_and_once_though_answers_get_lost(small: Platform) -> None:
    line, sender = opened(small, rows=5, seconds=60)
    with sender:
        for number in range(23):
            sender.push({"id": number, "at": datetime(2026, 11, 16, 8, 0, number, tzinfo=UTC)})
        sender.flush()
        assert sender.pushed == 23
    assert line.calls == 15  # five pushes, three attempts at each
    small.call(pushing.FLUSH_PUSHES, datasets.OneDataset(project=PROJECT, dataset="events"))
    assert [row[0] for row in small.rows(name="events")] == list(range(23))
    with pytest.raises(Conflict, match="closed"):
        sender.push({"id": 1})


def test_a_row_that_is_refused_is_told_by_its_line_and_what_was_safe_before_stays(small: Platform) -> None:
    _, sender = opened(small, rows=2, seconds=60)
    sender.push({"id": 1}, {"id": 2})
    sender.flush()
    sender.push({"id": 3})
    sender.push({"id": "four"})
    with pytest.raises((Invalid, Conflict), match="Line 4"):
        sender.flush()
    assert sender.pushed == 2
    with pytest.raises((Invalid, Conflict), match="Line 4"):
        sender.close()
    with pytest.raises((Invalid, Conflict), match="Line 4"):
        sender.push({"id": 5})
    small.call(pushing.FLUSH_PUSHES, datasets.OneDataset(project=PROJECT, dataset="events"))
    assert small.rows(name="events") == [(1,), (2,)]


def test_what_waits_long_enough_is_sent_without_being_asked_for(small: Platform) -> None:
    _, sender = opened(small, rows=1000, seconds=0.05)
    sender.push({"id": 1, "price": Decimal("1.50")})
    with sender._changed:
        assert sender._changed.wait_for(lambda: sender.pushed == 1, timeout=30)
    sender.close()


@pytest.mark.parametrize("row", [{"id": float("nan")}, {"id": object()}, {"id": b"bytes"}])
def test_what_is_no_json_is_refused_here(row: dict[str, Any], small: Platform) -> None:
    line, sender = opened(small)
    with sender, pytest.raises(Invalid, match="cannot be written as JSON"):
        sender.push(row)
    assert line.calls == 0
