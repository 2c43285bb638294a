"""Webhooks start pipelines."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("lifecycle_triggers", sa.Column("called", sa.String(length=32), nullable=True))
    op.add_column("lifecycle_triggers", sa.Column("content", sa.Text(), nullable=True))
    op.execute("UPDATE lifecycle_triggers SET called = '', content = ''")
    with op.batch_alter_table("lifecycle_triggers") as triggers:  # SQLite changes a column by writing the table anew
        triggers.alter_column("called", existing_type=sa.String(length=32), nullable=False)
        triggers.alter_column("content", existing_type=sa.Text(), nullable=False)
