"""Monitors, alerts, labels and A/B tests."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.create_table(
        "monitoring_abtests",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("endpoint_name", sa.String(length=100), nullable=False),
        sa.Column("endpoint_busy", sa.String(length=32), nullable=True),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("plan", sa.Text(), nullable=False),
        sa.Column("expected", sa.Text(), nullable=False),
        sa.Column("incumbent", sa.BigInteger(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("arms", sa.Text(), nullable=False),
        sa.Column("change", sa.BigInteger(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("acted", sa.Text(), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("started_by", sa.String(length=32), nullable=False),
        sa.Column("counted", sa.BigInteger(), nullable=True),
        sa.Column("ends", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.Column("ended_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("endpoint_busy"),
        sa.UniqueConstraint("project", "name", name="monitoring_abtests_named"),
    )
    op.create_index(
        "monitoring_abtests_going_on",
        "monitoring_abtests",
        ["id"],
        unique=False,
        sqlite_where=sa.text("endpoint_busy IS NOT NULL"),
        postgresql_where=sa.text("endpoint_busy IS NOT NULL"),
    )
    op.create_index("monitoring_abtests_of_endpoint", "monitoring_abtests", ["endpoint", "id"], unique=False)
    op.create_index("monitoring_abtests_of_project", "monitoring_abtests", ["project", "id"], unique=False)
    op.create_table(
        "monitoring_alerts",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("monitor", sa.String(length=32), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("endpoint_name", sa.String(length=100), nullable=False),
        sa.Column("key", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("severity", sa.String(length=10), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.Column("raised", sa.BigInteger(), nullable=False),
        sa.Column("opened", sa.BigInteger(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("sightings", sa.BigInteger(), nullable=False),
        sa.Column("acknowledged", sa.BigInteger(), nullable=True),
        sa.Column("acknowledged_by", sa.String(length=32), nullable=False),
        sa.Column("resolved", sa.BigInteger(), nullable=True),
        sa.Column("notified", sa.BigInteger(), nullable=True),
        sa.Column("escalated", sa.BigInteger(), nullable=True),
        sa.Column("posted", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("monitoring_alerts_by_end", "monitoring_alerts", ["resolved", "id"], unique=False)
    op.create_index("monitoring_alerts_of_endpoint", "monitoring_alerts", ["endpoint", "opened"], unique=False)
    op.create_index("monitoring_alerts_of_project", "monitoring_alerts", ["project", "id"], unique=False)
    op.create_index("monitoring_alerts_open", "monitoring_alerts", ["monitor", "key", "resolved"], unique=False)
    op.create_table(
        "monitoring_channels",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("shown", sa.Text(), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("project", "name"),
    )
    op.create_table(
        "monitoring_hours",
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("shed", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("batches", sa.BigInteger(), nullable=False),
        sa.Column("compared", sa.BigInteger(), nullable=False),
        sa.Column("differed", sa.BigInteger(), nullable=False),
        sa.Column("unlogged", sa.BigInteger(), nullable=False),
        sa.Column("latencies", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("endpoint", "at", "revision"),
    )
    op.create_index("monitoring_hours_by_age", "monitoring_hours", ["at"], unique=False)
    op.create_table(
        "monitoring_indexed",
        sa.Column("batch", sa.String(length=32), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("batch"),
    )
    op.create_index("monitoring_indexed_of_endpoint", "monitoring_indexed", ["endpoint", "batch"], unique=False)
    op.create_table(
        "monitoring_label_batches",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("last", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("monitoring_label_batches_by_age", "monitoring_label_batches", ["at"], unique=False)
    op.create_index("monitoring_label_batches_by_size", "monitoring_label_batches", ["endpoint", "rows", "place"], unique=False)
    op.create_index("monitoring_label_batches_by_time", "monitoring_label_batches", ["endpoint", "last"], unique=False)
    op.create_index("monitoring_label_batches_in_order", "monitoring_label_batches", ["endpoint", "place"], unique=True)
    op.create_table(
        "monitoring_labellings",
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("places", sa.BigInteger(), nullable=False),
        sa.Column("judged", sa.BigInteger(), nullable=False),
        sa.Column("taken", sa.BigInteger(), nullable=False),
        sa.Column("repeated", sa.BigInteger(), nullable=False),
        sa.Column("refused", sa.BigInteger(), nullable=False),
        sa.Column("unknown", sa.BigInteger(), nullable=False),
        sa.Column("names", sa.Text(), nullable=False),
        sa.Column("gathered", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("endpoint"),
    )
    op.create_table(
        "monitoring_labels",
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("said", sa.String(length=64), nullable=False),
        sa.Column("batch", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("endpoint", "key"),
    )
    op.create_index("monitoring_labels_of_batch", "monitoring_labels", ["batch"], unique=False)
    op.create_table(
        "monitoring_monitors",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("wishes", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.String(length=32), nullable=False),
        sa.Column("wisher", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("endpoint"),
    )
    op.create_index("monitoring_monitors_of_project", "monitoring_monitors", ["project", "id"], unique=False)
    op.create_table(
        "monitoring_posts",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("sent", sa.BigInteger(), nullable=False),
        sa.Column("failed", sa.BigInteger(), nullable=False),
        sa.Column("given_up", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project"),
    )
    op.create_table(
        "monitoring_predictions",
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("batch", sa.String(length=32), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("row", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("caller", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("endpoint", "key", "batch", "place", "row"),
    )
    op.create_index("monitoring_predictions_by_caller", "monitoring_predictions", ["endpoint", "key", "caller"], unique=False)
    op.create_index("monitoring_predictions_by_time", "monitoring_predictions", ["endpoint", "key", "at"], unique=False)
    op.create_index("monitoring_predictions_of_batch", "monitoring_predictions", ["batch"], unique=False)
    op.create_table(
        "monitoring_standings",
        sa.Column("monitor", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("monitor"),
    )
    op.create_table(
        "monitoring_totals",
        sa.Column("monitor", sa.String(length=32), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("counted", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.Column("late", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("monitor", "revision"),
    )
    op.create_table(
        "monitoring_windows",
        sa.Column("monitor", sa.String(length=32), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("missed", sa.BigInteger(), nullable=False),
        sa.Column("found", sa.Text(), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("monitor", "revision", "at"),
    )
    op.create_index("monitoring_windows_by_end", "monitoring_windows", ["until"], unique=False)
    op.create_table(
        "monitoring_abtest_points",
        sa.Column("abtest", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["abtest"],
            ["monitoring_abtests.id"],
        ),
        sa.PrimaryKeyConstraint("abtest", "number"),
    )
    op.create_table(
        "monitoring_abtest_units",
        sa.Column("abtest", sa.String(length=32), nullable=False),
        sa.Column("metric", sa.Integer(), nullable=False),
        sa.Column("unit", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["abtest"],
            ["monitoring_abtests.id"],
        ),
        sa.PrimaryKeyConstraint("abtest", "metric", "unit"),
    )
    op.create_table(
        "monitoring_actions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("alert", sa.String(length=32), nullable=False),
        sa.Column("monitor", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("wanted", sa.Text(), nullable=False),
        sa.Column("wisher", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("decided", sa.BigInteger(), nullable=True),
        sa.Column("decided_by", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["alert"],
            ["monitoring_alerts.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("monitoring_actions_by_state", "monitoring_actions", ["state", "id"], unique=False)
    op.create_index("monitoring_actions_of_alert", "monitoring_actions", ["alert", "id"], unique=False)
    op.create_index("monitoring_actions_of_monitor", "monitoring_actions", ["monitor", "kind", "at"], unique=False)
    op.create_table(
        "monitoring_detectors",
        sa.Column("monitor", sa.String(length=32), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("slot", sa.String(length=10), nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["monitor"],
            ["monitoring_monitors.id"],
        ),
        sa.PrimaryKeyConstraint("monitor", "revision", "slot"),
    )
    op.create_table(
        "monitoring_losses",
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("due", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["endpoint"],
            ["monitoring_labellings.endpoint"],
        ),
        sa.PrimaryKeyConstraint("endpoint", "revision"),
    )
    op.create_index("monitoring_losses_due", "monitoring_losses", ["due"], unique=False)
    op.create_table(
        "monitoring_outbox",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("alert", sa.String(length=32), nullable=False),
        sa.Column("channel", sa.String(length=100), nullable=False),
        sa.Column("what", sa.String(length=10), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("due", sa.BigInteger(), nullable=True),
        sa.Column("sent", sa.BigInteger(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["alert"],
            ["monitoring_alerts.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("monitoring_outbox_due", "monitoring_outbox", ["due"], unique=False)
    op.create_index("monitoring_outbox_of_alert", "monitoring_outbox", ["alert", "id"], unique=False)
    op.create_table(
        "monitoring_pieces",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("monitor", sa.String(length=32), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("came", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["monitor"],
            ["monitoring_monitors.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "monitoring_pieces_by_end", "monitoring_pieces", ["until", "monitor", "revision", "at", "came"], unique=False
    )
    op.create_index("monitoring_pieces_of_window", "monitoring_pieces", ["monitor", "revision", "at"], unique=False)
    op.create_table(
        "monitoring_references",
        sa.Column("monitor", sa.String(length=32), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("revision_id", sa.String(length=32), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("standing", sa.Text(), nullable=False),
        sa.Column("closed", sa.BigInteger(), nullable=False),
        sa.Column("late", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["monitor"],
            ["monitoring_monitors.id"],
        ),
        sa.PrimaryKeyConstraint("monitor", "revision"),
    )
    op.create_index("monitoring_references_in_zone", "monitoring_references", ["zone", "revision_id"], unique=False)
    op.create_index("serving_revisions_used", "serving_revisions", ["endpoint", "used"], unique=False)
