"""The content of a database in files of one directory, and back.

SQLite is copied by its backup API, PostgreSQL table by table in one snapshot. Both work while a head serves.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, MetaData, Table, inspect, select, text
from sqlalchemy.engine import make_url

from pit_protocol.problem import Problem
from pit_server.db import migrate
from pit_server.db.database import Database
from pit_server.wakeups import Wakeups

SQLITE, POSTGRES = "sqlite", "postgresql"
SQLITE_FILE = "pit.db"
SEQUENCES_FILE = "sequences.json"
SUFFIX = ".copy"  # of a table: its rows in the text format of COPY
BLOCK = 1 << 20
OWN_FUNCTIONS = text(
    "SELECT DISTINCT t.tgfoid::regprocedure::text FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid"
    " WHERE c.relnamespace = current_schema()::regnamespace AND NOT t.tgisinternal"
)


def kind_of(url: str) -> str:
    return SQLITE if url.startswith("sqlite") else POSTGRES


def save(url: str, folder: Path) -> str:
    """Write all tables to files in `folder`; returns the version of the tables."""
    if kind_of(url) == SQLITE:
        return _save_sqlite(sqlite_path(url), folder / SQLITE_FILE)
    database = Database(url, Wakeups())
    try:
        with database.engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
            return _save_postgres(connection, folder)
    finally:
        database.dispose()


def is_there(url: str) -> bool:
    """Whether there is a database that `load` would replace."""
    if kind_of(url) == SQLITE:
        return sqlite_path(url).exists()
    database = Database(url, Wakeups())
    try:
        return inspect(database.engine).has_table("alembic_version")
    finally:
        database.dispose()


def load_postgres(url: str, folder: Path, version: str) -> None:
    """Replace all tables by those of `folder`, in one transaction."""
    database = Database(url, Wakeups())
    try:
        with database.exclusive() as connection:
            _drop_all(connection)
            migrate.migrate(connection, version)
            for table in _tables(connection):
                if connection.execute(select(table).limit(1)).first():
                    connection.execute(table.delete())  # rows of migrations, which the backup has too
                _copy_in(connection, table, folder / f"{table.name}{SUFFIX}")
            for name, number in json.loads((folder / SEQUENCES_FILE).read_text()).items():
                connection.execute(text("SELECT setval(:name, :number)"), {"name": name, "number": number})
    finally:
        database.dispose()


def sqlite_path(url: str) -> Path:
    return Path(make_url(url).database or "")


def _save_sqlite(source: Path, target: Path) -> str:
    if not source.exists():
        raise _empty(str(source))
    with closing(sqlite3.connect(source)) as found, closing(sqlite3.connect(target)) as copy:
        found.backup(copy)  # in one step, so it is one snapshot
        copy.execute("PRAGMA journal_mode=DELETE")  # one file that needs no others
        row = copy.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0])


def _save_postgres(connection: Connection, folder: Path) -> str:
    version = migrate.find_version(connection)
    if version is None:
        raise _empty(str(connection.engine.url.database))
    for table in _tables(connection):
        with (folder / f"{table.name}{SUFFIX}").open("wb") as file:
            for block in _copy_out(connection, table):
                file.write(block)
    query = text(
        "SELECT sequencename, last_value FROM pg_sequences"
        " WHERE schemaname = current_schema() AND last_value IS NOT NULL"
    )
    numbers = {row.sequencename: row.last_value for row in connection.execute(query)}
    (folder / SEQUENCES_FILE).write_text(json.dumps(numbers))
    return version


def _copy_out(connection: Connection, table: Table) -> Iterator[bytes]:
    with _cursor(connection) as cursor, cursor.copy(f"COPY {_columns(table)} TO STDOUT") as copy:
        yield from map(bytes, copy)


def _copy_in(connection: Connection, table: Table, file: Path) -> None:
    with (
        file.open("rb") as rows,
        _cursor(connection) as cursor,
        cursor.copy(f"COPY {_columns(table)} FROM STDIN") as copy,
    ):
        while block := rows.read(BLOCK):
            copy.write(block)


def _cursor(connection: Connection) -> Any:
    return connection.connection.cursor()  # of psycopg


def _columns(table: Table) -> str:
    names = ", ".join(f'"{column.name}"' for column in table.columns)
    return f'"{table.name}" ({names})'


def _tables(connection: Connection) -> list[Table]:
    """All tables but alembic's; those that others refer to come first."""
    found = MetaData()
    found.reflect(connection)
    return [table for table in found.sorted_tables if table.name != "alembic_version"]


def _drop_all(connection: Connection) -> None:
    functions = connection.execute(OWN_FUNCTIONS).scalars().all()
    found = MetaData()
    found.reflect(connection)
    found.drop_all(connection)
    for name in functions:
        connection.execute(text(f"DROP FUNCTION {name}"))


def _empty(shown: str) -> Problem:
    return Problem("no_database", f"{shown} has no tables of pit", "a head makes them when it first starts")
