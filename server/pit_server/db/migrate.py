"""Migrate a database to the tables of this version."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from pit_protocol import __version__
from pit_protocol.problem import Problem
from pit_server.db.database import Database

LATEST = "0030"  # the newest migration


def upgrade(database: Database, target: str = LATEST) -> None:
    """Run all migrations up to `target` that this database has not seen, in one transaction."""
    with database.exclusive() as connection:
        migrate(connection, target)


def migrate(connection: Connection, target: str) -> None:
    """The same in a transaction of the caller's."""
    version = find_version(connection)
    if version == target:
        return
    check_not_newer(version)
    # Imported here, because it takes longer than the rest of the head's start.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    command.upgrade(config, target)


def check(database: Database) -> None:
    """Raise a Problem if a newer head has migrated this database."""
    with database.engine.connect() as connection:
        check_not_newer(find_version(connection))


def check_not_newer(version: str | None) -> None:
    """Raise a Problem for tables of a newer head."""
    if version is not None and version > LATEST:
        raise Problem(
            "newer_database",
            f"a newer pit-head has used this database: its tables are version {version}, "
            f"and pit-head {__version__} knows versions up to {LATEST}",
            "install the newer pit-head again, or restore the backup from before the upgrade",
        )


def find_version(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
