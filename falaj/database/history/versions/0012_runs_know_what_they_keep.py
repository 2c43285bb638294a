"""Runs know how much they keep. Of those from before it is counted once they go on."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("lifecycle_runs", sa.Column("kept", sa.BigInteger(), nullable=True))
    op.execute("UPDATE lifecycle_runs SET kept = 0")
    with op.batch_alter_table("lifecycle_runs") as runs:  # SQLite changes a column by writing the table anew
        runs.alter_column("kept", existing_type=sa.BigInteger(), nullable=False)
