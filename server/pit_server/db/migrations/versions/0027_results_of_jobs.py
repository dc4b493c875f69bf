"""Results of jobs, as names and values."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.add_column("job", sa.Column("results", sa.JSON(), nullable=True))
