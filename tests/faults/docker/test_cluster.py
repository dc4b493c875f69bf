"""The whole system, with a node that runs containers and whose worker is killed."""

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from tests.docker.test_cluster import a_lab, first_admin
from tests.support.clusters.lab import Lab, Person
from tests.support.clusters.local import eventually


@pytest.fixture
def lab(tmp_path: Path, image: str, engine: docker.DockerClient) -> Iterator[Lab]:
    with a_lab(tmp_path, image, engine) as lab:
        yield lab


@pytest.fixture
def root(lab: Lab) -> Person:
    return first_admin(lab)


def test_a_container_is_adopted_after_its_worker_was_killed(lab: Lab, root: Person) -> None:
    config = lab.join(root.ok("add", "node:n0"), "n0")
    worker = lab.start_worker(config, PIT_WORKER_RUNTIME="docker")
    eventually(lambda: root.json("show", "node:n0")["state"] == "online")
    number = str(root.run("for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.3; done; exit 3"))
    eventually(lambda: "line 2" in root.ok("log", number, "--no-follow"))
    lab.kill(worker)
    lab.start_worker(config, PIT_WORKER_RUNTIME="docker")
    assert root.pit("wait", number).code == 3
    lines = root.ok("log", number, "--process", "0.0").splitlines()
    assert [line.split("] ")[-1] for line in lines] == [f"line {i}" for i in range(1, 9)]
    assert [p["exit_code"] for p in root.json("show", number)["processes"]] == [3]


@pytest.mark.threat("F12")
def test_a_job_whose_node_is_dead_and_cut_off_ends_there_and_is_lost(
    tmp_path: Path, image: str, engine: docker.DockerClient
) -> None:
    times = {"PIT_HEAD_HOLD_S": "0.5", "PIT_HEAD_LOST_AFTER_S": "3"}
    lab = Lab(tmp_path, PIT_HEAD_IMAGE=image, PIT_HEAD_PULL="never", **times)
    try:
        lab.start_head()
        root = first_admin(lab)
        config = lab.join(root.ok("add", "node:n0"), "n0")
        worker = lab.start_worker(config, PIT_WORKER_RUNTIME="docker")
        eventually(lambda: root.json("show", "node:n0")["state"] == "online")
        number = str(root.run("echo under way; while :; do sleep 0.1; done"))
        eventually(lambda: "under way" in root.ok("log", number, "--no-follow"))
        lab.kill(worker)
        own = {"label": f"pit.spool={lab.place}/spool-etc-n0", "status": "exited"}
        eventually(lambda: engine.api.containers(all=True, filters=own))
        lab.start_worker(config, PIT_WORKER_RUNTIME="docker")
        assert root.pit("wait", number).code == 3
        job = root.json("show", number)
        assert (job["outcome"], [p["killed_by"] for p in job["processes"]]) == ("lost", ["lease"])
        assert "had no contact with the head for 2 s" in job["reason"]
    finally:
        lab.close()
