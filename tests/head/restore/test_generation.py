"""Two heads on one database: the earlier one can write nothing more, and stops serving."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from pit_protocol.problem import Problem
from pit_server.app import create_head, take_over
from pit_server.background.lock_watch import LockWatch
from pit_server.context import Head
from pit_server.db import generation, lock
from pit_server.db.database import Database
from pit_server.db.models import Fact
from pit_server.settings import Settings
from pit_server.wakeups import Wakeups
from tests.support.servers.postgres import Postgres, wait_for_blocked

pytestmark = pytest.mark.threat("F24")


@pytest.fixture
def serving(settings: Settings, home: Path) -> Iterator[Head]:
    head = create_head(settings, take_over(settings))
    yield head
    head.database.dispose()


def test_a_head_cannot_write_once_another_has_begun(serving: Head, settings: Settings) -> None:
    deposed: list[str] = []
    serving.database.on_deposed = lambda: deposed.append("stop")
    with serving.database.write() as session:
        session.add(Fact(name="x", value="before"))
    take_over(settings)
    sentence = "another head has begun on this head's database"
    with pytest.raises(Problem, match=sentence) as refused, serving.database.write() as session:
        session.get_one(Fact, "x").value = "after"
    assert (refused.value.status, deposed) == (503, ["stop"])
    with serving.database.read() as session:
        assert session.get_one(Fact, "x").value == "before"


def test_a_head_cannot_write_to_a_database_that_was_restored_under_it(serving: Head) -> None:
    with serving.database.exclusive() as connection, Session(connection) as session:
        session.get_one(Fact, generation.GENERATION).value = "0"
        session.flush()
    with pytest.raises(Problem, match="another head has begun"), serving.database.write() as session:
        session.add(Fact(name="x", value="y"))


def test_the_next_head_waits_for_a_write_that_has_been_checked(
    postgres_url: str, tmp_path: Path, in_thread: Callable[..., Callable[[], int]]
) -> None:
    settings = Settings(home=tmp_path / "home", database_url=postgres_url)
    head = create_head(settings, take_over(settings))
    with Session(head.database.engine) as session:
        session.add(Fact(name="x", value="y"))
        session.flush()
        generation.check(session, head.database.generation or 0)
        begun = in_thread(lambda: take_over(settings))
        wait_for_blocked(postgres_url)
        session.commit()
    assert begun() == 2
    with pytest.raises(Problem, match="another head has begun"), head.database.write() as session:
        session.execute(select(Fact))
    head.database.dispose()


def drop_lock(settings: Settings) -> None:
    """As a restart of the database does."""
    if not settings.database_url:
        Path(f"{settings.home}/pit.db.lock").unlink()
        return
    with psycopg.connect(settings.database_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        )


def test_a_lock_that_the_database_has_dropped_is_taken_again(serving: Head, settings: Settings) -> None:
    held = lock.hold(settings.sqlalchemy_url)
    lost: list[str] = []
    watch = LockWatch(serving.database, settings.sqlalchemy_url, held, lost.append)
    watch()
    drop_lock(settings)
    watch()
    assert lost == []
    assert lock.try_hold(settings.sqlalchemy_url) is None
    held.close()


def test_a_head_stops_when_another_has_its_lock(serving: Head, settings: Settings) -> None:
    held = lock.hold(settings.sqlalchemy_url)
    drop_lock(settings)
    other = lock.hold(settings.sqlalchemy_url)
    lost: list[str] = []
    LockWatch(serving.database, settings.sqlalchemy_url, held, lost.append)()
    assert lost == ["another head has the lock on this head's database"]
    held.close()
    other.close()


def test_a_head_stops_when_another_has_begun_even_if_it_writes_nothing(
    serving: Head, settings: Settings
) -> None:
    held = lock.hold(settings.sqlalchemy_url)
    lost: list[str] = []
    take_over(settings)
    LockWatch(serving.database, settings.sqlalchemy_url, held, lost.append)()
    assert lost == ["another head has begun on this head's database"]
    held.close()


def test_a_database_that_cannot_store_every_text_is_refused_in_one_sentence(postgres: Postgres) -> None:
    postgres.create("ascii", template="template0 ENCODING 'SQL_ASCII'")
    url = postgres.url("ascii")
    sentence = "the PostgreSQL database ascii has the encoding SQL_ASCII, not UTF8"
    with pytest.raises(Problem, match=sentence):
        lock.hold(url)
    with pytest.raises(Problem, match=sentence):
        Database(url, Wakeups()).engine.connect()
    postgres.drop("ascii")


def test_a_server_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="does not answer") as refused:
        lock.hold(f"postgresql://postgres@/pit?host={tmp_path}")
    assert (
        refused.value.status == 503
    )  # `pit-head` then exits with a code after which its unit starts it again
