"""Beats: which reports are accepted, and that repeating them is harmless."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import delete, text

from pit_protocol.messages.beat import Beat, OrderAction, Report
from pit_protocol.states import KilledBy, ProcessState
from pit_server.context import Head
from pit_server.db.models import Allocation, Attempt, Event, Process
from pit_server.store.log_stream import process_log
from tests.support.clusters.head import Person, Worker, a_chunk, an_inventory, ended, killed, running


@pytest.fixture
def worker(a_node: Callable[..., Worker]) -> Worker:
    return a_node()


def stored(head: Head, number: int, index: int = 0) -> bytes:
    path = head.data.logs(number) / f"1-0.{index}.log"
    return path.read_bytes() if path.exists() else b""


def test_the_welcome_contains_name_epoch_and_data_root(head: Head, a_node: Callable[..., Worker]) -> None:
    welcome = a_node("n7", joins=False).hello(an_inventory())
    assert (welcome.node, welcome.epoch, welcome.cluster) == ("n7", 1, head.cluster)
    assert (welcome.data_root, welcome.hold_s) == (str(head.settings.root), head.settings.hold_s)


def test_a_node_shows_its_workers_inventory(anna: Person, a_node: Callable[..., Worker]) -> None:
    a_node("n0", cores=4, memory_mib=2048, gpus={"NVIDIA A100": 1})
    (node,) = anna.get("/nodes").json["nodes"]
    assert node == anna.get("/nodes/n0").json
    assert (node["state"], node["cores"], node["memory_mib"], node["slots"]) == ("online", 4, 2048, 8)
    assert node["resources"] == [
        {
            "index": 0,
            "model": "NVIDIA A100",
            "kind": "a100",
            "aliases": ["a100"],
            "unit": "NVIDIAA100-0",
            "memory_mib": 0,
            "pci": "",
            "trouble": "",
            "groups": [],
            "free": True,
            "job": None,
            "user": "",
            "usable": True,
        }
    ]
    assert anna.get("/nodes/n9").status_code == 404


def test_a_gpu_that_is_missing_after_a_restart_is_not_offered(
    head: Head, a_node: Callable[..., Worker], a_waiting_job: Callable[..., int], anna: Person
) -> None:
    worker = a_node(gpus={"A100": 2})
    number = a_waiting_job("[2:a100]")
    worker.hello(an_inventory(gpus={"A100": 1}))
    head.scheduling()
    reason = "[2:a100] cannot be fulfilled: a process needs 2 a100, no node has more than 1"
    assert anna.job(number)["reason"] == reason
    assert len(anna.get("/nodes/n0").json["resources"]) == 1


def test_a_beat_before_the_first_session_is_refused(a_node: Callable[..., Worker], anna: Person) -> None:
    worker = a_node("n7", joins=False)
    answer = worker.send(Beat(0, "", 0), [])
    assert (answer.status_code, answer.json["code"]) == (409, "stale_epoch")
    assert anna.get("/nodes/n7").json["state"] == "new"


@pytest.mark.threat("S19", "S61")
def test_a_beat_of_an_older_epoch_is_refused_and_changes_nothing(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.hello(an_inventory())
    chunk, body = a_chunk(process, b"late\n")
    answer = worker.send(
        Beat(worker.epoch - 1, "boot-1", 0, reports=(running(process),), chunks=(chunk,)), [body]
    )
    assert (answer.status_code, answer.json["code"]) == (409, "stale_epoch")
    assert stored(head, number) == b""
    assert anna.job(number)["state"] == "starting"


@pytest.mark.parametrize(("epoch", "seen"), [(1, 0), (0, 1_000)])
def test_a_session_from_after_the_backup_that_was_restored_begins_again(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], anna: Person, epoch: int, seen: int
) -> None:
    number = a_placed_job()
    answer = worker.send(Beat(worker.epoch + epoch, "boot-1", seen))
    assert (answer.status_code, answer.json["code"]) == (409, "unknown_session")
    before = worker.epoch + epoch
    worker.hello(an_inventory(), epoch=before)
    assert worker.epoch == before + 1
    (process,) = worker.orders()
    worker.beat(running(process))
    assert anna.job(number)["state"] == "running"


def test_a_worker_that_was_overtaken_cannot_begin_a_session_again(worker: Worker) -> None:
    overtaken = worker.epoch
    worker.hello(an_inventory())
    with pytest.raises(AssertionError, match="another worker has taken over node n0"):
        worker.hello(an_inventory(), epoch=overtaken)


@pytest.mark.threat("F23")
def test_a_hello_that_arrives_after_a_later_one_displaces_nobody(worker: Worker) -> None:
    worker.hello(an_inventory(), spool="one", count=7)
    before = worker.epoch
    for late in (6, 7):
        with pytest.raises(AssertionError, match="node n0 has said hello again since"):
            worker.hello(an_inventory(), spool="one", count=late)
    worker.beat()
    worker.hello(an_inventory(), spool="one", count=8)
    worker.hello(an_inventory(), spool="another", count=1)  # of another machine, or a new spool
    assert worker.epoch == before + 2


def test_process_numbers_are_not_used_again_after_a_restore(
    head: Head, worker: Worker, a_placed_job: Callable[..., int]
) -> None:
    """Ids that count up begin again where the backup ended, and name what nodes still have of others."""
    a_placed_job()
    (first,) = worker.orders()
    with head.database.write() as session:
        for table in (Allocation, Event, Process, Attempt):
            session.execute(delete(table))
        if head.database.is_sqlite:
            session.execute(text("DELETE FROM sqlite_sequence WHERE name = 'process'"))
        else:
            session.execute(text("ALTER SEQUENCE process_id_seq RESTART"))
    a_placed_job()
    (second,) = worker.orders()
    assert second != first


@pytest.mark.threat("S18")
def test_a_worker_cannot_report_another_nodes_process(
    head: Head,
    a_node: Callable[..., Worker],
    a_placed_job: Callable[..., int],
    anna: Person,
    a_user: Callable[..., Person],
) -> None:
    owner, stranger = a_node("n0"), a_node("n1")
    number = a_placed_job("[]@n0")
    (process,) = owner.orders()
    for report in (ended(process, 0), running(process)):
        chunk, body = a_chunk(process, b"mine\n")
        answer = stranger.send(Beat(stranger.epoch, stranger.boot_id, 0, 0, (report,), (chunk,)), [body])
        assert (answer.status_code, answer.json["code"]) == (403, "not_yours")
    root = a_user("root", admin=True)
    assert {entry["actor"] for entry in root.get("/audit").json["entries"]} == {"node:n1"}
    assert anna.job(number)["state"] == "starting"
    assert stored(head, number) == b""
    assert owner.orders()[process].action is OrderAction.RUN


@pytest.mark.threat("S61")
def test_a_report_of_another_attempt_changes_nothing(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    for attempt in (0, 2):
        worker.beat(Report(process, attempt, ProcessState.ENDED, exit_code=0))
    assert anna.job(number)["state"] == "starting"


def test_an_end_counts_only_with_the_whole_log(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(running(process), chunks=[a_chunk(process, b"one\n")])
    (order,) = worker.beat(ended(process, 0, log_size=8)).orders
    assert (order.action, order.log_size) == (OrderAction.RUN, 4)
    assert anna.job(number)["state"] == "running"
    (order,) = worker.beat(
        ended(process, 0, log_size=8), chunks=[a_chunk(process, b"two\n", offset=4)]
    ).orders
    assert order.action is OrderAction.FORGET
    assert stored(head, number) == b"one\ntwo\n"
    assert anna.job(number)["outcome"] == "succeeded"


def test_chunks_that_repeat_or_overlap_are_stored_once(
    head: Head, worker: Worker, a_placed_job: Callable[..., int]
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    whole = b"0123456789"
    for begin, end in ((0, 4), (0, 4), (2, 6), (0, 6), (6, 7), (1, 10), (9, 10)):
        worker.beat(chunks=[a_chunk(process, whole[begin:end], offset=begin)])
    assert stored(head, number) == whole


def test_a_chunk_after_a_gap_is_not_stored_and_the_order_says_where_to_resume(
    head: Head, worker: Worker, a_placed_job: Callable[..., int]
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    chunks = [a_chunk(process, b"ab"), a_chunk(process, b"ef", offset=4)]
    (order,) = worker.beat(chunks=chunks).orders
    assert (order.log_size, stored(head, number)) == (2, b"ab")


def test_a_chunk_for_an_ended_process_is_not_stored(
    head: Head, worker: Worker, a_placed_job: Callable[..., int]
) -> None:
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(ended(process, 0))
    worker.beat(chunks=[a_chunk(process, b"zombie\n")])
    assert stored(head, number) == b""


@pytest.mark.threat("F17")
def test_an_unknown_process_is_stopped_and_then_forgotten(worker: Worker) -> None:
    (order,) = worker.beat(running(999)).orders
    assert (order.process, order.attempt, order.action) == (999, 1, OrderAction.STOP)
    (order,) = worker.beat(killed(999, KilledBy.WORKER)).orders
    assert order.action is OrderAction.FORGET


@pytest.mark.threat("F03")
def test_a_spec_is_sent_until_the_worker_has_taken_the_process(
    worker: Worker, a_placed_job: Callable[..., int]
) -> None:
    a_placed_job()
    (process,) = worker.orders()
    assert worker.orders()[process].spec is not None
    (order,) = worker.beat(Report(process, 1, ProcessState.STARTING)).orders
    assert (order.action, order.spec) == (OrderAction.RUN, None)


@pytest.mark.threat("F23")
def test_repeated_and_late_beats_change_nothing(
    head: Head, worker: Worker, a_placed_job: Callable[..., int], anna: Person
) -> None:
    def way(times: int) -> tuple[dict[str, Any], bytes]:
        number = a_placed_job("2:[]")
        first, second = worker.orders()
        beats: list[tuple[list[Report], list[Any]]] = [
            ([Report(first, 1, ProcessState.STARTING)], []),
            ([running(first), running(second)], [a_chunk(first, b"a\n")]),
            ([running(first)], [a_chunk(first, b"b\n", offset=2), a_chunk(second, b"x")]),
            ([ended(first, 0, log_size=4)], []),
            ([ended(second, 3, log_size=1)], []),
        ]
        for reports, chunks in beats:
            for _ in range(times):
                worker.beat(*reports, chunks=chunks)
        for reports, chunks in reversed(beats) if times > 1 else ():
            worker.beat(*reports, chunks=chunks)
        record = anna.job(number)
        story = [(e["event"], e["from"], e["to"], e["process"], e["reason"]) for e in record["events"]]
        return {
            "outcome": record["outcome"],
            "reason": record["reason"],
            "story": story[1:3] + story[4:],
        }, stored(head, number)

    assert way(1) == way(2)


def test_a_pending_beat_is_answered_when_a_job_is_placed(
    head: Head, worker: Worker, a_waiting_job: Callable[..., int], in_thread: Callable[..., Any]
) -> None:
    worker.beat()
    number = a_waiting_job()
    held = in_thread(lambda: worker.beat(wait_s=30))
    head.scheduling()
    assert [order.spec.job for order in held().orders] == [number]


def test_a_pending_beat_is_answered_when_the_head_shuts_down(
    head: Head, worker: Worker, in_thread: Callable[..., Any]
) -> None:
    worker.beat()
    held = in_thread(lambda: worker.beat(wait_s=30))
    head.wakeups.close()
    assert held().orders == ()


def test_a_beat_that_ends_a_process_is_answered_at_once(
    worker: Worker, a_placed_job: Callable[..., int]
) -> None:
    a_placed_job()
    (process,) = worker.orders()
    assert [order.action for order in worker.beat(ended(process, 0), wait_s=30).orders] == [
        OrderAction.FORGET
    ]


def test_a_stream_is_named_by_attempt_group_and_index(head: Head) -> None:
    stream = process_log(head.data, 7, 2, 0, 3)
    stream.append(b"x", 1.0)
    assert [path.name for path in sorted(head.data.logs(7).iterdir())] == ["2-0.3.log", "2-0.3.times"]
