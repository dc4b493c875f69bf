"""The first estimate of each job's start, and what its attempts waited for."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"

AT = sa.Float(precision=53)


def upgrade() -> None:
    for name in ("estimated_at", "starts_from", "starts_by"):
        op.add_column("job", sa.Column(name, AT, nullable=True))
    op.add_column("attempt", sa.Column("waited_for", sa.JSON(), nullable=False, server_default="{}"))
