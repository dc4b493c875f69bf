"""The database: the same tables and guarantees on SQLite and PostgreSQL."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, select, text

from pit_protocol.problem import Problem
from pit_server.app import create_head
from pit_server.context import Head
from pit_server.db import lock, migrate
from pit_server.db.database import Database, change_orders, notify_after_commit
from pit_server.db.models import Allocation, Base, Fact, Job, Node, User
from pit_server.settings import Settings
from pit_server.wakeups import STATUS, Wakeups, node_topic
from tests.support.clusters.head import Person, Worker
from tests.support.servers.postgres import Postgres

OLD_ROWS = (
    "INSERT INTO user_account (id, name, full_name, is_admin, is_active, created_at)"
    " VALUES (1, 'anna', '', TRUE, TRUE, 1.0)",
    "INSERT INTO node (id, name, state, since, epoch, revision, boot_id, address, cores, memory_mib, labels)"
    " VALUES (1, 'n0', 'online', 1.0, 1, 1, 'b', 'a', 8, 1024, '{}')",
    "INSERT INTO token (user_id, secret_sha256, label, created_at) VALUES (1, 'x', '', 1.0)",
    "INSERT INTO job (id, user_id, submission_key, body_sha256, title, request, command, is_private,"
    " tree_hash, diff_lines, state, reason, attempt, created_at, since)"
    " VALUES (1, 1, 'k', 'b', 't', '[]', 'true', TRUE, 'h', 0, 'running', '', 1, 1.0, 1.0)",
    "INSERT INTO attempt (id, job_id, number, master_port, created_at) VALUES (1, 1, 1, 20001, 1.0)",
    "INSERT INTO process (id, job_id, attempt_id, group_index, process_index, rank, node_id, host, state,"
    " oom, reason) VALUES (1, 1, 1, 0, 0, 0, 1, 'a', 'running', FALSE, '')",
    "INSERT INTO allocation (id, process_id, node_id, kind, unit, amount)"
    " VALUES (1, 1, 1, 'a100', 'GPU-1', 1), (2, 1, 1, 'port', '20001', 1), (3, 1, 1, 'cpu', NULL, 500)",
)
HOLDER = """
import sys
from pit_server.db import lock
held = lock.hold(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_the_migrations_make_exactly_the_tables_of_the_models(head: Head) -> None:
    with head.database.exclusive() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


@pytest.mark.threat("F41")
def test_an_older_head_refuses_a_newer_database_in_one_sentence(head: Head, settings: Settings) -> None:
    with head.database.exclusive() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Problem, match="a newer pit-head has used this database: its tables are version 9999"):
        migrate.upgrade(head.database)
    (settings.home / "head.toml").write_text(
        f'database_url = "{settings.database_url}"\nbind = "127.0.0.1:0"\n'
    )
    command = [sys.executable, "-m", "pit_server", "serve", "--home", str(settings.home)]
    served = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert served.returncode == 1
    assert served.stderr.startswith("pit-head: a newer pit-head has used this database")
    assert "Traceback" not in served.stderr


def test_partial_indexes_are_partial(head: Head) -> None:
    inspector = inspect(head.database.engine)
    for table, name in (("allocation", "allocation_once"), ("process", "process_live")):
        (index,) = [i for i in inspector.get_indexes(table) if i["name"] == name]
        where = index["dialect_options"]
        assert [key for key in where if key.endswith("_where")], where


@pytest.mark.threat("F41")
def test_a_database_of_the_first_version_migrates_with_all_rows(tmp_path: Path, postgres: Postgres) -> None:
    postgres.create("migrated")
    for url in (f"sqlite:///{tmp_path / 'old.db'}", postgres.url("migrated")):
        database = Database(url, Wakeups())
        migrate.upgrade(database, "0001")
        with database.exclusive() as connection:
            for statement in OLD_ROWS:
                connection.exec_driver_sql(statement)
        migrate.upgrade(database)
        with database.read() as session:
            (user,) = session.execute(select(User)).scalars()
            assert (user.name, user.approved_at, user.uid, user.email) == ("anna", 1.0, None, "")
            (node,) = session.execute(select(Node)).scalars()
            assert (node.service, node.runtime, node.removed_at) == ("online", "process", None)
            units = session.execute(select(Allocation.unit).order_by(Allocation.id)).scalars().all()
            assert units == ["GPU-1", "port/20001", None]
            (job,) = session.execute(select(Job)).scalars()
            assert job.options == {"command": "true", "image": None, "private": True, "continues": None}
            assert job.needs_container is False
        database.dispose()
    postgres.drop("migrated")


