"""Old rows of the audit may be deleted: those before the number in the fact `audit_from`."""

from alembic import op

revision = "0018"
down_revision = "0017"
KEPT_FROM = "COALESCE((SELECT CAST(value AS INTEGER) FROM fact WHERE name = 'audit_from'), 0)"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER audit_no_delete")
        op.execute(
            f"CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit WHEN OLD.id >= {KEPT_FROM} "
            "BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END"
        )
        return
    op.execute("DROP TRIGGER audit_append_only ON audit")
    op.execute(
        "CREATE TRIGGER audit_append_only BEFORE UPDATE OR TRUNCATE ON audit "
        "FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only()"
    )
    op.execute(
        "CREATE FUNCTION audit_row_is_old() RETURNS trigger LANGUAGE plpgsql AS "
        f"$$ BEGIN IF OLD.id >= {KEPT_FROM} THEN RAISE EXCEPTION 'the audit is append-only'; END IF; "
        "RETURN OLD; END $$"
    )
    op.execute(
        "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit "
        "FOR EACH ROW EXECUTE FUNCTION audit_row_is_old()"
    )
