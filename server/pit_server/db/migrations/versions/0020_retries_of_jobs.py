"""The lease of each attempt, and why another one follows it."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ATTEMPT = sa.table(
    "attempt",
    sa.column("id", INTEGER),
    sa.column("job_id", INTEGER),
    sa.column("number", INTEGER),
    sa.column("lost_after_s", sa.Float(53)),
    sa.column("grace_s", sa.Float(53)),
    sa.column("requeue_cause", sa.Text()),
    sa.column("requeue_reason", sa.Text()),
    sa.column("failed_node_id", INTEGER),
)
FACT = sa.table("fact", sa.column("name", sa.Text()), sa.column("value", sa.Text()))
PROCESS = sa.table(
    "process",
    sa.column("attempt_id", INTEGER),
    sa.column("node_id", INTEGER),
    sa.column("reason", sa.Text()),
    sa.column("node_fault", sa.Boolean()),
)


def upgrade() -> None:
    for column in (
        sa.Column("lost_after_s", sa.Float(53), nullable=True),
        sa.Column("grace_s", sa.Float(53), nullable=False, server_default="0"),
        sa.Column("requeue_cause", sa.Text(), nullable=False, server_default=""),
        sa.Column("requeue_reason", sa.Text(), nullable=False, server_default=""),
        sa.Column("failed_node_id", INTEGER, nullable=True),
    ):
        op.add_column("attempt", column)
    _keep_leases()
    _keep_faults()


def _keep_leases() -> None:
    """So far one value told which attempts had which lease."""
    fact = sa.select(FACT.c.value).where(FACT.c.name == "lease_term")
    term = op.get_bind().execute(fact).scalar()
    if term is not None:
        lost_after_s, grace_s, after = term.split()
        op.execute(
            sa.update(ATTEMPT)
            .where(ATTEMPT.c.id > int(after), sa.literal(float(lost_after_s)) > 0)
            .values(lost_after_s=float(lost_after_s), grace_s=float(grace_s))
        )
        op.execute(sa.delete(FACT).where(FACT.c.name == "lease_term"))


def _keep_faults() -> None:
    """An attempt that a node could not start is followed by another one."""
    faults = sa.select(PROCESS.c.attempt_id, PROCESS.c.node_id, PROCESS.c.reason).where(PROCESS.c.node_fault)
    for row in op.get_bind().execute(faults).all():
        op.execute(
            sa.update(ATTEMPT)
            .where(ATTEMPT.c.id == row.attempt_id)
            .values(
                requeue_cause="fault",
                requeue_reason=f"a node could not start it: {row.reason}",
                failed_node_id=row.node_id,
            )
        )
