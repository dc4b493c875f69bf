"""Limits of users and groups."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    for table in ("user_account", "people_group"):
        op.add_column(table, sa.Column("limits", sa.JSON(), nullable=False, server_default="{}"))
