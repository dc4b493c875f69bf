"""Why an admin took a node out of service."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("node", sa.Column("service_reason", sa.Text(), nullable=False, server_default=""))
