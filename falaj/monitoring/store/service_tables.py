"""Tables of what calls did, as objectives need it for longer than minutes are looked at: numbers only.

Nothing here refers to the table of monitors, for what is left over when one ends is forgotten with time.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text

from falaj.database.work import metadata
from falaj.serving.counts import FIELDS

# What live revisions of an endpoint did, hour by hour. An hour without a call has one row, of revision 0.
hours: Final = Table(
    "monitoring_hours",
    metadata,
    Column("endpoint", String(32), primary_key=True),
    Column("at", BigInteger, primary_key=True),
    Column("revision", Integer, primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in FIELDS),
    Column("latencies", Text, nullable=False),
    Index("monitoring_hours_by_age", "at"),
)
# How the objectives of a monitor stood when they were looked at last; `told` is JSON.
standings: Final = Table(
    "monitoring_standings",
    metadata,
    Column("monitor", String(32), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("told", Text, nullable=False),
)
# Rows that a monitor ever looked at, and did not: windows are forgotten, and a count must not shrink. `counted` is the start of
# the last window that is in them, `late` what the reference told of late rows then.
totals: Final = Table(
    "monitoring_totals",
    metadata,
    Column("monitor", String(32), primary_key=True),
    Column("revision", BigInteger, primary_key=True),
    Column("counted", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("missed", BigInteger, nullable=False),
    Column("late", BigInteger, nullable=False),
)
# Attempts to send a message, by what they ever came to: messages are forgotten, and a count must not shrink.
posts: Final = Table(
    "monitoring_posts",
    metadata,
    Column("project", String(32), primary_key=True),
    *(Column(name, BigInteger, nullable=False) for name in ("sent", "failed", "given_up")),
)
