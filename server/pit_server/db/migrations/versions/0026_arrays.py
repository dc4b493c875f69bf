"""Arrays: a job of many elements, each with a row from its start on."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    for name in ("array_size", "array_next", "array_job", "array_index"):
        op.add_column("job", sa.Column(name, INTEGER, nullable=True))
    op.create_index("job_element", "job", ["array_job", "array_index"], unique=True)
    op.create_index("job_by_array", "job", ["array_job", "state", "outcome"])
