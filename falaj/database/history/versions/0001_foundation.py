"""Foundation."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "database_leases",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("holder", sa.String(length=100), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "governance_generation",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "governance_group_roles",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("scope", sa.String(length=32), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.PrimaryKeyConstraint("name", "scope", "role"),
    )
    op.create_table(
        "governance_memberships",
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("scope", sa.String(length=32), nullable=False),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("source", sa.String(length=200), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "scope", "role", "source"),
    )
    op.create_index("governance_memberships_scope", "governance_memberships", ["scope", "principal"], unique=False)
    op.create_table(
        "governance_oidc_states",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("verifier", sa.String(length=128), nullable=False),
        sa.Column("nonce", sa.String(length=128), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index(op.f("ix_governance_oidc_states_expires"), "governance_oidc_states", ["expires"], unique=False)
    op.create_table(
        "governance_policies",
        sa.Column("scope", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("scope", "name"),
    )
    op.create_table(
        "governance_principals",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("owner", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("display", sa.String(length=200), nullable=False),
        sa.Column("email", sa.String(length=320), nullable=False),
        sa.Column("issuer", sa.String(length=500), nullable=True),
        sa.Column("subject", sa.String(length=255), nullable=True),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("erased", sa.Boolean(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("issuer", "subject", name="governance_principals_subject"),
        sa.UniqueConstraint("owner", "name", name="governance_principals_name"),
    )
    op.create_table(
        "governance_project_zones",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("project", "zone"),
    )
    op.create_index(op.f("ix_governance_project_zones_zone"), "governance_project_zones", ["zone"], unique=False)
    op.create_table(
        "governance_projects",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("description", sa.String(length=2000), nullable=False),
        sa.Column("archived", sa.Boolean(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "governance_sign_in_codes",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("projects", sa.Text(), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("reach", sa.BigInteger(), nullable=True),
        sa.Column("parent", sa.String(length=32), nullable=True),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index(op.f("ix_governance_sign_in_codes_expires"), "governance_sign_in_codes", ["expires"], unique=False)
    op.create_index(op.f("ix_governance_sign_in_codes_principal"), "governance_sign_in_codes", ["principal"], unique=False)
    op.create_table(
        "governance_tokens",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("label", sa.String(length=100), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("projects", sa.Text(), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.Column("reach", sa.BigInteger(), nullable=True),
        sa.Column("revoked", sa.BigInteger(), nullable=True),
        sa.Column("parent", sa.String(length=32), nullable=True),
        sa.Column("last_used_day", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
    )
    op.create_index(op.f("ix_governance_tokens_parent"), "governance_tokens", ["parent"], unique=False)
    op.create_index(op.f("ix_governance_tokens_principal"), "governance_tokens", ["principal"], unique=False)
    op.create_table(
        "governance_used_id_tokens",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("expires", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_index(op.f("ix_governance_used_id_tokens_expires"), "governance_used_id_tokens", ["expires"], unique=False)
    op.create_table(
        "governance_zones",
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("country", sa.String(length=2), nullable=False),
        sa.Column("jurisdictions", sa.Text(), nullable=False),
        sa.Column("storage", sa.String(length=100), nullable=False),
        sa.Column("engines", sa.Text(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "keys_signing",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("purpose", sa.String(length=100), nullable=False),
        sa.Column("public", sa.LargeBinary(), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("ring_version", sa.Integer(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("retired", sa.BigInteger(), nullable=True),
        sa.Column("endorsed_by", sa.String(length=32), nullable=True),
        sa.Column("endorsement", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "keys_signing_current",
        "keys_signing",
        ["purpose"],
        unique=True,
        sqlite_where=sa.text("retired IS NULL"),
        postgresql_where=sa.text("retired IS NULL"),
    )
    op.create_table(
        "ledger_heads",
        sa.Column("size", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("root", sa.String(length=64), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("previous", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("signature", sa.String(length=128), nullable=False),
        sa.PrimaryKeyConstraint("size"),
    )
    op.create_index(op.f("ix_ledger_heads_at"), "ledger_heads", ["at"], unique=False)
    op.create_table(
        "ledger_leaves",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=True),
        sa.Column("inserted", sa.BigInteger(), nullable=False),
        sa.Column("operation", sa.String(length=100), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("outcome", sa.String(length=10), nullable=False),
        sa.Column("record", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ledger_leaves_by_operation", "ledger_leaves", ["operation", "inserted", "id"], unique=False)
    op.create_index("ledger_leaves_by_principal", "ledger_leaves", ["principal", "inserted", "id"], unique=False)
    op.create_index("ledger_leaves_by_project", "ledger_leaves", ["project", "inserted", "id"], unique=False)
    op.create_index("ledger_leaves_by_time", "ledger_leaves", ["inserted", "id"], unique=False)
    op.create_index(
        "ledger_leaves_refused",
        "ledger_leaves",
        ["inserted", "id"],
        unique=False,
        sqlite_where=sa.text("outcome = 'refused'"),
        postgresql_where=sa.text("outcome = 'refused'"),
    )
    op.create_index(
        "ledger_leaves_sequenced",
        "ledger_leaves",
        ["position"],
        unique=True,
        sqlite_where=sa.text("position IS NOT NULL"),
        postgresql_where=sa.text("position IS NOT NULL"),
    )
    op.create_index(
        "ledger_leaves_waiting",
        "ledger_leaves",
        ["inserted", "id"],
        unique=False,
        sqlite_where=sa.text("position IS NULL"),
        postgresql_where=sa.text("position IS NULL"),
    )
    op.create_table(
        "ledger_nodes",
        sa.Column("level", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("level", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ledger_salts",
        sa.Column("leaf", sa.String(length=32), nullable=False),
        sa.Column("field", sa.String(length=200), nullable=False),
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("subject", sa.String(length=32), nullable=False),
        sa.Column("salt", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("leaf", "field"),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_ledger_salts_principal"), "ledger_salts", ["principal"], unique=False)
    op.create_index(op.f("ix_ledger_salts_subject"), "ledger_salts", ["subject"], unique=False)
    op.create_table(
        "ledger_windows",
        sa.Column("operation", sa.String(length=100), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("start", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.BigInteger(), nullable=False),
        sa.Column("seed", sa.LargeBinary(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("operation", "project", "principal"),
    )
    op.create_index(op.f("ix_ledger_windows_start"), "ledger_windows", ["start"], unique=False)
    op.create_table(
        "operations_replays",
        sa.Column("principal", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(length=32), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "key"),
    )
    op.create_index(op.f("ix_operations_replays_created"), "operations_replays", ["created"], unique=False)
    op.create_table(
        "storage_blobs",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("zone", sa.String(length=100), nullable=False),
        sa.Column("storage", sa.String(length=100), nullable=False),
        sa.Column("object", sa.String(length=32), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("media_type", sa.String(length=100), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("wrapped", sa.LargeBinary(), nullable=False),
        sa.Column("key_version", sa.Integer(), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("object"),
        sa.UniqueConstraint("project", "digest", "zone", name="storage_blobs_content"),
    )
    op.create_index("storage_blobs_listing", "storage_blobs", ["project", "id"], unique=False)
    op.create_index("storage_blobs_version", "storage_blobs", ["project", "key_version"], unique=False)
    op.create_table(
        "storage_keys",
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("rotations_asked", sa.Integer(), nullable=False),
        sa.Column("rotations_done", sa.Integer(), nullable=False),
        sa.Column("shredded", sa.BigInteger(), nullable=True),
        sa.Column("destroyed", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("project"),
    )
    op.create_table(
        "storage_objects",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("storage", sa.String(length=100), nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("removed", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("storage_objects_state", "storage_objects", ["state", "removed"], unique=False)
    op.create_table(
        "storage_references",
        sa.Column("blob", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=50), nullable=False),
        sa.Column("owner", sa.String(length=100), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["blob"],
            ["storage_blobs.id"],
        ),
        sa.PrimaryKeyConstraint("blob", "kind", "owner"),
    )
    op.create_index("storage_references_owner", "storage_references", ["kind", "owner"], unique=False)
