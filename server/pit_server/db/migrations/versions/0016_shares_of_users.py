"""The group that is charged for a user, and which priority they may give their jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("user_account", sa.Column("share_group_id", INTEGER, nullable=True))
    op.add_column(
        "user_account", sa.Column("max_priority", sa.Text(), nullable=False, server_default="normal")
    )
    op.create_index("allocation_released", "allocation", ["released_at"])
