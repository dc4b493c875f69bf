"""Which hello of a node's worker was the last."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.add_column("node", sa.Column("spool", sa.Text(), nullable=False, server_default=""))
    op.add_column("node", sa.Column("hello_count", INTEGER, nullable=False, server_default="0"))
