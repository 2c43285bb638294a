"""Files know the token that brought them."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("registry_files", sa.Column("token", sa.String(length=32), server_default="", nullable=False))
    op.add_column("tracking_artifacts", sa.Column("token", sa.String(length=32), server_default="", nullable=False))
