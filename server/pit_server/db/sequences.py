"""The numbers that the database hands out: the last ones, and how to raise what comes next."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, event, func, select, text
from sqlalchemy.orm import Session, UOWTransaction

from pit_server.db.memo import WritingSession
from pit_server.db.models import Attempt, Discard, Group, Job, Node, Token, User

# Numbers of these name something outside of the database: directories, uids and gids.
NAMING: tuple[Any, ...] = (Job, User, Group)
# Those of the others do not, but rise with whatever people and jobs do.
COUNTED: tuple[Any, ...] = (*NAMING, Attempt, Discard, Node, Token)
NEW = "new_numbers"  # in the info of a session

Numbers = dict[str, int]  # table -> number


@event.listens_for(WritingSession, "after_flush")
def note_new(session: Session, _: UOWTransaction) -> None:
    """After a flush: keep the highest number of each counted table that this transaction adds."""
    numbers: Numbers = session.info.setdefault(NEW, {})
    for row in session.new:
        if isinstance(row, COUNTED):
            numbers[row.__tablename__] = max(numbers.get(row.__tablename__, 0), row.id)


def note_inserted(session: Session, table: Any, number: int) -> None:
    """The same for rows that were inserted without a flush; `number` is the highest of them."""
    numbers: Numbers = session.info.setdefault(NEW, {})
    numbers[table.__tablename__] = max(numbers.get(table.__tablename__, 0), number)


def only_naming(numbers: Mapping[str, int]) -> Numbers:
    names = {table.__tablename__ for table in NAMING}
    return {name: number for name, number in numbers.items() if name in names}


def list_last(connection: Connection) -> Numbers:
    """The highest number that each counted table has ever had, as far as this database knows."""
    return {table.__tablename__: _last(connection, table) for table in COUNTED}


def raise_to(connection: Connection, least: Mapping[str, int]) -> Numbers:
    """Make the next numbers higher than `least`; returns those that were raised."""
    raised = {}
    for table in NAMING:
        name = table.__tablename__
        if least.get(name, 0) > _last(connection, table):
            raised[name] = least[name]
            _set(connection, name, least[name])
    return raised


def _last(connection: Connection, table: Any) -> int:
    highest = connection.execute(select(func.max(table.id))).scalar() or 0
    return max(highest, _counter(connection, table.__tablename__))


def _counter(connection: Connection, name: str) -> int:
    if connection.dialect.name == "sqlite":
        query = text("SELECT seq FROM sqlite_sequence WHERE name = :name")
    else:
        query = text("SELECT pg_sequence_last_value(pg_get_serial_sequence(:name, 'id')::regclass)")
    return connection.execute(query, {"name": name}).scalar() or 0


def _set(connection: Connection, name: str, number: int) -> None:
    given = {"name": name, "number": number}
    if connection.dialect.name == "sqlite":
        connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), given)
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :number)"), given)
    else:
        connection.execute(text("SELECT setval(pg_get_serial_sequence(:name, 'id'), :number)"), given)
