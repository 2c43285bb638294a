"""Planes say which certificate they answer with."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("serving_planes", sa.Column("certificate", sa.Text(), nullable=True))
    op.execute("UPDATE serving_planes SET certificate = ''")
    with op.batch_alter_table("serving_planes") as planes:  # SQLite changes a column by writing the table anew
        planes.alter_column("certificate", existing_type=sa.Text(), nullable=False)
