"""The options of a job in one column, so that a new option needs no new column."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

OLD = ("command", "is_private", "continues", "image")


def upgrade() -> None:
    op.add_column("job", sa.Column("options", sa.JSON(), nullable=False, server_default="{}"))
    op.add_column(
        "job", sa.Column("needs_container", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    job = sa.table(
        "job",
        sa.column("id", sa.BigInteger()),
        sa.column("command", sa.Text()),
        sa.column("is_private", sa.Boolean()),
        sa.column("continues", sa.BigInteger()),
        sa.column("image", sa.Text()),
        sa.column("options", sa.JSON()),
        sa.column("needs_container", sa.Boolean()),
    )
    connection = op.get_bind()
    for row in connection.execute(sa.select(job)).all():
        options = {
            "command": row.command,
            "image": row.image,
            "private": row.is_private,
            "continues": row.continues,
        }
        connection.execute(
            sa.update(job)
            .where(job.c.id == row.id)
            .values(options=options, needs_container=row.image is not None)
        )
    for name in OLD:
        op.drop_column("job", name)
