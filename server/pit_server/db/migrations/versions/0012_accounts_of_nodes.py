"""Whose account processes run as on a node, and whether an admin allows that all share one."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    for name in ("separates_users", "shared_account"):
        op.add_column("node", sa.Column(name, sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("node", sa.Column("account", sa.Text(), nullable=False, server_default=""))
    node = sa.table("node", sa.column("runtime", sa.Text()), sa.column("separates_users", sa.Boolean()))
    # Their files belong to users already, also before their workers report it.
    op.execute(sa.update(node).where(node.c.runtime == "docker").values(separates_users=True))
