"""GPUs in trouble, and how much of them is used."""

from collections.abc import Callable

import pytest

from pit_server.context import Head
from tests.support.clusters.head import Person, Worker, ended, running, using


def test_a_faulty_gpu_is_not_allocated_until_it_recovers(
    head: Head, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    worker = a_node(gpus={"A100": 2})
    worker.complain(A100_0="is used by pid 4711 (python3), 3,021 MiB")
    troubles = [resource["trouble"] for resource in anna.get("/nodes/n0").json["resources"]]
    assert troubles == ["is used by pid 4711 (python3), 3,021 MiB", ""]
    waiting = a_placed_job("[2:a100]")
    assert anna.job(waiting)["state"] == "waiting"
    assert anna.job(waiting)["reason"] == "needs 2 a100, 1 free, 1 out of use"
    assert anna.job(a_placed_job("[2:gpu]@n0"))["reason"] == "needs 2 gpu, 1 free, 1 out of use"
    worker.complain()
    head.scheduling()
    assert anna.job(waiting)["state"] == "starting"


def test_a_beat_without_troubles_changes_none(anna: Person, a_node: Callable[..., Worker]) -> None:
    worker = a_node(gpus={"A100": 1})
    worker.complain(A100_0="is gone")
    worker.beat()
    assert anna.get("/nodes/n0").json["resources"][0]["trouble"] == "is gone"


def test_a_trouble_outlives_a_new_session_of_the_worker(anna: Person, a_node: Callable[..., Worker]) -> None:
    a_node(gpus={"A100": 1}).complain(A100_0="is gone")
    a_node(gpus={"A100": 1})
    assert anna.get("/nodes/n0").json["resources"][0]["trouble"] == "is gone"


def test_a_trouble_of_an_unknown_unit_is_ignored(anna: Person, a_node: Callable[..., Worker]) -> None:
    worker = a_node(gpus={"A100": 1})
    worker.complain(H100_9="is gone")
    assert anna.get("/nodes/n0").json["resources"][0]["trouble"] == ""


def test_usage_is_current_while_running_and_the_mean_afterwards(
    anna: Person,
    a_node: Callable[..., Worker],
    a_placed_job: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1_800_000_000.0]
    monkeypatch.setattr("pit_server.api.routes.worker.sessions.time.time", lambda: now[0])
    worker = a_node(gpus={"A100": 1})
    number = a_placed_job("[a100]")
    (process,) = worker.orders()
    worker.beat(running(process))
    assert anna.job(number)["gpu_percent"] is None
    for gpu, memory in ((20.0, 10.0), (80.0, 30.0)):
        worker.beat(using(process, gpu, memory))
        now[0] += 100
    (shown,) = anna.get("/status").json["running"]
    assert (shown["gpu_percent"], shown["memory_percent"]) == (None, None)  # nothing new for too long
    now[0] -= 50
    (shown,) = anna.get("/status").json["running"]
    assert (shown["gpu_percent"], shown["memory_percent"]) == (80.0, 30.0)
    worker.beat(ended(process))
    (shown,) = anna.get("/status").json["done"]
    assert (shown["gpu_percent"], shown["memory_percent"]) == (50.0, 20.0)
    assert anna.get("/jobs").json["jobs"][0]["gpu_percent"] == 50.0
    (history,) = anna.get(f"/jobs/{number}/usage").json["processes"]
    assert (history["process"], [sample[1:] for sample in history["samples"]]) == (
        "0.0",
        [[20.0, 10.0, None, None], [80.0, 30.0, None, None]],
    )


def test_usage_of_another_users_job_is_hidden(
    anna: Person,
    a_user: Callable[..., Person],
    a_node: Callable[..., Worker],
    a_placed_job: Callable[..., int],
) -> None:
    a_node()
    assert a_user("berta").get(f"/jobs/{a_placed_job()}/usage").status_code == 404


def test_running_out_of_memory_is_shown_besides_the_exit_code(
    anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    worker = a_node()
    number = a_placed_job()
    (process,) = worker.orders()
    worker.beat(ended(process, 137, signal=9, oom=True))
    record = anna.job(number)
    assert record["reason"] == "worker 0 was killed by signal 9 (SIGKILL); it ran out of memory"
    assert record["processes"][0]["oom"] is True
