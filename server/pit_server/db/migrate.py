"""Migrate a database to the tables of this version."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from pit_server.db.database import Database

LATEST = "0009"  # the newest migration


def upgrade(database: Database, target: str = LATEST) -> None:
    """Run all migrations up to `target` that this database has not seen, in one transaction."""
    with database.exclusive() as connection:
        if _version(connection) == target:
            return
        # Imported here, because it takes longer than the rest of the head's start.
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        config.attributes["connection"] = connection
        command.upgrade(config, target)


def _version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
