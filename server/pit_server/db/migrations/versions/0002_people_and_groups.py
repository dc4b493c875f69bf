"""People with passwords, groups, aliases, the audit."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
AT = sa.Float(precision=53)


def upgrade() -> None:
    _widen()
    op.create_table(
        "people_group",
        sa.Column("id", KEY, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("created_at", AT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
        sqlite_autoincrement=True,
    )
    _pairs("membership", "user_id", "user_account.id", sa.Column("autoshares", sa.Boolean(), nullable=False))
    _pairs("job_group", "job_id", "job.id")
    _pairs("node_group", "node_id", "node.id")
    _pairs("resource_group", "resource_id", "resource.id")
    for table in ("membership", "job_group"):
        op.create_index(f"ix_{table}_group_id", table, ["group_id"])
    op.create_table(
        "alias",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
    )
    op.create_table(
        "audit",
        sa.Column("id", KEY, nullable=False),
        sa.Column("at", AT, nullable=False),
        *(
            sa.Column(name, sa.Text(), nullable=False)
            for name in ("actor", "act", "object", "detail", "address")
        ),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    _make_append_only("audit")


def _widen() -> None:
    """New columns of the tables that are there."""
    nothing, no = sa.text("''"), sa.false()
    op.add_column("user_account", sa.Column("email", sa.Text(), nullable=False, server_default=nothing))
    op.add_column("user_account", sa.Column("password_hash", sa.Text(), nullable=True))
    op.add_column("user_account", sa.Column("approved_at", AT, nullable=True))
    op.execute("UPDATE user_account SET approved_at = created_at")
    op.add_column("token", sa.Column("joins", sa.Boolean(), nullable=False, server_default=no))
    online = sa.text("'online'")
    op.add_column("node", sa.Column("service", sa.Text(), nullable=False, server_default=online))
    op.add_column("node", sa.Column("fixed_address", sa.Text(), nullable=False, server_default=nothing))
    for table in ("user_account", "node", "job"):
        op.add_column(table, sa.Column("removed_at", AT, nullable=True))
    # By unit alone: an alias may change while a resource is held.
    op.execute("UPDATE allocation SET unit = 'port/' || unit WHERE kind = 'port'")
    op.drop_index("allocation_once", "allocation")
    held = sa.text("released_at IS NULL")
    op.create_index(
        "allocation_once",
        "allocation",
        ["node_id", "unit"],
        unique=True,
        sqlite_where=held,
        postgresql_where=held,
    )


def _pairs(table: str, column: str, target: str, *more: sa.Column[bool]) -> None:
    op.create_table(
        table,
        sa.Column(column, KEY, sa.ForeignKey(target), nullable=False),
        sa.Column("group_id", KEY, sa.ForeignKey("people_group.id"), nullable=False),
        *more,
        sa.PrimaryKeyConstraint(column, "group_id"),
    )


def _make_append_only(table: str) -> None:
    if op.get_bind().dialect.name == "sqlite":
        for act in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{act.lower()} BEFORE {act} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, 'the {table} is append-only'); END"
            )
        return
    op.execute(
        f"CREATE FUNCTION {table}_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN RAISE EXCEPTION 'the {table} is append-only'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {table}_is_append_only()"
    )