def test_migrating_again_changes_nothing(head: Head, anna: Person) -> None:
    migrate.upgrade(head.database)
    assert anna.get("/me").status_code == 200


def test_a_cluster_keeps_its_id_over_restarts(settings: Settings) -> None:
    heads = [create_head(settings) for _ in range(2)]
    for head in heads:
        head.database.dispose()
    assert heads[0].cluster == heads[1].cluster


def test_a_failed_write_changes_nothing_and_notifies_nobody(
    head: Head, a_node: Callable[..., Worker]
) -> None:
    a_node()
    with head.wakeups.subscribe(STATUS) as status, head.wakeups.subscribe(node_topic(1)) as node:
        with pytest.raises(ZeroDivisionError), head.database.write() as session:
            session.add(Fact(name="x", value="y"))
            session.flush()
            notify_after_commit(session, STATUS)
            change_orders(session, 1)
            raise ZeroDivisionError
        assert (status.is_set(), node.is_set()) == (False, False)
    with head.database.read() as session:
        assert session.get(Fact, "x") is None
        assert session.execute(select(Node.revision)).scalar_one() == 1
    with head.database.write() as session:
        session.add(Fact(name="x", value="next"))


def test_waiters_are_notified_after_the_commit(head: Head, a_node: Callable[..., Worker]) -> None:
    a_node()
    with head.wakeups.subscribe(STATUS) as status, head.wakeups.subscribe(node_topic(1)) as node:
        with head.database.write() as session:
            notify_after_commit(session, STATUS)
            change_orders(session, 1)
            assert (status.is_set(), node.is_set()) == (False, False)
        assert (status.is_set(), node.is_set()) == (True, True)
    with head.database.read() as session:
        assert session.execute(select(Node.revision)).scalar_one() == 2


def test_a_reader_sees_one_snapshot(head: Head) -> None:
    with head.database.read() as reader:
        assert reader.execute(select(Fact).where(Fact.name == "x")).all() == []
        with head.database.write() as writer:
            writer.add(Fact(name="x", value="y"))
        assert reader.execute(select(Fact).where(Fact.name == "x")).all() == []


@pytest.fixture
def url(settings: Settings, home: Path) -> str:
    return settings.sqlalchemy_url


@pytest.fixture
def short_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "TIMEOUT_S", 0.0)
    monkeypatch.setattr(lock, "POLL_S", 0.0)


@pytest.mark.threat("F24")
def test_a_second_head_on_the_same_database_is_refused_until_the_first_is_killed(
    url: str, short_timeout: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(Problem, match="another head runs on"):
            lock.hold(url)
        first.kill()
        first.wait(120)
    monkeypatch.setattr(lock, "TIMEOUT_S", 10.0)  # its database may notice a moment later
    lock.hold(url).close()


def test_a_link_to_a_database_is_the_same_database(tmp_path: Path, short_timeout: None) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    held = lock.hold(f"sqlite:///{tmp_path / 'real.db'}")
    with pytest.raises(Problem, match="another head runs on"):
        lock.hold(f"sqlite:///{tmp_path / 'link.db'}")
    held.close()


def test_a_database_in_a_missing_directory_has_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="cannot be written: no such file or directory"):
        lock.hold(f"sqlite:///{tmp_path / 'nowhere' / 'pit.db'}")


def test_heads_on_different_databases_do_not_disturb_each_other(tmp_path: Path, short_timeout: None) -> None:
    held = [lock.hold(f"sqlite:///{tmp_path / name}.db") for name in ("a", "b")]
    for descriptor in held:
        descriptor.close()


def test_the_error_does_not_contain_the_password(postgres_url: str, short_timeout: None) -> None:
    secret = postgres_url.replace("postgres@", "postgres:S3CRET@")
    held = lock.hold(postgres_url)
    try:
        with pytest.raises(Problem) as caught:
            lock.hold(secret)
    finally:
        held.close()
    assert "S3CRET" not in caught.value.message
