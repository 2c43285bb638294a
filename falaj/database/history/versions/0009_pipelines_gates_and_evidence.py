"""Pipelines, gates and evidence."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_table(
        "lifecycle_gate_runs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("batch", sa.String(length=32), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("gate", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("against_alias", sa.String(length=255), nullable=False),
        sa.Column("against", sa.BigInteger(), nullable=False),
        sa.Column("pinned", sa.Text(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("evidence", sa.String(length=32), nullable=False),
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("lifecycle_gate_runs_by_state", "lifecycle_gate_runs", ["state", "job"], unique=False)
    op.create_index("lifecycle_gate_runs_of_batch", "lifecycle_gate_runs", ["project", "batch"], unique=False)
    op.create_index("lifecycle_gate_runs_of_version", "lifecycle_gate_runs", ["version", "gate", "id"], unique=False)
    op.create_table(
        "lifecycle_package_lists",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("project", "kind"),
    )
    op.create_table(
        "lifecycle_packages",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("package", sa.String(length=200), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", "kind", "package"),
    )
    op.create_table(
        "lifecycle_pipelines",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("taken", sa.String(length=140), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("taken"),
    )
    op.create_index("lifecycle_pipelines_of_project", "lifecycle_pipelines", ["project", "name"], unique=False)
    op.create_table(
        "registry_gates",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("project", "name"),
    )
    op.create_table(
        "registry_required_gates",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=255), nullable=False),
        sa.Column("alias", sa.String(length=255), nullable=False),
        sa.Column("gate", sa.String(length=100), nullable=False),
        sa.PrimaryKeyConstraint("project", "model", "alias", "gate"),
    )
    op.create_table(
        "lifecycle_runs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("pipeline", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("options", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("trigger", sa.String(length=100), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("stopping", sa.Boolean(), nullable=False),
        sa.Column("changed", sa.Integer(), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("started_by", sa.String(length=32), nullable=False),
        sa.Column("behind", sa.Text(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["pipeline"],
            ["lifecycle_pipelines.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("lifecycle_runs_live", "lifecycle_runs", ["ended", "id"], unique=False)
    op.create_index("lifecycle_runs_of_pipeline", "lifecycle_runs", ["pipeline", "id"], unique=False)
    op.create_index("lifecycle_runs_of_project", "lifecycle_runs", ["project", "id"], unique=False)
    op.create_table(
        "lifecycle_triggers",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("pipeline", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("wish", sa.Text(), nullable=False),
        sa.Column("wisher", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("set", sa.BigInteger(), nullable=False),
        sa.Column("set_by", sa.String(length=32), nullable=False),
        sa.Column("next", sa.BigInteger(), nullable=True),
        sa.Column("seen", sa.String(length=200), nullable=False),
        sa.Column("waiting", sa.Boolean(), nullable=False),
        sa.Column("last_run", sa.String(length=32), nullable=False),
        sa.Column("last_started", sa.BigInteger(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["pipeline"],
            ["lifecycle_pipelines.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("pipeline", "name", name="lifecycle_triggers_name"),
    )
    op.create_table(
        "lifecycle_versions",
        sa.Column("pipeline", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("behind", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["pipeline"],
            ["lifecycle_pipelines.id"],
        ),
        sa.PrimaryKeyConstraint("pipeline", "number"),
    )
    op.create_table(
        "lifecycle_events",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("run", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("sent_by", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(
            ["run"],
            ["lifecycle_runs.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("lifecycle_events_of_run", "lifecycle_events", ["run", "id"], unique=False)
    op.create_table(
        "lifecycle_steps",
        sa.Column("run", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("arguments", sa.Text(), nullable=False),
        sa.Column("called", sa.Text(), nullable=False),
        sa.Column("told", sa.Text(), nullable=False),
        sa.Column("result", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("cached", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("made", sa.String(length=300), nullable=False),
        sa.Column("begun", sa.BigInteger(), nullable=True),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.Column("due", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run"],
            ["lifecycle_runs.id"],
        ),
        sa.PrimaryKeyConstraint("run", "name", "item"),
    )
    op.create_index("lifecycle_steps_cached", "lifecycle_steps", ["project", "digest"], unique=False)
    op.create_index("lifecycle_steps_made", "lifecycle_steps", ["project", "made"], unique=False)
    op.create_table(
        "registry_evidence",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("gate", sa.String(length=100), nullable=False),
        sa.Column("definition", sa.String(length=64), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("against_alias", sa.String(length=255), nullable=False),
        sa.Column("against", sa.BigInteger(), nullable=False),
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("by", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["version"],
            ["registry_versions.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("registry_evidence_by_gate", "registry_evidence", ["version", "gate", "id"], unique=False)
