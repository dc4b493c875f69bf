"""Sessions of group members: whether those with whom a job is shared may enter its processes."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.add_column(
        "job", sa.Column("is_open_to_groups", sa.Boolean(), nullable=False, server_default=sa.false())
    )
