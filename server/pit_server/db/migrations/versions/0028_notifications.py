"""Notifications: which events users want to be told of, and the messages to send."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
FLOAT = sa.Float(53)


def upgrade() -> None:
    for table in ("job", "user_account"):
        op.add_column(table, sa.Column("notify", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "notification",
        sa.Column("id", INTEGER, primary_key=True, nullable=False),
        sa.Column("key", sa.Text(), nullable=False, unique=True),
        sa.Column("user_id", INTEGER, sa.ForeignKey("user_account.id"), nullable=False),
        sa.Column("job_id", INTEGER, sa.ForeignKey("job.id"), nullable=True),
        sa.Column("attempt", INTEGER, nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("message", sa.JSON(), nullable=False),
        sa.Column("created_at", FLOAT, nullable=False),
        sa.Column("next_at", FLOAT, nullable=False),
        sa.Column("tries", INTEGER, nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("ended_at", FLOAT, nullable=True),
        sa.Column("is_sent", sa.Boolean(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("notification_by_user", "notification", ["user_id", "channel", "ended_at"])
    op.create_index("notification_by_job", "notification", ["job_id", "event"])
    op.create_index(
        "notification_due",
        "notification",
        ["next_at"],
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
