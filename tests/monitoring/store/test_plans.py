"""What loops ask every second or minute is found by an index: it costs no more because much lies there that is over."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event

from falaj.base.clock import Moment
from falaj.database.migrations import migrate
from falaj.database.sqlite import sqlite_engine
from falaj.database.work import UnitOfWork
from falaj.monitoring.store import abtests, alerts, labels, monitors, windows

NOW = Moment(10**15)
FEW = ("monitoring_monitors", "monitoring_labellings")  # tables that hold no more than there are endpoints
_EMPTY = ("SCAN CONSTANT ROW", "SCAN (subquery-1)")  # an empty list of what is left out
ASKED: dict[str, tuple[Callable[[UnitOfWork], Any], tuple[str, ...]]] = {
    "open alerts": (lambda work: alerts.open_after(work, "", 200), ()),
    "alerts that were over long ago": (lambda work: alerts.forget_over(work, NOW, 200), ()),
    "actions to be done": (lambda work: alerts.ready_actions(work, 20), ()),
    "actions to be done but for some": (lambda work: alerts.ready_actions(work, 20, {"a", "b"}), ()),
    "revisions that nothing watches": (monitors.unwatched, FEW),
    "windows that are over": (lambda work: windows.due(work, NOW, 50, {"a"}, old=5), ()),
    "windows since an alert": (lambda work: windows.looked_at(work, "a", 1, 5, 5), ()),
    "many small batches": (lambda work: labels.crowded(work, 500, 50, 20), FEW),
    "calls that are not found yet": (lambda work: labels.not_indexed(work, "a", "", 50), ()),
    "calls that are logged no more": (lambda work: labels.index_of_gone(work, 10), ("monitoring_indexed",)),
    "A/B tests that go on": (lambda work: abtests.running(work, "", 20), ()),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    found = sqlite_engine(tmp_path_factory.mktemp("plans") / "falaj.sqlite", writes=True)
    migrate(found)
    yield found
    found.dispose()


def plans(engine: Engine, asked: Callable[[UnitOfWork], Any]) -> list[str]:
    """How SQLite finds what is selected."""
    said: list[tuple[str, Any]] = []

    def hear(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        said.append((statement, parameters))

    with engine.begin() as connection:
        event.listen(connection, "before_cursor_execute", hear)
        asked(UnitOfWork(connection))
        event.remove(connection, "before_cursor_execute", hear)
        selected = [one for one in said if one[0].startswith("SELECT")]
        return [row[-1] for text, given in selected for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", given)]


@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_again_and_again_is_found_by_an_index(engine: Engine, name: str) -> None:
    asked, allowed = ASKED[name]
    steps = [one for one in plans(engine, asked) if one not in _EMPTY]
    assert steps
    for step in steps:
        assert not (step.startswith("SCAN") and step.split()[1] not in allowed), steps


def test_what_is_not_there_is_looked_up_and_not_listed(engine: Engine) -> None:
    for name in ("calls that are not found yet", "calls that are logged no more"):
        assert not [step for step in plans(engine, ASKED[name][0]) if step.startswith("LIST SUBQUERY")], name


def test_due_windows_and_open_alerts_are_read_in_the_order_in_which_they_lie(engine: Engine) -> None:
    for name in ("windows that are over", "open alerts", "actions to be done", "A/B tests that go on"):
        assert not [step for step in plans(engine, ASKED[name][0]) if "TEMP B-TREE" in step], name
