"""Jobs that wait for others."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "dependency",
        sa.Column("job_id", INTEGER, sa.ForeignKey("job.id"), primary_key=True),
        sa.Column("needs_id", INTEGER, sa.ForeignKey("job.id"), primary_key=True),
        sa.Column("when", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
    )
    op.create_index("ix_dependency_needs_id", "dependency", ["needs_id"])
    is_due = sa.text("outcome IS NOT NULL")
    op.create_index("dependency_due", "dependency", ["job_id"], sqlite_where=is_due, postgresql_where=is_due)
