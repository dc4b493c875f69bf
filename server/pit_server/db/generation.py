"""The generation of the head: how often one has begun on this database.

Every write transaction of a head checks it. A later head, or a database that was restored from a backup
under a running one, has another generation, and the earlier head can write nothing more.
"""

from sqlalchemy import Connection, select, text
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_server.db.models import Fact

GENERATION = "generation"
LOCK_TIMEOUT_MS = 10_000  # for transactions of an earlier head to end
DEPOSED = Problem(
    "deposed", "another head has begun on this head's database", "try again in a moment", status=503
)


def begin(connection: Connection) -> int:
    """Begin the next generation; waits for writes of an earlier one that are about to commit."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}"))
    query = select(Fact.value).where(Fact.name == GENERATION)
    known = connection.execute(query.with_for_update()).scalar()
    number = int(known or 0) + 1
    statement = (
        "INSERT INTO fact (name, value) VALUES (:name, :value)"
        if known is None
        else "UPDATE fact SET value = :value WHERE name = :name"
    )
    connection.execute(text(statement), {"name": GENERATION, "value": str(number)})
    return number


def check(session: Session, generation: int) -> None:
    """Raise DEPOSED unless this is the current generation, and keep it current until the commit."""
    # FOR SHARE on PostgreSQL: who begins the next generation waits for this transaction.
    mine = select(Fact.name).where(Fact.name == GENERATION, Fact.value == str(generation))
    if session.execute(mine.with_for_update(read=True)).first() is None:
        raise DEPOSED


def is_current(session: Session, generation: int) -> bool:
    return session.execute(select(Fact.value).where(Fact.name == GENERATION)).scalar() == str(generation)
