"""A database that is older than its data root: nothing is mixed up, shown to others, or run twice."""

import os
from collections.abc import Callable

import pytest
from sqlalchemy import update

from pit_protocol.messages.beat import OrderAction
from pit_server.app import create_head, take_over
from pit_server.context import Head
from pit_server.db.models import Node
from pit_server.services.users import accounts
from pit_server.settings import Settings
from pit_server.store.marks import BLOCK, Marks
from tests.head.restore.conftest import Backup
from tests.support.clusters.head import (
    Person,
    Worker,
    a_chunk,
    an_inventory,
    ended,
    running,
    skip_preparation,
)

pytestmark = pytest.mark.threat("F26")


@pytest.fixture(autouse=True)
def first_start(settings: Settings, home: object) -> None:
    """Database and data root belong together, as after every start of a head."""
    take_over(settings)


def run(head: Head, person: Person, worker: Worker, output: bytes) -> int:
    """A job that writes this and ends."""
    number = person.submit()
    skip_preparation(head, number)
    head.scheduling()
    (process,) = worker.orders()
    worker.beat(ended(process, log_size=len(output)), chunks=[a_chunk(process, output)])
    assert person.job(number)["outcome"] == "succeeded"
    return number


def quarantined(head: Head) -> set[str]:
    (folder,) = head.data.quarantine.iterdir()
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_a_new_job_does_not_show_what_ran_under_its_number_before_the_restore(
    head: Head,
    anna: Person,
    a_user: Callable[..., Person],
    node: Worker,
    a_backup: Callable[[], Backup],
) -> None:
    eve = a_user("eve")
    saved = a_backup()
    secret = run(head, eve, node, b"secret of eve\n")
    (head.data.job(secret) / "1").mkdir(parents=True)
    restored = saved.restore(head)
    anna, node = restored.person(anna), restored.worker(node)
    node.hello(an_inventory(), epoch=node.epoch)
    number = anna.submit()
    assert number > secret
    assert {f"logs/{secret}", f"jobs/{secret}/1"} <= quarantined(restored.head)
    assert anna.get(f"/jobs/{secret}").status_code == 404
    assert anna.get(f"/jobs/{secret}/log").status_code == 404
    skip_preparation(restored.head, number)
    restored.head.scheduling()
    (process,) = node.orders()
    node.beat(running(process), chunks=[a_chunk(process, b"mine\n")])
    assert "secret" not in str(anna.log(number))
    assert "mine" in str(anna.log(number))


def test_a_user_who_registers_after_the_restore_gets_neither_home_nor_uid_of_another(
    head: Head, root: Person, a_user: Callable[..., Person], a_backup: Callable[[], Backup]
) -> None:
    saved = a_backup()
    a_user("jill")
    root.ok(root.put("/groups/lab"))
    for place in (head.data.home("jill"), head.data.group("lab")):
        place.mkdir(exist_ok=True)
        (place / "diary").write_text("dear diary")
    (head.data.stores() / "2.git").mkdir(parents=True)
    restored = saved.restore(head)
    assert {"home/jill/diary", "groups/lab/diary", "cache/stores/2.git"} <= quarantined(restored.head)
    assert not restored.head.data.home("jill").exists()
    with restored.head.database.write() as session:
        assert accounts.add(session, "jill", now=0.0).id > 2


