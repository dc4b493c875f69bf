"""Sites, the allocations that the head wants from them, and tokens of their agents."""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"

INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ONE_OWNER = (
    "(user_id IS NOT NULL AND node_id IS NULL AND site_id IS NULL) OR "
    "(user_id IS NULL AND (node_id IS NULL) <> (site_id IS NULL))"
)
AUTOINCREMENT = {"sqlite_autoincrement": True}
LIVE = sa.text("state <> 'ended'")


def upgrade() -> None:
    _make_site()
    _make_allocation()
    op.add_column("node", sa.Column("site_allocation_id", INTEGER, nullable=True))
    op.add_column("node", sa.Column("host", sa.Text(), nullable=False, server_default=""))
    op.create_index("ix_node_site_allocation_id", "node", ["site_allocation_id"])
    owner = sa.Column("site_id", INTEGER, sa.ForeignKey("site.id", name="token_site_id_fkey"), nullable=True)
    if op.get_bind().dialect.name == "sqlite":
        last = op.get_bind().scalar(sa.text("SELECT seq FROM sqlite_sequence WHERE name = 'token'"))
        # It cannot change a constraint, so the table is made anew.
        with op.batch_alter_table("token", recreate="always", table_kwargs=AUTOINCREMENT) as table:
            table.drop_constraint("token_has_one_owner", type_="check")
            table.add_column(owner)
            table.create_check_constraint("token_has_one_owner", ONE_OWNER)
        # A number is never used twice, also if the token that had it is gone.
        op.execute("DELETE FROM sqlite_sequence WHERE name = 'token'")
        op.execute(sa.text(f"INSERT INTO sqlite_sequence VALUES ('token', {int(last or 0)})"))  # noqa: S608
        return
    op.drop_constraint("token_has_one_owner", "token")
    op.add_column("token", owner)
    op.create_check_constraint("token_has_one_owner", "token", ONE_OWNER)


def _make_site() -> None:
    op.create_table(
        "site",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("name", sa.Text(), nullable=False, unique=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("session", sa.Text(), nullable=False),
        sa.Column("revision", INTEGER, nullable=False),
        sa.Column("account", sa.Text(), nullable=False),
        sa.Column("seen_at", sa.Float(53), nullable=True),
        sa.Column("trouble", sa.Text(), nullable=False),
        sa.Column("failures", INTEGER, nullable=False),
        sa.Column("paused", sa.Text(), nullable=False),
        sa.Column("removed_at", sa.Float(53), nullable=True),
        sqlite_autoincrement=True,
    )


def _make_allocation() -> None:
    texts = ("state", "number", "word", "reason", "output", "hosts")
    times = ("running_at", "joined_at", "idle_at", "starts_at", "ends_at")
    op.create_table(
        "site_allocation",
        sa.Column("id", INTEGER, primary_key=True),
        sa.Column("site_id", INTEGER, sa.ForeignKey("site.id"), nullable=False),
        sa.Column("name", sa.Text(), nullable=False, unique=True),
        sa.Column("job_id", INTEGER, nullable=False),
        sa.Column("attempt", INTEGER, nullable=False),
        sa.Column("user_id", INTEGER, sa.ForeignKey("user_account.id"), nullable=False),
        sa.Column("tries", INTEGER, nullable=False),
        sa.Column("shape", sa.JSON(), nullable=False),
        sa.Column("is_wanted", sa.Boolean(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in texts),
        sa.Column("created_at", sa.Float(53), nullable=False),
        *(sa.Column(name, sa.Float(53), nullable=True) for name in times),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "site_allocation_live", "site_allocation", ["site_id"], sqlite_where=LIVE, postgresql_where=LIVE
    )
    op.create_index("site_allocation_by_job", "site_allocation", ["job_id", "attempt"])
