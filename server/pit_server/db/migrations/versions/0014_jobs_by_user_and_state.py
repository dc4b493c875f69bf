"""How many jobs of a user wait is counted in an index."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_index("job_by_user", "job", ["user_id", "state"])
    op.drop_index("ix_job_user_id", table_name="job")
