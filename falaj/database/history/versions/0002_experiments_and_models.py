"""Experiments and models."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    _give_windows_a_subject()
    op.create_table(
        "collaboration_comments",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("thing", sa.String(length=32), nullable=False),
        sa.Column("author", sa.String(length=32), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("edited", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "collaboration_comments_by_thing", "collaboration_comments", ["project", "kind", "thing", "id"], unique=False
    )
    op.create_table(
        "collaboration_links",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("page", sa.Text(), nullable=False),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("made_by", sa.String(length=32), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("collaboration_links_by_maker", "collaboration_links", ["project", "made_by", "id"], unique=False)
    op.create_table(
        "collaboration_mentions",
        sa.Column("comment", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("comment", "position"),
    )
    op.create_table(
        "collaboration_notices",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("thing_kind", sa.String(length=20), nullable=False),
        sa.Column("thing", sa.String(length=32), nullable=False),
        sa.Column("by", sa.String(length=32), nullable=False),
        sa.Column("about", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("read", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("about", "principal", "kind", name="collaboration_notices_once"),
    )
    op.create_index("collaboration_notices_by_principal", "collaboration_notices", ["project", "principal", "id"], unique=False)
    op.create_index("collaboration_notices_unread", "collaboration_notices", ["project", "principal", "read"], unique=False)
    op.create_table(
        "collaboration_owners",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("thing", sa.String(length=32), nullable=False),
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "kind", "thing"),
    )
    op.create_index("collaboration_owners_by_principal", "collaboration_owners", ["project", "principal"], unique=False)
    op.create_table(
        "collaboration_reviews",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("thing", sa.String(length=32), nullable=False),
        sa.Column("asked_by", sa.String(length=32), nullable=False),
        sa.Column("asked", sa.String(length=32), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("answered", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("collaboration_reviews_by_asked", "collaboration_reviews", ["project", "asked", "id"], unique=False)
    op.create_index("collaboration_reviews_by_asked_by", "collaboration_reviews", ["project", "asked_by", "id"], unique=False)
    op.create_index("collaboration_reviews_by_thing", "collaboration_reviews", ["project", "kind", "thing", "id"], unique=False)
    op.create_index(
        "collaboration_reviews_open",
        "collaboration_reviews",
        ["project", "kind", "thing", "asked"],
        unique=True,
        sqlite_where=sa.text("state = 'open'"),
        postgresql_where=sa.text("state = 'open'"),
    )
    op.create_table(
        "lineage_edges",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("target", sa.String(length=32), nullable=False),
        sa.Column("relation", sa.String(length=50), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "source", "target", "relation"),
    )
    op.create_index("lineage_edges_by_target", "lineage_edges", ["project", "target"], unique=False)
    op.create_table(
        "lineage_nodes",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("project", "key"),
    )
    op.create_index("lineage_nodes_by_time", "lineage_nodes", ["project", "kind", "at", "key"], unique=False)
    op.create_table(
        "registry_models",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("last_version", sa.BigInteger(), nullable=False),
        sa.Column("last_move", sa.BigInteger(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("deleted", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("registry_models_by_name", "registry_models", ["project", "name"], unique=False)
    op.create_index(
        "registry_models_name",
        "registry_models",
        ["project", "name"],
        unique=True,
        sqlite_where=sa.text("deleted IS NULL"),
        postgresql_where=sa.text("deleted IS NULL"),
    )
    op.create_table(
        "registry_signing_keys",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("public", sa.LargeBinary(), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=True),
        sa.Column("ring_version", sa.Integer(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("retired", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "registry_signing_keys_current",
        "registry_signing_keys",
        ["project"],
        unique=True,
        sqlite_where=sa.text("retired IS NULL"),
        postgresql_where=sa.text("retired IS NULL"),
    )
    op.create_index("registry_signing_keys_project", "registry_signing_keys", ["project", "id"], unique=False)
    op.create_table(
        "tracking_artifacts",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.String(length=34), nullable=False),
        sa.Column(
            "name", sa.String(length=1000).with_variant(sa.String(length=1000, collation="C"), "postgresql"), nullable=False
        ),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project", "holder", "name", name="tracking_artifacts_name"),
    )
    op.create_table(
        "tracking_datasets",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("digest", sa.String(length=36), nullable=False),
        sa.Column("source_type", sa.String(length=100), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("schema", sa.Text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", "id"),
    )
    op.create_table(
        "tracking_experiment_tags",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("experiment", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "key", sa.String(length=250).with_variant(sa.String(length=250, collation="C"), "postgresql"), nullable=False
        ),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("project", "experiment", "key"),
    )
    op.create_table(
        "tracking_experiments",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("deleted", sa.Boolean(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("project", "number"),
        sa.UniqueConstraint("project", "name", name="tracking_experiments_name"),
    )
    op.create_table(
        "tracking_inputs",
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("dataset", sa.String(length=32), nullable=False),
        sa.Column("context", sa.Text(), nullable=True),
        sa.Column("tags", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run", "dataset"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tracking_keys",
        sa.Column("scope", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=5), nullable=False),
        sa.Column(
            "key", sa.String(length=250).with_variant(sa.String(length=250, collation="C"), "postgresql"), nullable=False
        ),
        sa.PrimaryKeyConstraint("scope", "kind", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tracking_latest",
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("metric", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("experiment", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("nan", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("run", "metric"),
        sqlite_with_rowid=False,
    )
    op.create_index("tracking_latest_order", "tracking_latest", ["experiment", "metric", "nan", "value"], unique=False)
    op.create_table(
        "tracking_leftovers",
        sa.Column("owner", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=50), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("owner"),
    )
    op.create_index("tracking_leftovers_project", "tracking_leftovers", ["project", "owner"], unique=False)
    op.create_table(
        "tracking_metrics",
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("metric", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("nan", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("run", "metric", "step", "at", "value", "nan"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tracking_model_metrics",
        sa.Column("model", sa.String(length=34), nullable=False),
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("metric", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("dataset", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("nan", sa.Boolean(), nullable=False),
        sa.Column("name", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("dataset_name", sa.Text(), nullable=False),
        sa.Column("dataset_digest", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("model", "run", "metric", "dataset", "step", "at", "value", "nan"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tracking_model_params",
        sa.Column("model", sa.String(length=34), nullable=False),
        sa.Column(
            "key", sa.String(length=250).with_variant(sa.String(length=250, collation="C"), "postgresql"), nullable=False
        ),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("model", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tracking_model_tags",
        sa.Column("model", sa.String(length=34), nullable=False),
        sa.Column(
            "key", sa.String(length=250).with_variant(sa.String(length=250, collation="C"), "postgresql"), nullable=False
        ),
        sa.Column("value", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("model", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tracking_models",
        sa.Column("id", sa.String(length=34), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("experiment", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("kind", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("run", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("deleted", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("tracking_models_listing", "tracking_models", ["project", "experiment", "created", "id"], unique=False)
    op.create_table(
        "tracking_params",
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "key", sa.String(length=250).with_variant(sa.String(length=250, collation="C"), "postgresql"), nullable=False
        ),
        sa.Column("value", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.PrimaryKeyConstraint("run", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tracking_parts",
        sa.Column("upload", sa.String(length=32), nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("upload", "part"),
    )
    op.create_table(
        "tracking_run_models",
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("role", sa.String(length=4), nullable=False),
        sa.Column("model", sa.String(length=34), nullable=False),
        sa.Column("step", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("run", "role", "model", "step"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tracking_runs",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("experiment", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("user", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("started", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.BigInteger(), nullable=True),
        sa.Column("deleted", sa.SmallInteger(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("project", "id", name="tracking_runs_id"),
    )
    op.create_index(
        "tracking_runs_listing",
        "tracking_runs",
        ["project", "experiment", "deleted", sa.literal_column("started DESC"), "id"],
        unique=False,
    )
    op.create_table(
        "tracking_tags",
        sa.Column("run", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column(
            "key", sa.String(length=250).with_variant(sa.String(length=250, collation="C"), "postgresql"), nullable=False
        ),
        sa.Column("value", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), nullable=False),
        sa.PrimaryKeyConstraint("run", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "tracking_uploads",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("holder", sa.String(length=34), nullable=False),
        sa.Column(
            "name", sa.String(length=1000).with_variant(sa.String(length=1000, collation="C"), "postgresql"), nullable=False
        ),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("tracking_uploads_expiry", "tracking_uploads", ["expires"], unique=False)
    op.create_table(
        "registry_aliases",
        sa.Column("model", sa.String(length=32), nullable=False),
        sa.Column("alias", sa.String(length=255), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model"],
            ["registry_models.id"],
        ),
        sa.PrimaryKeyConstraint("model", "alias"),
    )
    op.create_table(
        "registry_approvals",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=32), nullable=False),
        sa.Column("alias", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("needed", sa.BigInteger(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("requested_by", sa.String(length=32), nullable=False),
        sa.Column("behind", sa.Text(), nullable=False),
        sa.Column("requested", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model"],
            ["registry_models.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("registry_approvals_listing", "registry_approvals", ["project", "id"], unique=False)
    op.create_index("registry_approvals_wanted", "registry_approvals", ["model", "state"], unique=False)
    op.create_table(
        "registry_model_tags",
        sa.Column("model", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=250), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model"],
            ["registry_models.id"],
        ),
        sa.PrimaryKeyConstraint("model", "key"),
    )
    op.create_table(
        "registry_moves",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=32), nullable=False),
        sa.Column("place", sa.BigInteger(), nullable=False),
        sa.Column("alias", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("before", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("by", sa.String(length=32), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("operation", sa.String(length=100), nullable=False),
        sa.Column("recorded", sa.BigInteger(), nullable=False),
        sa.Column("approval", sa.String(length=32), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["model"],
            ["registry_models.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("model", "place", name="registry_moves_place"),
    )
    op.create_index("registry_moves_by_alias", "registry_moves", ["model", "alias", "place"], unique=False)
    op.create_table(
        "registry_versions",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("model", sa.String(length=32), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("stage", sa.String(length=20), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("holder", sa.String(length=34), nullable=False),
        sa.Column("folder", sa.Text(), nullable=False),
        sa.Column("run", sa.String(length=32), nullable=False),
        sa.Column("files", sa.BigInteger(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("servable", sa.Boolean(), nullable=False),
        sa.Column("runtime", sa.String(length=50), nullable=False),
        sa.Column("reasons", sa.Text(), nullable=False),
        sa.Column("flavors", sa.Text(), nullable=False),
        sa.Column("inputs", sa.Text(), nullable=False),
        sa.Column("outputs", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("deleted", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["model"],
            ["registry_models.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("model", "number", name="registry_versions_number"),
    )
    op.create_index("registry_versions_by_change", "registry_versions", ["project", "changed"], unique=False)
    op.create_index("registry_versions_by_run", "registry_versions", ["project", "run"], unique=False)
    op.create_table(
        "registry_documents",
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("bundle", sa.Text(), nullable=False),
        sa.Column("sbom", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["version"],
            ["registry_versions.id"],
        ),
        sa.PrimaryKeyConstraint("version"),
    )
    op.create_table(
        "registry_files",
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=32), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["version"],
            ["registry_versions.id"],
        ),
        sa.PrimaryKeyConstraint("version", "key"),
    )
    op.create_index("registry_files_in_order", "registry_files", ["version", "position"], unique=False)
    op.create_table(
        "registry_version_tags",
        sa.Column("version", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=250), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["version"],
            ["registry_versions.id"],
        ),
        sa.PrimaryKeyConstraint("version", "key"),
    )
    op.create_table(
        "registry_votes",
        sa.Column("approval", sa.String(length=32), nullable=False),
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("approves", sa.Boolean(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["approval"],
            ["registry_approvals.id"],
        ),
        sa.PrimaryKeyConstraint("approval", "principal"),
    )


def _give_windows_a_subject() -> None:
    """The subject becomes part of the primary key, which SQLite cannot change in place."""
    op.drop_index("ix_ledger_windows_start", "ledger_windows")
    op.rename_table("ledger_windows", "ledger_windows_without_subject")
    op.create_table(
        "ledger_windows",
        sa.Column("operation", sa.String(length=100), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.String(length=100), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("seed", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("operation", "project", "principal", "subject"),
    )
    op.execute(
        "INSERT INTO ledger_windows (operation, project, principal, subject, start, until, calls, seed, digest) "
        "SELECT operation, project, principal, '', start, until, calls, seed, digest FROM ledger_windows_without_subject"
    )
    op.drop_table("ledger_windows_without_subject")
    op.create_index("ix_ledger_windows_start", "ledger_windows", ["start"])
