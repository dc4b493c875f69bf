"""Jobs whose Git LFS pointers stay pointers."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("job", sa.Column("keeps_pointers", sa.Boolean(), nullable=False, server_default=sa.false()))
