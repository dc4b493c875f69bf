"""Quotas, jobs that are kept, and what is in the trash."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
AT = sa.Float(precision=53)


def upgrade() -> None:
    for table in ("user_account", "people_group"):
        op.add_column(table, sa.Column("quota_mib", KEY, nullable=True))
    op.add_column("job", sa.Column("is_kept", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "discard",
        sa.Column("id", KEY, primary_key=True),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False, unique=True),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("at", AT, nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("discard_by_domain", "discard", ["domain"])
