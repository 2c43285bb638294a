"""The room's tables."""

from typing import Any, Final, TypeAlias

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Row, String, Table, Text

from falaj.database.work import metadata

Found: TypeAlias = Row[Any]  # a row as it was read, so that other modules need not know SQLAlchemy

# One for an endpoint at most. `wishes` is what was asked for, and `wisher` by whom and with which right, as JSON.
monitors: Final = Table(
    "monitoring_monitors",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("endpoint", String(32), nullable=False, unique=True),
    Column("wishes", Text, nullable=False),
    Column("created", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("changed_by", String(32), nullable=False),
    Column("wisher", Text, nullable=False),
    Index("monitoring_monitors_of_project", "project", "id"),
)
# What a revision is held against: the document is sealed in `blob`, for it has values of the data. `key` is of its plan: what
# planes count by. `standing` is what people are told of it, and `closed` the start of the last window that was closed.
references: Final = Table(
    "monitoring_references",
    metadata,
    Column("monitor", String(32), ForeignKey("monitoring_monitors.id"), primary_key=True),
    Column("revision", BigInteger, primary_key=True),
    Column("project", String(32), nullable=False),
    Column("revision_id", String(32), nullable=False),
    Column("zone", String(100), nullable=False),
    Column("key", String(32), nullable=False),
    Column("blob", String(32), nullable=False),
    Column("standing", Text, nullable=False),
    Column("closed", BigInteger, nullable=False),
    Column("late", BigInteger, nullable=False),  # rows that came after their window had been closed
    Index("monitoring_references_in_zone", "zone", "revision_id"),
)
# What the detectors have come to (JSON, numbers alone): by slot of the season, for a window needs those of its own.
detectors: Final = Table(
    "monitoring_detectors",
    metadata,
    Column("monitor", String(32), ForeignKey("monitoring_monitors.id"), primary_key=True),
    Column("revision", BigInteger, primary_key=True),
    Column("slot", String(10), primary_key=True),
    Column("standing", Text, nullable=False),
)
# What planes sent, sealed, until its window is closed.
pieces: Final = Table(
    "monitoring_pieces",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("monitor", String(32), ForeignKey("monitoring_monitors.id"), nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("key", String(32), nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("blob", String(32), nullable=False),
    Column("came", BigInteger, nullable=False),
    Index("monitoring_pieces_by_end", "until", "monitor", "revision", "at", "came"),
    Index("monitoring_pieces_of_window", "monitor", "revision", "at"),
)
# `found` is JSON: by column, what came out of it. The counts and sketches are sealed in `blob`. Windows of a monitor that is no
# more are left for the one who clears away what is old: they may be very many.
windows: Final = Table(
    "monitoring_windows",
    metadata,
    Column("monitor", String(32), primary_key=True),
    Column("revision", BigInteger, primary_key=True),
    Column("at", BigInteger, primary_key=True),
    Column("project", String(32), nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("key", String(32), nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("missed", BigInteger, nullable=False),
    Column("found", Text, nullable=False),
    Column("blob", String(32), nullable=False),
    Index("monitoring_windows_by_end", "until"),
)
# `key` is what makes two sightings one alert; it is open while `resolved` is null. `opened` is when it was raised or came back.
alerts: Final = Table(
    "monitoring_alerts",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("monitor", String(32), nullable=False),
    Column("endpoint", String(32), nullable=False),
    Column("endpoint_name", String(100), nullable=False),
    Column("key", String(100), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("severity", String(10), nullable=False),
    Column("title", Text, nullable=False),
    Column("told", Text, nullable=False),  # JSON: sentences, features, numbers
    Column("raised", BigInteger, nullable=False),
    Column("opened", BigInteger, nullable=False),
    Column("seen", BigInteger, nullable=False),
    Column("sightings", BigInteger, nullable=False),
    Column("acknowledged", BigInteger),
    Column("acknowledged_by", String(32), nullable=False),
    Column("resolved", BigInteger),
    Column("notified", BigInteger),
    Column("escalated", BigInteger),
    Column("posted", Text, nullable=False),  # JSON: when people were told within a day
    Index("monitoring_alerts_of_project", "project", "id"),
    Index("monitoring_alerts_open", "monitor", "key", "resolved"),
    Index("monitoring_alerts_of_endpoint", "endpoint", "opened"),
    Index("monitoring_alerts_by_end", "resolved", "id"),
)
# What an alert made happen, or would: waiting (for somebody's approval), ready (to be done), done, refused or failed.
actions: Final = Table(
    "monitoring_actions",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("alert", String(32), ForeignKey("monitoring_alerts.id"), nullable=False),
    Column("monitor", String(32), nullable=False),
    Column("kind", String(20), nullable=False),
    Column("state", String(10), nullable=False),
    Column("words", Text, nullable=False),
    Column("wanted", Text, nullable=False),  # JSON: what is to be done
    Column("wisher", Text, nullable=False),  # of the monitor, as it was when the alert was raised
    Column("at", BigInteger, nullable=False),
    Column("decided", BigInteger),
    Column("decided_by", String(32), nullable=False),
    Index("monitoring_actions_of_alert", "alert", "id"),
    Index("monitoring_actions_of_monitor", "monitor", "kind", "at"),
    Index("monitoring_actions_by_state", "state", "id"),
)
# Where alerts are sent: the address is sealed, for it has secrets in it; `shown` is what people see of it.
channels: Final = Table(
    "monitoring_channels",
    metadata,
    Column("project", String(32), primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("kind", String(10), nullable=False),
    Column("shown", Text, nullable=False),
    Column("blob", String(32), nullable=False),
    Column("changed", BigInteger, nullable=False),
    Column("changed_by", String(32), nullable=False),
)
# What is told of alerts: `event` is JSON, and empty once it was sent or given up.
outbox: Final = Table(
    "monitoring_outbox",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("alert", String(32), ForeignKey("monitoring_alerts.id"), nullable=False),
    Column("channel", String(100), nullable=False),
    Column("what", String(10), nullable=False),
    Column("event", Text, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("due", BigInteger),  # null once it was sent or given up
    Column("sent", BigInteger),
    Column("problem", Text, nullable=False),
    Index("monitoring_outbox_due", "due"),
    Index("monitoring_outbox_of_alert", "alert", "id"),
)
