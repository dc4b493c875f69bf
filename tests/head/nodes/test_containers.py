"""Specs for nodes that run containers, and the ownership of files."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from pit_protocol.messages.beat import Account, Pull, Runtime
from pit_protocol.problem import Problem
from pit_server.background.scheduling import Scheduling
from pit_server.context import Head
from pit_server.db.models import Node
from pit_server.services.files import unix_ids
from pit_server.services.jobs import images
from pit_server.services.nodes import orders
from pit_server.services.nodes.order_specs import OrderSpecs
from pit_server.settings import Settings
from tests.support.clusters.head import NOW, ONE_DATABASE, Person, Worker, a_submission, prepare, running

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def test_a_container_spec_has_image_network_and_limits(
    anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int], head: Head
) -> None:
    worker = a_node(runtime="docker", gpus={"A100": 2})
    a_placed_job("[2:a100,2:cpu,4:mem]", image="lab/torch:2.3")
    (order,) = worker.orders().values()
    spec = order.spec
    assert spec is not None and spec.container is not None
    assert (spec.container.image, spec.container.pull, spec.container.network) == (
        "lab/torch:2.3",
        Pull.MISSING,
        "private",
    )
    assert (spec.cpus, spec.memory_mib, spec.units) == (2.0, 4096, ("A100-0", "A100-1"))
    assert "CUDA_VISIBLE_DEVICES" not in spec.env  # the container sees no other GPUs
    assert (spec.container.shm_mib, spec.container.pids) == (1024, 4096)


@pytest.mark.threat("S39")
def test_the_process_runtime_gets_only_the_processes_own_gpus(
    a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    worker = a_node(gpus={"A100": 2})
    a_placed_job("[a100],[]")
    with_gpu, without = (order.spec for order in worker.orders().values())
    assert with_gpu is not None and without is not None
    assert with_gpu.container is without.container is None
    assert with_gpu.env["CUDA_VISIBLE_DEVICES"] == "A100-0"
    assert without.env["CUDA_VISIBLE_DEVICES"] == ""
    assert with_gpu.env["LOCAL_RANK"] == "0"


def test_without_an_image_the_clusters_default_is_used(
    anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    worker = a_node(runtime="docker")
    a_placed_job()
    (order,) = worker.orders().values()
    assert order.spec is not None and order.spec.container is not None
    assert order.spec.container.image == "debian:stable"


def test_hosts_are_names_on_one_node(a_node: Callable[..., Worker], a_placed_job: Callable[..., int]) -> None:
    first = a_node("n0", runtime="docker")
    a_placed_job("2:[]@n0")
    spec = next(iter(first.orders().values())).spec
    assert spec is not None and spec.container is not None
    assert spec.env["HOST_GROUP0_PROCESS1"] == "group0-process1"
    assert (spec.env["MASTER_ADDR"], spec.container.name) == ("group0-process0", "group0-process0")


@pytest.mark.threat("S40")
def test_containers_on_several_nodes_without_an_overlay_are_refused(
    anna: Person, a_node: Callable[..., Worker]
) -> None:
    # With the network of their hosts they would reach the nodes' own services.
    a_node("n0", runtime="docker"), a_node("n1", runtime="docker")
    answer = anna.post("/jobs", json=a_submission(request="[]@n0,[]@n1"))
    assert (answer.status_code, answer.json["code"]) == (422, "cannot_be_fulfilled")
    assert "containers on several nodes need an overlay network (`overlay` in worker.toml)" in answer.text


def test_a_job_without_a_runtime_is_placed_on_nodes_of_one_kind(
    anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    for name, runtime in (("n0", "process"), ("n1", "docker"), ("n2", "process")):
        a_node(name, runtime=runtime, overlay="lab", cores=1)
    processes = anna.job(a_placed_job("2:[cpu]"))["processes"]
    assert sorted(process["node"] for process in processes) == ["n0", "n2"]
    answer = anna.post("/jobs", json=a_submission(request="3:[cpu]"))
    assert "a job runs on nodes of one runtime" in answer.json["message"]


def test_hosts_on_a_common_overlay_are_names_of_the_job(
    a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    a_node("n0", runtime="docker", overlay="lab")
    second = a_node("n1", runtime="docker", overlay="lab")
    number = a_placed_job("[]@n0,[]@n1")
    (spec,) = [order.spec for order in second.orders().values()]
    assert spec is not None and spec.container is not None
    assert (spec.container.network, spec.container.name) == ("lab", f"job{number}-1-group1-process0")
    assert spec.env["HOST_GROUP0_PROCESS0"] == f"job{number}-1-group0-process0"


def test_a_job_with_an_image_runs_only_on_container_nodes(
    anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    a_node("n0")
    answer = anna.post("/jobs", json=a_submission(image="debian:12"))
    assert (answer.status_code, answer.json["code"]) == (422, "no_containers")
    a_node("n1", runtime="docker")
    assert anna.job(a_placed_job(image="debian:12"))["processes"][0]["node"] == "n1"


def test_the_image_that_ran_is_recorded_by_its_digest(
    anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    worker = a_node(runtime="docker")
    number = a_placed_job(image="debian:12")
    (process,) = worker.orders()
    worker.beat(running(process, image="debian@sha256:" + "a" * 64))
    record = anna.job(number)
    assert record["options"]["image"] == "debian:12"
    assert record["processes"][0]["image"] == "debian@sha256:" + "a" * 64


@ONE_DATABASE
@pytest.mark.parametrize(
    "name",
    [
        "debian",
        "debian:12",
        "lab/torch:2.3",
        "localhost:5000/a/b_c/d-e:x",
        "r.example.org/x@sha256:" + "a" * 64,
    ],
)
def test_valid_image_names_are_accepted(name: str, settings: Settings) -> None:
    assert images.check(name, settings) == name


@ONE_DATABASE
@pytest.mark.parametrize(
    "name",
    [
        "",
        "-v",
        "Debian",
        "a b",
        "a//b",
        "../x",
        "x:",
        "x@sha256:1",
        "a" * 300,
        "x\n",
        "$(id)",
        "/x",
        "--privileged",
    ],
)
def test_invalid_image_names_are_refused(name: str, settings: Settings) -> None:
    with pytest.raises(Problem, match="is not a valid image name"):
        images.check(name, settings)


def test_only_allowed_registries_are_accepted(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, registries="registry.example.org/lab, docker.io/library, nvcr.io")
    for name in ("registry.example.org/lab/x:1", "debian:12", "docker.io/library/debian", "nvcr.io/nvidia/x"):
        assert images.check(name, settings) == name
    for name in (
        "registry.example.org/laboratory/x",
        "evil/debian",
        "registry.example.org/x",
        "nvcr.io.evil.org/x",
    ):
        with pytest.raises(Problem, match="does not allow the image"):
            images.check(name, settings)


@ROOT
def test_files_are_owned_by_their_user(
    head: Head, root: Person, anna: Person, a_node: Callable[..., Worker], a_group: Callable[..., None]
) -> None:
    worker = a_node(runtime="docker")
    a_group("students", "anna")
    uid = anna.get("/me").json["uid"]
    number = anna.submit()
    prepare(head, number)
    head.scheduling()
    (order,) = worker.orders().values()
    assert order.spec is not None
    gid = root.get("/groups/students").json["gid"]
    assert order.spec.account == Account(uid, uid, (gid,))
    tree = head.data.attempt(number, 1)
    for place in (tree, tree / "src", tree / "keep", head.data.home("anna")):
        assert (place.stat().st_uid, place.stat().st_mode & 0o077 if place == tree else 0) == (uid, 0)
    group = head.data.group("students").stat()
    assert (group.st_gid, group.st_mode & 0o7777) == (gid, 0o2770)


def test_an_admin_sets_a_users_uid(root: Person, anna: Person) -> None:
    assert root.ok(root.patch("/users/anna", uid="4711"))["uid"] == 4711
    assert root.patch("/users/root", uid="4711").json["message"] == "4711 is the number of user anna"
    # A user's gid equals the uid: a group's number would open its directory to the user.
    assert root.put("/groups/vision", gid="4711").json["message"] == "4711 is the number of user anna"
    root.ok(root.put("/groups/vision", gid="5000"))
    assert root.patch("/users/root", uid="5000").json["message"] == "5000 is the number of group vision"
    assert root.patch("/groups/vision", gid="4711").status_code == 409
    assert root.ok(root.patch("/users/anna", uid="1234567890"))["uid"] == 1_234_567_890
    for odd in ("0", "999", "200001", "x", "-5"):
        assert root.patch("/users/anna", uid=odd).status_code == 422
    assert anna.patch("/users/me", uid="5000").status_code == 403
    assert root.ok(root.patch("/users/anna", uid=""))["uid"] > unix_ids.FIRST_UID


@ROOT
def test_a_user_keeps_their_files_when_the_uid_changes(
    head: Head, root: Person, anna: Person, a_node: Callable[..., Worker], a_group: Callable[..., None]
) -> None:
    a_node(runtime="docker")
    a_group("students", "anna")
    prepare(head, anna.submit())
    mine, ours = head.data.home("anna") / "mine", head.data.group("students") / "ours"
    for file in (mine, ours):
        file.write_text("x")
    root.ok(root.patch("/users/anna", uid="4711"))
    root.ok(root.patch("/groups/students", gid="4712"))
    prepare(head, anna.submit())
    assert (mine.stat().st_uid, ours.stat().st_gid) == (4711, 4712)
    assert head.data.group("students").stat().st_mode & 0o7777 == 0o2770


@ROOT
def test_chown_does_not_follow_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("x")
    (tmp_path / "tree" / "deep").mkdir(parents=True)
    (tmp_path / "tree" / "deep" / "link").symlink_to(outside)
    unix_ids.give(tmp_path / "tree", Account(4711, 4711))
    assert outside.stat().st_uid == 0
    assert (tmp_path / "tree" / "deep" / "link").lstat().st_uid == 4711


def test_an_unknown_runtime_is_refused(a_node: Callable[..., Worker]) -> None:
    body = {"boot_id": "b", "inventory": {"cores": 1, "memory_mib": 1}, "address": "a", "runtime": "vm"}
    assert a_node(joins=False).post("/node/session", json=body).status_code == 422
    assert [member.value for member in Runtime] == ["process", "docker"]


@pytest.mark.parametrize(
    ("lost_after_s", "max_disk_gib", "lease_s", "disk_mib"), [(0.0, 0, None, None), (1200.0, 7, 1080.0, 7168)]
)
def test_the_head_sets_leases_and_disk_limits(
    head: Head,
    a_node: Callable[..., Worker],
    a_waiting_job: Callable[..., int],
    lost_after_s: float,
    max_disk_gib: int,
    lease_s: float | None,
    disk_mib: int | None,
) -> None:
    a_node()
    a_waiting_job()
    settings = replace(head.settings, lost_after_s=lost_after_s, max_disk_gib=max_disk_gib)
    Scheduling(head.database, settings)()
    with head.database.read() as session:
        node_id = session.execute(select(Node.id)).scalar_one()
        (order,) = orders.for_node(
            session, node_id, (), head.data, OrderSpecs(head.data, settings), now=NOW
        ).orders
    assert order.spec and (order.spec.lease_s, order.spec.disk_mib) == (lease_s, disk_mib)


@ONE_DATABASE
@pytest.mark.parametrize("name", ["0cf3db780504", "cafe", "a" * 64])
def test_an_image_id_is_refused(name: str, settings: Settings) -> None:
    """For the engine it could be any image on the node, of any origin."""
    with pytest.raises(Problem, match="could be an image id"):
        images.check(name, settings)
    assert images.check(f"{name}:latest", settings) == f"{name}:latest"
