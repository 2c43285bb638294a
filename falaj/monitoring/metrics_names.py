"""What Prometheus is told of monitors, alerts and objectives: the names that rules and dashboard in `deploy` are built on."""

from typing import Final, Literal, get_args

from falaj.base.values import value
from falaj.monitoring.operations.words import AlertKind, Severity

_OF_ENDPOINT: Final = ("project", "endpoint")
_OF_REVISION: Final = (*_OF_ENDPOINT, "revision")
_OF_COLUMN: Final = (*_OF_REVISION, "column")
_DRIFTING: Final = "falaj_monitor_drifting_columns"
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
KINDS: Final[tuple[AlertKind, ...]] = get_args(AlertKind)
OUTCOMES: Final = ("sent", "failed", "given-up")  # of an attempt to send; what failed is tried again
WINDOWS: Final = {300: "5m", 1800: "30m", 3600: "1h", 21_600: "6h", 259_200: "3d"}  # seconds, and the label they are shown by


@value
class Metric:
    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...]


DRIFT_EFFECT: Final = Metric(
    name="falaj_monitor_drift_effect",
    kind="gauge",
    help="How far a column was from its reference in the last window, from 0 to 1.",
    labels=_OF_COLUMN,
)
EVIDENCE_RATIO: Final = Metric(
    name="falaj_monitor_evidence_ratio",
    kind="gauge",
    help="Evidence that a revision's traffic changed, over the threshold: from 1 on it is more than chance. "
    f"Whether it matters, {_DRIFTING} tells.",
    labels=_OF_REVISION,
)
DRIFTING_COLUMNS: Final = Metric(
    name=_DRIFTING,
    kind="gauge",
    help="Columns that drift: they are as far from their reference as the monitor's floor, beyond chance.",
    labels=_OF_REVISION,
)
ROWS_DRIFTING: Final = Metric(
    name="falaj_monitor_rows_drifting",
    kind="gauge",
    help="1 where rows as a whole drift, all columns together, and 0 where they do not.",
    labels=_OF_REVISION,
)
ROWS: Final = Metric(
    name="falaj_monitor_rows_total", kind="counter", help="Rows that a monitor looked at.", labels=_OF_REVISION
)
ROWS_MISSED: Final = Metric(
    name="falaj_monitor_rows_missed_total",
    kind="counter",
    help="Rows that were answered and that a monitor did not look at.",
    labels=_OF_REVISION,
)
WINDOW_AGE: Final = Metric(
    name="falaj_monitor_window_age_seconds",
    kind="gauge",
    help="Time since the end of the last window that was decided on.",
    labels=_OF_ENDPOINT,
)
MISSING_SHARE: Final = Metric(
    name="falaj_monitor_missing_share",
    kind="gauge",
    help="Share of the last window's rows without a value in a column.",
    labels=_OF_COLUMN,
)
MISSING_RISE: Final = Metric(
    name="falaj_monitor_missing_rise",
    kind="gauge",
    help="How many more of the rows are without a value in a column than in its reference, as a share; "
    "0 where that is less than the monitor's floor, or may be chance.",
    labels=_OF_COLUMN,
)
ALERTS_OPEN: Final = Metric(
    name="falaj_alerts_open", kind="gauge", help="Alerts that are open.", labels=(*_OF_ENDPOINT, "kind", "severity")
)
ALERT_POSTS: Final = Metric(
    name="falaj_alert_posts_total",
    kind="counter",
    help=f"Attempts to send a message about an alert, by outcome: {', '.join(OUTCOMES)}.",
    labels=("project", "outcome"),
)
BUDGET_LEFT: Final = Metric(
    name="falaj_slo_budget_left",
    kind="gauge",
    help="Share of an objective's error budget that is left; below 0 it is overspent.",
    labels=(*_OF_ENDPOINT, "objective"),
)
BURN_RATE: Final = Metric(
    name="falaj_slo_burn_rate",
    kind="gauge",
    help="How many times faster than allowed an objective's error budget was spent in a window.",
    labels=(*_OF_ENDPOINT, "objective", "window"),
)
METRICS: Final = (
    DRIFT_EFFECT,
    EVIDENCE_RATIO,
    DRIFTING_COLUMNS,
    ROWS_DRIFTING,
    ROWS,
    ROWS_MISSED,
    WINDOW_AGE,
    MISSING_SHARE,
    MISSING_RISE,
    ALERTS_OPEN,
    ALERT_POSTS,
    BUDGET_LEFT,
    BURN_RATE,
)
