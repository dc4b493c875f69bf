"""Containers, GPUs' troubles and use, and the numbers of users and groups."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
AT = sa.Float(precision=53)
NOTHING = sa.text("''")


def upgrade() -> None:
    # An index, not a constraint: for that, SQLite would have to drop a table that others refer to.
    for table, column in (("user_account", "uid"), ("people_group", "gid")):
        op.add_column(table, sa.Column(column, KEY, nullable=True))
        op.create_index(f"{table}_{column}", table, [column], unique=True)
    _text("node", "runtime", sa.text("'process'"))
    _text("node", "overlay")
    op.add_column("resource", sa.Column("memory_mib", KEY, nullable=False, server_default=sa.text("0")))
    _text("resource", "pci")
    _text("resource", "trouble")
    op.add_column("job", sa.Column("image", sa.Text(), nullable=True))
    _text("attempt", "network")
    _text("process", "image")
    op.create_table(
        "sample",
        sa.Column("process_id", KEY, sa.ForeignKey("process.id"), nullable=False),
        sa.Column("at", AT, nullable=False),
        sa.Column("gpu_percent", AT, nullable=False),
        sa.Column("memory_percent", AT, nullable=False),
        sa.PrimaryKeyConstraint("process_id", "at"),
    )


def _text(table: str, column: str, default: sa.TextClause = NOTHING) -> None:
    op.add_column(table, sa.Column(column, sa.Text(), nullable=False, server_default=default))
