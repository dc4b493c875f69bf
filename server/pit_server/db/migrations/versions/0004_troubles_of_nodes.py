"""Why a node takes no new processes at the moment."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("node", sa.Column("trouble", sa.Text(), nullable=False, server_default=sa.text("''")))
