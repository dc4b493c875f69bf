"""Tokens of a job's own, which end with its attempt."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    # No foreign key, because SQLite would have to rebuild the table.
    op.add_column("token", sa.Column("attempt_id", key, nullable=True))
    op.create_index("token_by_attempt", "token", ["attempt_id"])
