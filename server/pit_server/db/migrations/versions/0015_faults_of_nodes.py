"""Which processes their node could not start."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("process", sa.Column("node_fault", sa.Boolean(), nullable=False, server_default=sa.false()))
