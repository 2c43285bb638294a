"""Jobs and queues."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "jobs_attempts",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("engine", sa.String(length=50), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("seats", sa.Text(), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("planned", sa.BigInteger(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=True),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.Column("stop_by", sa.BigInteger(), nullable=True),
        sa.Column("stop_for", sa.String(length=40), nullable=False),
        sa.Column("cause", sa.String(length=20), nullable=False),
        sa.Column("code", sa.Integer(), nullable=True),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("usage", sa.Text(), nullable=False),
        sa.Column("odd", sa.Text(), nullable=False),
        sa.Column("log", sa.String(length=32), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job", "number", name="jobs_attempts_number"),
    )
    op.create_index(
        "jobs_attempts_unlogged",
        "jobs_attempts",
        ["id"],
        unique=False,
        sqlite_where=sa.text("log IS NULL"),
        postgresql_where=sa.text("log IS NULL"),
    )
    op.create_table(
        "jobs_card_utilisation",
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("node", sa.String(length=200), nullable=False),
        sa.Column("card", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("model", sa.String(length=100), nullable=False),
        sa.Column("held", sa.Double(), nullable=False),
        sa.Column("busy", sa.Double(), nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("memory_used_mib", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("at", "node", "card"),
    )
    op.create_table(
        "jobs_controllers",
        sa.Column("name", sa.String(length=20), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("plans", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "jobs_engines",
        sa.Column("name", sa.String(length=50), nullable=False),
        sa.Column("silent_since", sa.BigInteger(), nullable=True),
        sa.Column("beats", sa.BigInteger(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "jobs_events",
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=30), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job", "id"),
    )
    op.create_table(
        "jobs_jobs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("queue", sa.String(length=100), nullable=False),
        sa.Column("priority", sa.String(length=50), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("order", sa.Text(), nullable=False),
        sa.Column("run", sa.String(length=32), nullable=False),
        sa.Column("submitted", sa.BigInteger(), nullable=False),
        sa.Column("submitted_by", sa.String(length=32), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("wanted", sa.String(length=12), nullable=False),
        sa.Column("attempt", sa.String(length=32), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("retries", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("kin", sa.String(length=64), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=True),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.Column("cause", sa.String(length=20), nullable=False),
        sa.Column("code", sa.Integer(), nullable=True),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("served", sa.BigInteger(), nullable=False),
        sa.Column("checkpointed", sa.BigInteger(), nullable=True),
        sa.Column("progress", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("jobs_jobs_by_queue", "jobs_jobs", ["queue", "state"], unique=False)
    op.create_index(
        "jobs_jobs_kin",
        "jobs_jobs",
        ["kin", "ended"],
        unique=False,
        sqlite_where=sa.text("state = 'done'"),
        postgresql_where=sa.text("state = 'done'"),
    )
    op.create_index(
        "jobs_jobs_live",
        "jobs_jobs",
        ["submitted"],
        unique=False,
        sqlite_where=sa.text("ended IS NULL"),
        postgresql_where=sa.text("ended IS NULL"),
    )
    op.create_index("jobs_jobs_of_project", "jobs_jobs", ["project", "submitted"], unique=False)
    op.create_table(
        "jobs_metering",
        sa.Column("attempt", sa.String(length=32), nullable=False),
        sa.Column("node", sa.String(length=200), nullable=False),
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("user", sa.String(length=32), nullable=False),
        sa.Column("queue", sa.String(length=100), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=False),
        sa.Column("cpu_seconds_asked", sa.Double(), nullable=False),
        sa.Column("cpu_seconds", sa.Double(), nullable=False),
        sa.Column("memory_mib_seconds_asked", sa.Double(), nullable=False),
        sa.Column("memory_mib_seconds", sa.Double(), nullable=False),
        sa.Column("gpu_seconds", sa.Double(), nullable=False),
        sa.Column("gpu_busy_seconds", sa.Double(), nullable=False),
        sa.Column("energy_joules", sa.Double(), nullable=False),
        sa.Column("price", sa.BigInteger(), nullable=False),
        sa.Column("cost", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("attempt", "node"),
    )
    op.create_index("jobs_metering_by_time", "jobs_metering", ["ended"], unique=False)
    op.create_index("jobs_metering_of_project", "jobs_metering", ["project", "ended"], unique=False)
    op.create_table(
        "jobs_news",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=12), nullable=False),
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "jobs_nodes",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("engine", sa.String(length=50), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("cards", sa.Text(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("stopping", sa.Boolean(), nullable=False),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("lost", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "jobs_owner_utilisation",
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("cpus_held", sa.Double(), nullable=False),
        sa.Column("cpus_busy", sa.Double(), nullable=False),
        sa.Column("gpus_held", sa.Double(), nullable=False),
        sa.Column("gpus_busy", sa.Double(), nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("at", "kind", "name"),
    )
    op.create_table(
        "jobs_past_use",
        sa.Column("queue", sa.String(length=100), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("user", sa.String(length=32), nullable=False),
        sa.Column("resource", sa.String(length=110), nullable=False),
        sa.Column("amount", sa.Double(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue", "project", "user", "resource"),
    )
    op.create_table(
        "jobs_pool_hosts",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("pool", sa.String(length=100), nullable=False),
        sa.Column("state", sa.String(length=12), nullable=False),
        sa.Column("node", sa.String(length=200), nullable=False),
        sa.Column("printed", sa.String(length=200), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("trouble", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "jobs_pools",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("declared", sa.Text(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "jobs_queue_documents",
        sa.Column("serial", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("applied", sa.BigInteger(), nullable=False),
        sa.Column("applied_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("serial"),
    )
    op.create_table(
        "jobs_samples",
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cpus", sa.Double(), nullable=False),
        sa.Column("memory_mib", sa.BigInteger(), nullable=False),
        sa.Column("gpu_busy", sa.Double(), nullable=False),
        sa.Column("gpu_memory_mib", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job", "at"),
    )
    op.create_table(
        "jobs_secrets",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("ring_version", sa.Integer(), nullable=False),
        sa.Column("set", sa.BigInteger(), nullable=False),
        sa.Column("set_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("project", "name"),
    )
    op.create_table(
        "jobs_sources",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("files", sa.Integer(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "digest"),
    )
    op.create_table(
        "jobs_utilisation",
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("node", sa.String(length=200), nullable=False),
        sa.Column("cpus", sa.Double(), nullable=False),
        sa.Column("cpus_held", sa.Double(), nullable=False),
        sa.Column("cpus_busy", sa.Double(), nullable=False),
        sa.Column("gpus", sa.Double(), nullable=False),
        sa.Column("gpus_held", sa.Double(), nullable=False),
        sa.Column("gpus_busy", sa.Double(), nullable=False),
        sa.Column("waiting", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("at", "node"),
    )
