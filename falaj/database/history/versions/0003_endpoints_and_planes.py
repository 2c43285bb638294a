"""Endpoints and planes."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "serving_endpoints",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("arms", sa.Text(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("back_to", sa.Integer(), nullable=False),
        sa.Column("steps", sa.Text(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("next_step", sa.BigInteger(), nullable=True),
        sa.Column("canary", sa.Integer(), nullable=False),
        sa.Column("growing", sa.BigInteger(), nullable=True),
        sa.Column("last_revision", sa.Integer(), nullable=False),
        sa.Column("last_change", sa.BigInteger(), nullable=False),
        sa.Column("serial", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("deleted", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("serving_endpoints_by_zone", "serving_endpoints", ["zone"], unique=False)
    op.create_index(
        "serving_endpoints_growing",
        "serving_endpoints",
        ["next_step"],
        unique=False,
        sqlite_where=sa.text("deleted IS NULL"),
        postgresql_where=sa.text("deleted IS NULL"),
    )
    op.create_index(
        "serving_endpoints_name",
        "serving_endpoints",
        ["project", "name"],
        unique=True,
        sqlite_where=sa.text("deleted IS NULL"),
        postgresql_where=sa.text("deleted IS NULL"),
    )
    op.create_table(
        "serving_keys",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("label", sa.String(length=100), nullable=False),
        sa.Column("endpoints", sa.Text(), nullable=False),
        sa.Column("manage", sa.Boolean(), nullable=False),
        sa.Column("signer", sa.String(length=32), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("revoked", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("serving_keys_by_end", "serving_keys", ["expires"], unique=False)
    op.create_index("serving_keys_listing", "serving_keys", ["project", "id"], unique=False)
    op.create_table(
        "serving_logs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("serving_logs_by_age", "serving_logs", ["at"], unique=False)
    op.create_index("serving_logs_of_endpoint", "serving_logs", ["endpoint", "id"], unique=False)
    op.create_table(
        "serving_planes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("url", sa.String(length=500), nullable=False),
        sa.Column("version", sa.String(length=100), nullable=False),
        sa.Column("workers", sa.BigInteger(), nullable=False),
        sa.Column("serial", sa.BigInteger(), nullable=False),
        sa.Column("problems", sa.Text(), nullable=False),
        sa.Column("runs", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("heard", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name", name="serving_planes_name"),
        sa.UniqueConstraint("principal", name="serving_planes_principal"),
    )
    op.create_index("serving_planes_by_zone", "serving_planes", ["zone"], unique=False)
    op.create_table(
        "serving_windows",
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("span", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("plane", sa.String(length=32), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("shed", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("batches", sa.BigInteger(), nullable=False),
        sa.Column("compared", sa.BigInteger(), nullable=False),
        sa.Column("differed", sa.BigInteger(), nullable=False),
        sa.Column("latencies", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("endpoint", "span", "at", "revision", "plane"),
    )
    op.create_index("serving_windows_by_age", "serving_windows", ["span", "at"], unique=False)
    op.create_table(
        "serving_zones",
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("serial", sa.BigInteger(), nullable=False),
        sa.Column("watched", sa.String(length=200), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("zone"),
    )
    op.create_table(
        "serving_changes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("arms", sa.Text(), nullable=False),
        sa.Column("by", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["endpoint"],
            ["serving_endpoints.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("endpoint", "place", name="serving_changes_place"),
    )
    op.create_table(
        "serving_instances",
        sa.Column("plane", sa.String(length=32), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("ready", sa.Boolean(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.Column("quarantined", sa.Boolean(), nullable=False),
        sa.Column("cold_start_ms", sa.Double(), nullable=False),
        sa.Column("batch_size", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["plane"],
            ["serving_planes.id"],
        ),
        sa.PrimaryKeyConstraint("plane", "endpoint", "revision"),
    )
    op.create_index("serving_instances_by_endpoint", "serving_instances", ["endpoint"], unique=False)
    op.create_table(
        "serving_revisions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("endpoint", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("model", sa.String(length=32), nullable=False),
        sa.Column("model_name", sa.String(length=255), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("runtime", sa.String(length=50), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.Column("converted", sa.Text(), nullable=False),
        sa.Column("quarantined", sa.Text(), nullable=False),
        sa.Column("used", sa.Boolean(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["endpoint"],
            ["serving_endpoints.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("endpoint", "number", name="serving_revisions_number"),
    )
    op.create_table(
        "serving_revision_files",
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["revision"],
            ["serving_revisions.id"],
        ),
        sa.PrimaryKeyConstraint("revision", "position"),
    )
