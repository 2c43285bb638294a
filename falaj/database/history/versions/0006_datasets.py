"""Datasets."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "datasets_datasets",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("last_version", sa.BigInteger(), nullable=False),
        sa.Column("current", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("deleted", sa.BigInteger(), nullable=True),
        sa.Column("external", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "datasets_datasets_name",
        "datasets_datasets",
        ["project", "name"],
        unique=True,
        sqlite_where=sa.text("deleted IS NULL"),
        postgresql_where=sa.text("deleted IS NULL"),
    )
    op.create_table(
        "datasets_parts",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("object", sa.String(length=32), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("schema", sa.Text(), nullable=False),
        sa.Column("profile", sa.String(length=32), nullable=False),
        sa.Column("known", sa.BigInteger(), nullable=True),
        sa.Column("elsewhere", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets_datasets.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("datasets_parts_of", "datasets_parts", ["dataset"], unique=False)
    op.create_table(
        "datasets_tags",
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("tag", sa.String(length=100), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets_datasets.id"],
        ),
        sa.PrimaryKeyConstraint("dataset", "tag"),
    )
    op.create_table(
        "datasets_versions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("parent", sa.BigInteger(), nullable=False),
        sa.Column("mode", sa.String(length=10), nullable=False),
        sa.Column("schema", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("parts", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("pruned", sa.BigInteger(), nullable=True),
        sa.Column("profile", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets_datasets.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("dataset", "number", name="datasets_versions_number"),
    )
    op.create_index("datasets_versions_by_digest", "datasets_versions", ["project", "digest"], unique=False)
    op.create_table(
        "datasets_views",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("logged", sa.BigInteger(), nullable=False),
        sa.Column("deleted", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project", "name", "version", name="datasets_views_version"),
    )
    op.create_table(
        "datasets_materialised",
        sa.Column("view", sa.String(length=32), nullable=False),
        sa.Column("shape", sa.String(length=64), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("of", sa.BigInteger(), nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("newest", sa.BigInteger(), nullable=True),
        sa.Column("changes", sa.BigInteger(), nullable=True),
        sa.Column("writer", sa.String(length=32), nullable=False),
        sa.Column("begun", sa.BigInteger(), nullable=True),
        sa.Column("begun_from", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets_datasets.id"],
        ),
        sa.ForeignKeyConstraint(
            ["view"],
            ["datasets_views.id"],
        ),
        sa.PrimaryKeyConstraint("view", "shape"),
    )
    op.create_table(
        "datasets_online_keys",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("project", "zone"),
    )
    op.create_table(
        "datasets_served",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("view", sa.String(length=32), nullable=False),
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("of", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["view"], ["datasets_views.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("datasets_served_by_age", "datasets_served", ["at"], unique=False)
    op.create_index("datasets_served_of", "datasets_served", ["view", "at"], unique=False)
    op.create_table(
        "datasets_writes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("mode", sa.String(length=10), nullable=False),
        sa.Column("parent", sa.BigInteger(), nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets_datasets.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("datasets_writes_by_age", "datasets_writes", ["state", "changed"], unique=False)
    op.create_index("datasets_writes_by_key", "datasets_writes", ["dataset", "key"], unique=False)
    op.create_table(
        "datasets_pieces",
        sa.Column("write", sa.String(length=32), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("part", sa.String(length=32), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["part"],
            ["datasets_parts.id"],
        ),
        sa.ForeignKeyConstraint(
            ["write"],
            ["datasets_writes.id"],
        ),
        sa.PrimaryKeyConstraint("write", "number"),
    )
    op.create_table(
        "datasets_spans",
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("part", sa.String(length=32), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("renamed", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset"],
            ["datasets_datasets.id"],
        ),
        sa.ForeignKeyConstraint(
            ["part"],
            ["datasets_parts.id"],
        ),
        sa.PrimaryKeyConstraint("dataset", "line", "since", "part"),
    )
    op.create_index("datasets_spans_standing", "datasets_spans", ["dataset", "line", "until"], unique=False)
    op.create_table(
        "datasets_classes",
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=500), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.ForeignKeyConstraint(["dataset"], ["datasets_datasets.id"]),
        sa.PrimaryKeyConstraint("dataset", "name"),
    )
    op.create_table(
        "datasets_made_of",
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=500), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("source_name", sa.String(length=500), nullable=False),
        sa.ForeignKeyConstraint(["dataset"], ["datasets_datasets.id"]),
        sa.ForeignKeyConstraint(["source"], ["datasets_datasets.id"]),
        sa.PrimaryKeyConstraint("dataset", "name", "source", "source_name"),
    )
    op.create_index("datasets_made_of_source", "datasets_made_of", ["source"], unique=False)
    op.create_table(
        "datasets_checks",
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("declared", sa.Text(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["dataset"], ["datasets_datasets.id"]),
        sa.PrimaryKeyConstraint("dataset"),
    )
    op.create_table(
        "datasets_findings",
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("found", sa.Text(), nullable=False),
        sa.Column("evidence", sa.String(length=32), nullable=False),
        sa.Column("decided", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["dataset"], ["datasets_datasets.id"]),
        sa.ForeignKeyConstraint(["version"], ["datasets_versions.id"]),
        sa.PrimaryKeyConstraint("version"),
    )
    op.create_index("datasets_findings_of", "datasets_findings", ["dataset"], unique=False)
    op.create_table(
        "datasets_derivations",
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["dataset"], ["datasets_datasets.id"]),
        sa.ForeignKeyConstraint(["version"], ["datasets_versions.id"]),
        sa.PrimaryKeyConstraint("version"),
    )
    op.create_index("datasets_derivations_made", "datasets_derivations", ["dataset", "digest"], unique=False)
    op.create_table(
        "datasets_places",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("ring_version", sa.Integer(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("changed_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "datasets_place_projects",
        sa.Column("place", sa.String(length=100), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["place"], ["datasets_places.name"]),
        sa.PrimaryKeyConstraint("place", "project"),
    )
    op.create_table(
        "datasets_copies",
        sa.Column("part", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("part"),
    )
    op.create_index("datasets_copies_by_use", "datasets_copies", ["used"], unique=False)
    op.create_table(
        "datasets_pushes",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("part", sa.String(length=32), nullable=True),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("accepted", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("done", sa.BigInteger(), nullable=True),
        sa.Column("tried", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["dataset"], ["datasets_datasets.id"]),
        sa.ForeignKeyConstraint(["part"], ["datasets_parts.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("datasets_pushes_by_key", "datasets_pushes", ["dataset", "key"], unique=False)
    op.create_index("datasets_pushes_by_part", "datasets_pushes", ["part"], unique=False)
    op.create_index("datasets_pushes_by_state", "datasets_pushes", ["state", "project"], unique=False)
    op.add_column("storage_blobs", sa.Column("sealing", sa.String(length=10), server_default="chunks", nullable=False))
    op.create_table(
        "serving_lookups",
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("view", sa.String(length=32), nullable=False),
        sa.Column("features", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["revision"], ["serving_revisions.id"]),
        sa.PrimaryKeyConstraint("revision", "position"),
    )
    op.create_table(
        "serving_batches",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("model_name", sa.String(length=255), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("version_id", sa.String(length=32), nullable=False),
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("dataset_name", sa.String(length=100), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("lineage", sa.Text(), nullable=False),
        sa.Column("into_id", sa.String(length=32), nullable=False),
        sa.Column("into_name", sa.String(length=100), nullable=False),
        sa.Column("keep", sa.Text(), nullable=False),
        sa.Column("append", sa.Boolean(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("runtime", sa.String(length=50), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("classified", sa.Boolean(), nullable=False),
        sa.Column("remarks", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("made", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("serving_batches_by_age", "serving_batches", ["created"], unique=False)