def test_admins_are_told_of_a_restore_and_nobody_else(
    head: Head, anna: Person, root: Person, node: Worker, a_backup: Callable[[], Backup],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    saved = a_backup()
    run(head, anna, node, b"x\n")
    restored = saved.restore(head)
    text = "the head's database was restored from a backup"
    assert text in restored.person(root).get("/status").json["notices"][0]
    assert restored.person(anna).get("/status").json["notices"] == []
    assert text in caplog.text
    assert "the data root has job 1, the database knows 0" in caplog.text
    assert restored.person(root).get("/audit").json["entries"][0]["act"] == "restored"


def test_a_job_that_waited_at_the_backup_and_ran_since_does_not_run_again(
    head: Head, anna: Person, node: Worker, a_waiting_job: Callable[..., int], a_backup: Callable[[], Backup]
) -> None:
    ran, waits = a_waiting_job("[]@n0"), a_waiting_job("[]@n0")
    with head.database.write() as session:
        session.execute(update(Node).values(slots=1))
    saved = a_backup()
    head.scheduling()
    (process,) = node.orders()
    node.beat(ended(process))  # without any output
    assert anna.job(ran)["outcome"] == "succeeded"
    restored = saved.restore(head)
    anna = restored.person(anna)
    record = anna.job(ran)
    assert (record["state"], record["outcome"]) == ("ended", "lost")
    assert "restored from a backup" in record["reason"]
    assert anna.job(waits)["state"] == "waiting"


def test_a_process_that_was_only_assigned_at_the_backup_is_not_started_again(
    head: Head, anna: Person, node: Worker, a_placed_job: Callable[..., int], a_backup: Callable[[], Backup]
) -> None:
    number = a_placed_job()
    saved = a_backup()
    (process,) = node.orders()
    node.beat(ended(process))
    run(head, anna, node, b"next\n")
    restored = saved.restore(head)
    node, anna = restored.worker(node), restored.person(anna)
    node.hello(an_inventory(), epoch=node.epoch)
    order = node.orders()[process]
    assert (order.action, order.spec) == (OrderAction.RUN, None)
    node.beat(running(process))  # a worker that still has it goes on
    assert anna.job(number)["state"] == "running"


def test_what_runs_for_a_job_that_the_database_does_not_know_is_stopped_and_forgotten(
    head: Head, node: Worker, a_placed_job: Callable[..., int], a_backup: Callable[[], Backup]
) -> None:
    saved = a_backup()
    a_placed_job()
    (process,) = node.orders()
    node.beat(running(process))
    restored = saved.restore(head)
    node = restored.worker(node)
    node.hello(an_inventory(), epoch=node.epoch)
    assert [order.action for order in node.beat(running(process)).orders] == [OrderAction.STOP]
    assert [order.action for order in node.beat(ended(process)).orders] == [OrderAction.FORGET]


def test_a_restore_is_found_once(
    head: Head, anna: Person, node: Worker, settings: Settings, a_backup: Callable[[], Backup],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    saved = a_backup()
    run(head, anna, node, b"x\n")
    saved.restore(head).head.database.dispose()
    caplog.clear()
    take_over(settings)
    assert "older than the data root" not in caplog.text


def test_a_head_that_was_only_killed_is_not_restored(
    head: Head, anna: Person, node: Worker, settings: Settings
) -> None:
    number = run(head, anna, node, b"x\n")
    head.database.dispose()
    again = create_head(settings, take_over(settings))
    anna.app.extensions["pit"] = again
    assert not again.data.quarantine.exists()
    assert anna.submit() == number + 1
    again.wakeups.close()
    again.database.dispose()


def test_numbers_are_reserved_on_disk_before_they_are_handed_out(
    head: Head, anna: Person, node: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), real(descriptor)))
    numbers = [anna.submit() for _ in range(5)]
    record = Marks(head.data.root).read()
    assert record is not None
    assert numbers[-1] <= record.reserved["job"] <= numbers[-1] + BLOCK
    assert 0 < len(synced) <= 2  # of a file and its directory, once for all of them


def test_after_a_power_failure_numbers_go_on_after_the_reserved_ones(
    head: Head, anna: Person, node: Worker, a_backup: Callable[[], Backup], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = a_backup()
    lost = anna.submit()
    (head.data.root / "incarnation.used").write_bytes(b"")
    monkeypatch.setattr("pit_server.services.incarnation.takeover.read_boot_id", lambda: "another boot")
    restored = saved.restore(head)
    assert restored.person(anna).submit() > lost


def test_a_clean_exit_leaves_no_gap(head: Head, anna: Person, node: Worker) -> None:
    number = anna.submit()
    assert head.database.marks is not None
    head.database.marks.close()
    record = Marks(head.data.root).read()
    assert record is not None
    assert record.reserved["job"] == number
