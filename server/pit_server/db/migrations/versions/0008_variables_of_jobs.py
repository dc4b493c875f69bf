"""Variables that users give their jobs; the values are sealed."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("job", sa.Column("variables", sa.JSON(), nullable=False, server_default="{}"))
