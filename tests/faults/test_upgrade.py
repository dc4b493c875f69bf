"""Upgrades from every version of the tables: all rows are there, and running jobs end as usual."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, MetaData

from pit_server.app import create_app, create_head, take_over
from pit_server.db import migrate
from pit_server.db.database import Database
from pit_server.settings import Settings
from pit_server.wakeups import Wakeups
from tests.head.conftest import postgres  # noqa: F401
from tests.support.clusters.head import Person, Worker, a_chunk, an_inventory, ended
from tests.support.servers.postgres import Postgres

VERSIONS = [f"{number:04}" for number in range(1, int(migrate.LATEST) + 1)]
SECRET = "x" * 43
DIGEST = hashlib.sha256(SECRET.encode()).hexdigest()
# A value for each column of any version that has no default of its own; a version takes those that it has.
ROWS: dict[str, list[dict[str, Any]]] = {
    "fact": [{"name": "cluster", "value": "0123456789ab"}],
    "user_account": [
        {"id": 1, "name": "anna", "full_name": "Anna", "is_admin": True, "is_active": True, "created_at": 1.0,
         "approved_at": 1.0, "uid": 1007, "quota_mib": 5},
    ],
    "people_group": [{"id": 1, "name": "lab", "title": "The lab", "created_at": 1.0, "gid": 2007}],
    "membership": [{"user_id": 1, "group_id": 1, "autoshares": True}],
    "secret": [{"user_id": 1, "name": "git.example.org", "sealed": "sealed"}],
    "node": [
        {"id": 1, "name": "n0", "state": "online", "since": 1.0, "epoch": 3, "revision": 7,
         "boot_id": "boot-1", "address": "n0.lab", "cores": 8, "memory_mib": 1024, "labels": {"rack": "a"},
         "shared_account": True},
    ],
    "resource": [
        {"id": 1, "node_id": 1, "position": 0, "unit": "GPU-1", "model": "A100", "kind": "a100",
         "is_present": True},
    ],
    "alias": [{"name": "big", "model": "A100"}],
    "token": [
        {"id": 1, "user_id": 1, "secret_sha256": DIGEST, "label": "laptop", "created_at": 1.0},
        {"id": 2, "node_id": 1, "secret_sha256": DIGEST, "label": "", "created_at": 1.0},
    ],
    "job": [
        {"id": 1, "user_id": 1, "submission_key": "k", "body_sha256": "b", "title": "Old",
         "request": "[a100]",
         "command": "true", "is_private": True, "options": {"command": "true", "private": True},
         "tree_hash": "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "diff_lines": 0, "state": "running",
         "reason": "", "attempt": 1, "created_at": 1.0, "since": 1.0},
    ],
    "job_group": [{"job_id": 1, "group_id": 1}],
    "attempt": [{"id": 1, "job_id": 1, "number": 1, "master_port": 20001, "created_at": 1.0}],
    "process": [
        {"id": 1, "job_id": 1, "attempt_id": 1, "group_index": 0, "process_index": 0, "rank": 0, "node_id": 1,
         "host": "n0.lab", "state": "running", "oom": False, "reason": "", "started_at": 2.0},
    ],
    "sample": [{"process_id": 1, "at": 3.0, "gpu_percent": 50.0, "memory_percent": 25.0}],
    "allocation": [
        {"id": 1, "process_id": 1, "node_id": 1, "kind": "a100", "unit": "GPU-1", "amount": 1},
        {"id": 2, "process_id": 1, "node_id": 1, "kind": "port", "unit": "20001", "amount": 1},
    ],
    "event": [
        {"id": 1, "job_id": 1, "attempt": 1, "event": "accepted", "to_state": "preparing", "actor": "anna",
         "reason": "", "at": 1.0},
        {"id": 2, "job_id": 1, "process_id": 1, "attempt": 1, "event": "started", "from_state": "starting",
         "to_state": "running", "actor": "node:n0", "reason": "", "at": 2.0},
    ],
    "audit": [
        {"id": 1, "at": 1.0, "actor": "anna", "act": "login", "object": "user:anna", "detail": "",
         "address": ""},
    ],
    "discard": [
        {"id": 1, "domain": "user:anna", "path": "old.txt", "place": "user-anna-1", "actor": "anna",
         "at": 1e9},
    ],
}  # fmt: skip


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'old.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    server.create("old")
    yield server.url("old")
    server.drop("old")


def fill(connection: Connection) -> None:
    """Store a row in every table of this version, with all columns that it has."""
    found = MetaData()
    found.reflect(connection)
    for table in found.sorted_tables:
        if table.name == "alembic_version":
            continue
        columns = set(table.columns.keys())
        for row in ROWS.get(table.name, ()):
            known = {name: value for name, value in row.items() if name in columns}
            connection.execute(table.insert().values(**known))
        if connection.dialect.name == "postgresql" and "id" in columns:
            highest = f"(SELECT max(id) + 1 FROM {table.name})"
            sequence = f"pg_get_serial_sequence('{table.name}', 'id')"
            connection.exec_driver_sql(f"SELECT setval({sequence}, coalesce({highest}, 1), false)")


@pytest.mark.threat("F41")
@pytest.mark.parametrize("version", VERSIONS)
def test_rows_of_every_version_are_there_after_the_upgrade(
    database_url: str, version: str, tmp_path: Path
) -> None:
    old = Database(database_url, Wakeups())
    migrate.upgrade(old, version)
    with old.exclusive() as connection:
        fill(connection)
    old.dispose()
    settings = Settings(home=tmp_path / "home", database_url=database_url, reserve_mib=0)
    head = create_head(settings, take_over(settings))
    try:
        app = create_app(head)
        check(Person(app, "anna", f"pit_1_{SECRET}"), Worker(app, "n0", f"pit_2_{SECRET}"), version)
    finally:
        head.wakeups.close()
        head.database.dispose()


def check(anna: Person, worker: Worker, version: str) -> None:
    assert anna.ok(anna.get("/me"))["full_name"] == "Anna"
    record = anna.job(1)
    assert (record["title"], record["state"], record["options"]["command"]) == ("Old", "running", "true")
    assert [event["event"] for event in record["events"]] == ["accepted", "started"]
    assert anna.ok(anna.get("/nodes/n0"))["resources"][0]["model"] == "A100"
    assert [job["number"] for job in anna.ok(anna.get("/status"))["running"]] == [1]
    if version >= "0002":
        assert anna.ok(anna.get("/groups/lab"))["title"] == "The lab"
        assert anna.ok(anna.get("/audit"))["entries"][-1]["act"] == "login"
    if version >= "0006":
        assert [entry["id"] for entry in anna.ok(anna.get("/trash"))["trash"]] == [1]
    # The worker of the old head is upgraded, too, and reports how its process went.
    worker.seen = 7
    worker.hello(an_inventory(gpus={"A100": 1}))
    worker.beat(ended(1, 3, log_size=4), chunks=[a_chunk(1, b"end\n")])
    assert (anna.job(1)["outcome"], anna.job(1)["processes"][0]["exit_code"]) == ("failed", 3)
    assert "end" in str(anna.log(1)["lines"])
    assert anna.submit() == 2
