"""Maintenance windows of nodes."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    for name in ("maintenance_start", "maintenance_end"):
        op.add_column("node", sa.Column(name, sa.Float(53), nullable=True))
