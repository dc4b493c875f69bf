"""Snapshots as trees: where they are kept, what they came from, and users' credentials for remotes."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    for name in ("committed_hash", "base_hash"):
        op.add_column("job", sa.Column(name, sa.Text(), nullable=True))
    for name in ("store_id", "reruns", "diff_files", "diff_added", "diff_removed"):
        op.add_column("job", sa.Column(name, KEY, nullable=True))
    op.drop_column("job", "diff_sha256")
    op.create_table(
        "secret",
        sa.Column("user_id", KEY, sa.ForeignKey("user_account.id"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("user_id", "name"),
    )
