"""Variants and certificates."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "optimisation_optimisations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=32), nullable=False),
        sa.Column("model_name", sa.String(length=255), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("pinned", sa.Text(), nullable=False),
        sa.Column("found", sa.Text(), nullable=False),
        sa.Column("held_out", sa.String(length=64), nullable=False),
        sa.Column("classified", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "optimisation_optimisations_of_model", "optimisation_optimisations", ["project", "model", "created"], unique=False
    )
    op.create_table(
        "optimisation_variants",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("optimisation", sa.String(length=32), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=80), nullable=False),
        sa.Column("steps", sa.Text(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("made", sa.Text(), nullable=False),
        sa.Column("measures", sa.Text(), nullable=False),
        sa.Column("job", sa.String(length=32), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("settled", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["optimisation"],
            ["optimisation_optimisations.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("optimisation", "name", name="optimisation_variants_name"),
    )
    op.create_index("optimisation_variants_of_version", "optimisation_variants", ["version_id", "name"], unique=False)
    op.create_table(
        "optimisation_certificates",
        sa.Column("variant", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("held_out", sa.String(length=64), nullable=False),
        sa.Column("fit", sa.Boolean(), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("task", sa.String(length=10), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("issued", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["variant"],
            ["optimisation_variants.id"],
        ),
        sa.PrimaryKeyConstraint("variant"),
    )
    op.create_index("optimisation_certificates_by_rows", "optimisation_certificates", ["version_id", "held_out"], unique=False)
    op.create_table(
        "optimisation_files",
        sa.Column("variant", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["variant"],
            ["optimisation_variants.id"],
        ),
        sa.PrimaryKeyConstraint("variant", "name"),
    )
    op.create_table(
        "serving_rung_files",
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["revision"],
            ["serving_revisions.id"],
        ),
        sa.PrimaryKeyConstraint("revision", "place", "position"),
    )
    op.create_table(
        "serving_rungs",
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("variant", sa.String(length=100), nullable=False),
        sa.Column("variant_id", sa.String(length=32), nullable=False),
        sa.Column("certificate", sa.String(length=64), nullable=False),
        sa.Column("runtime", sa.String(length=50), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("host_shown", sa.Text(), nullable=False),
        sa.Column("latency_ms", sa.Double(), nullable=False),
        sa.Column("latency_limit_ms", sa.Double(), nullable=False),
        sa.Column("max_drop", sa.Double(), nullable=False),
        sa.Column("max_slice_drop", sa.Double(), nullable=False),
        sa.Column("truth_known", sa.Boolean(), nullable=False),
        sa.Column("throughput", sa.Double(), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["revision"],
            ["serving_revisions.id"],
        ),
        sa.PrimaryKeyConstraint("revision", "place"),
    )
    op.add_column("serving_instances", sa.Column("rungs", sa.Text(), server_default="[]", nullable=False))
    op.add_column("serving_revisions", sa.Column("variant", sa.String(length=100), server_default="", nullable=False))
    op.add_column("serving_revisions", sa.Column("variant_id", sa.String(length=32), server_default="", nullable=False))
    op.add_column("serving_revisions", sa.Column("certificate", sa.String(length=64), server_default="", nullable=False))
    op.add_column("serving_revisions", sa.Column("settings", sa.Text(), server_default="{}", nullable=False))
    op.add_column("serving_revisions", sa.Column("host", sa.Text(), server_default="", nullable=False))
    op.add_column("serving_revisions", sa.Column("host_shown", sa.Text(), server_default="", nullable=False))
    op.add_column("serving_revisions", sa.Column("latency_ms", sa.Double(), server_default="0", nullable=False))
    op.add_column("serving_revisions", sa.Column("latency_limit_ms", sa.Double(), server_default="0", nullable=False))
    op.add_column("serving_revisions", sa.Column("max_drop", sa.Double(), server_default="0", nullable=False))
    op.add_column("serving_revisions", sa.Column("max_slice_drop", sa.Double(), server_default="0", nullable=False))
    op.add_column("serving_revisions", sa.Column("truth_known", sa.Boolean(), server_default=sa.text("true"), nullable=False))
    op.add_column("serving_logs", sa.Column("first", sa.Integer(), server_default="0", nullable=False))
    op.add_column("serving_logs", sa.Column("size", sa.Integer(), server_default="0", nullable=False))
    op.add_column("serving_logs", sa.Column("holder", sa.String(length=32), server_default="", nullable=False))
    op.add_column("serving_logs", sa.Column("settled", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    op.execute(
        "UPDATE serving_logs SET holder = id, "
        "size = coalesce((SELECT size FROM storage_blobs WHERE storage_blobs.id = serving_logs.blob), 0)"
    )
    op.create_index("serving_logs_by_holder", "serving_logs", ["holder"], unique=False)
    op.create_index("serving_logs_by_size", "serving_logs", ["endpoint", "size"], unique=False)
    op.create_index("serving_logs_to_settle", "serving_logs", ["settled", "endpoint", "id"], unique=False)
    op.add_column("serving_windows", sa.Column("unlogged", sa.BigInteger(), server_default="0", nullable=False))
