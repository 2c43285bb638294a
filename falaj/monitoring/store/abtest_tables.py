"""Tables of A/B tests. They hold sums and counts; of a single unit, the digest alone that says that it counted."""

from typing import Final

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, String, Table, Text, UniqueConstraint, text

from falaj.database.work import metadata

# `plan` is what was asked for, `expected` what was said beforehand, `before` the split there was, `arms` the split now,
# `standing` what the contests have come to and `verdict` what was concluded: all JSON. `endpoint_busy` is the endpoint while
# the test goes on, null after that: there is one at a time. `change` is the place of the test's own last change of the split:
# where the endpoint has another, somebody else changed it. `place` is of the last batch of joined rows that was taken in,
# `seen` the end of the last window of calls, `counted` when all planes had taken up the split. `acted` says what was done, or
# why it was not.
abtests: Final = Table(
    "monitoring_abtests",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("endpoint", String(32), nullable=False),
    Column("endpoint_name", String(100), nullable=False),
    Column("endpoint_busy", String(32), unique=True),
    Column("name", String(100), nullable=False),
    Column("state", String(10), nullable=False),
    Column("plan", Text, nullable=False),
    Column("expected", Text, nullable=False),
    Column("incumbent", BigInteger, nullable=False),
    Column("before", Text, nullable=False),
    Column("arms", Text, nullable=False),
    Column("change", BigInteger, nullable=False),
    Column("standing", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("acted", Text, nullable=False),
    Column("place", BigInteger, nullable=False),
    Column("seen", BigInteger, nullable=False),
    Column("started", BigInteger, nullable=False),
    Column("started_by", String(32), nullable=False),
    Column("counted", BigInteger),
    Column("ends", BigInteger, nullable=False),
    Column("ended", BigInteger),
    Column("ended_by", String(32), nullable=False),
    UniqueConstraint("project", "name", name="monitoring_abtests_named"),
    Index("monitoring_abtests_of_project", "project", "id"),
    Index("monitoring_abtests_of_endpoint", "endpoint", "id"),
    Index(
        "monitoring_abtests_going_on",
        "id",
        sqlite_where=text("endpoint_busy IS NOT NULL"),
        postgresql_where=text("endpoint_busy IS NOT NULL"),
    ),
)
# Units that counted, by the metric's place: each counts once. Forgotten when the test is over.
abtest_units: Final = Table(
    "monitoring_abtest_units",
    metadata,
    Column("abtest", String(32), ForeignKey("monitoring_abtests.id"), primary_key=True),
    Column("metric", Integer, primary_key=True),
    Column("unit", String(64), primary_key=True),
)
# How the intervals went, a bounded number of points; `told` is JSON: by candidate, the difference and its interval.
abtest_points: Final = Table(
    "monitoring_abtest_points",
    metadata,
    Column("abtest", String(32), ForeignKey("monitoring_abtests.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("told", Text, nullable=False),
)
