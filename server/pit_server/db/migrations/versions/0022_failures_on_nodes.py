"""Which jobs failed on a node in a row."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.add_column("node", sa.Column("failures", sa.JSON(), nullable=False, server_default="{}"))
