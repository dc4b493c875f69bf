"""Jobs, users and groups in the trash."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("discard", sa.Column("kind", sa.Text(), nullable=False, server_default="files"))
    op.add_column("discard", sa.Column("record", sa.JSON(), nullable=False, server_default="{}"))
    op.add_column("discard", sa.Column("is_purged", sa.Boolean(), nullable=False, server_default=sa.false()))
