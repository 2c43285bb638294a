"""Planes say which certificate they answer with."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("serving_planes", sa.Column("certificate", sa.Text(), nullable=False, server_default=""))
