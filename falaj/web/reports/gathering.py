"""What a report on an endpoint is made of, asked for by its reader's own right: what they may not see is not in it."""

from typing import Any, Final, Protocol

from falaj.base.errors import Forbidden, NotFound
from falaj.base.operation import Operation, Req, Res
from falaj.base.values import value
from falaj.monitoring.operations import abtests, alerts, labels, monitors, objectives
from falaj.web.monitoring.words import foremost

MOST_ALERTS: Final = 30
MOST_WINDOWS: Final = 96
MOST_SPREADS: Final = 6
MOST_TESTS: Final = 3


class Ask(Protocol):
    """Calls an operation; raises what it raises."""

    def __call__(self, operation: Operation[Req, Res], request: Req) -> Res: ...


@value
class Gathered:
    """`withheld` says what is not in it, and why."""

    project: str
    endpoint: str
    days: int
    monitor: monitors.Monitor
    windows: monitors.Windows | None
    alerts: tuple[alerts.Alert, ...]
    spreads: tuple[monitors.Spread, ...]
    quality: labels.Quality | None
    objectives: objectives.Objectives | None
    abtests: tuple[abtests.Abtest, ...]
    withheld: tuple[str, ...]


def gathered(ask: Ask, project: str, endpoint: str, *, days: int = 30) -> Gathered:
    """Raises `NotFound` where the endpoint is not watched."""
    withheld: list[str] = []

    def asked(what: str, operation: Operation[Any, Res], request: Any) -> Res | None:
        try:
            return ask(operation, request)
        except (Forbidden, NotFound) as error:
            withheld.append(f"{what}: {error}")
            return None

    of: dict[str, Any] = {"project": project, "endpoint": endpoint}
    monitor = ask(monitors.SHOW_MONITOR, monitors.OneMonitor(**of))
    windows = (
        asked("Windows", monitors.READ_WINDOWS, monitors.ReadWindows(**of, limit=MOST_WINDOWS)) if monitor.watching else None
    )
    told = asked("Alerts", alerts.LIST_ALERTS, alerts.ListAlerts(**of, which="all", limit=MOST_ALERTS))
    tests = asked("A/B tests", abtests.LIST_ABTESTS, abtests.ListAbtests(**of, limit=MOST_TESTS))
    watching = foremost(monitor)
    furthest = watching.columns[:MOST_SPREADS] if watching is not None else ()
    revision = watching.revision if watching is not None else 0
    spreads = [
        asked(f"Column {one.column}", monitors.READ_COLUMN, monitors.ReadColumn(**of, column=one.column, revision=revision))
        for one in furthest
    ]
    return Gathered(
        project=project,
        endpoint=endpoint,
        days=days,
        monitor=monitor,
        windows=windows,
        alerts=told.items if told is not None else (),
        spreads=tuple(one for one in spreads if one is not None),
        quality=asked("Quality", labels.READ_QUALITY, labels.ReadQuality(**of, days=days)),
        objectives=asked("Objectives", objectives.READ_OBJECTIVES, objectives.ReadObjectives(**of)),
        abtests=tests.items if tests is not None else (),
        withheld=tuple(withheld),
    )
