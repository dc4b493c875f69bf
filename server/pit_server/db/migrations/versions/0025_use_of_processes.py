"""What processes use of cores and memory, at falling resolution, and whether they do anything at all."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
FLOAT = sa.Float(53)


def upgrade() -> None:
    with op.batch_alter_table("sample") as batch:
        for name in ("gpu_percent", "memory_percent"):
            batch.alter_column(name, existing_type=FLOAT, nullable=True)
        batch.add_column(sa.Column("weight", INTEGER, nullable=False, server_default="1"))
        for name in ("cpu_percent", "memory_mib"):
            batch.add_column(sa.Column(name, FLOAT, nullable=True))
    op.add_column("process", sa.Column("active_at", FLOAT, nullable=True))
    op.add_column("process", sa.Column("log_size", INTEGER, nullable=False, server_default="0"))
    op.add_column("attempt", sa.Column("stalled_at", FLOAT, nullable=True))
