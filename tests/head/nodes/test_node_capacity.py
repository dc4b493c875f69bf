"""Nodes: what is free on them, whose jobs run there, why they take none, and what is booked by default."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pit_server.settings import Settings
from tests.support.clusters.head import ONE_DATABASE, Person, Worker, a_submission, an_inventory

pytestmark = ONE_DATABASE


def test_a_node_is_drained_with_a_reason_that_waiting_jobs_name(
    root: Person, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    a_node()
    shown = root.ok(root.patch("/nodes/n0", reason="new PSU", state="draining"))
    assert (shown["state"], shown["reason"]) == ("draining", "new PSU")
    assert anna.job(a_placed_job())["reason"] == "no node takes new jobs: n0 is draining (new PSU)"
    assert root.ok(root.patch("/nodes/n0", state="online"))["reason"] == ""


def test_a_node_in_service_takes_no_reason(root: Person, a_node: Callable[..., Worker]) -> None:
    a_node()
    assert root.patch("/nodes/n0", reason="new PSU").json["code"] == "bad_reason"


def test_a_node_shows_what_is_free_and_its_jobs(
    anna: Person,
    a_user: Callable[..., Person],
    a_node: Callable[..., Worker],
    a_placed_job: Callable[..., int],
) -> None:
    a_node(cores=4, memory_mib=8192)
    number = a_placed_job("[1.5:cpu,2:mem]")
    node = anna.get("/nodes/n0").json
    assert (node["free_cores"], node["free_memory_mib"]) == (2.5, 6144)
    assert [job["number"] for job in node["jobs"]] == [number]
    hidden = a_user("berta").get("/nodes/n0").json["jobs"]
    assert hidden == [{"number": None, "user": "anna", "title": None}]


def test_jobs_are_found_by_their_node(
    anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
) -> None:
    a_node("n0")
    a_node("n1")
    first, second = a_placed_job("[]@n0"), a_placed_job("[]@n1")
    assert [job["number"] for job in anna.get("/jobs?node=n0").json["jobs"]] == [first]
    assert [job["number"] for job in anna.get("/jobs?node=n1").json["jobs"]] == [second]


def test_the_trouble_in_a_hello_is_known_at_once(anna: Person, a_node: Callable[..., Worker]) -> None:
    worker = a_node()
    worker.hello(an_inventory(), trouble="less than 2,048 MiB are free")
    assert anna.get("/nodes/n0").json["trouble"] == "less than 2,048 MiB are free"
    worker.hello(an_inventory())
    assert anna.get("/nodes/n0").json["trouble"] == "less than 2,048 MiB are free"
    worker.hello(an_inventory(), trouble="")
    assert anna.get("/nodes/n0").json["trouble"] == ""


class TestDefaults:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, default_cpu=1.5, default_mem=2.0)

    def test_cores_and_memory_are_booked_for_a_process_that_names_none(
        self, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
    ) -> None:
        worker = a_node(cores=4, memory_mib=8192)
        number = a_placed_job("[]")
        assert anna.job(number)["processes"][0]["resources"] == ["1.5 cores", "2 GiB"]
        (order,) = worker.orders().values()
        assert order.spec is not None
        assert (order.spec.cpus, order.spec.memory_mib) == (1.5, 2048)
        assert anna.job(number)["request"] == "[]"

    def test_what_a_request_names_is_booked_instead(
        self, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
    ) -> None:
        a_node(cores=4, memory_mib=8192)
        shares = anna.job(a_placed_job("[cpu,mem]"))["processes"][0]["resources"]
        assert shares == ["1 core", "1 GiB"]

    def test_a_job_waits_until_the_default_is_free(
        self, anna: Person, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]
    ) -> None:
        a_node(cores=2, memory_mib=8192)
        first, second = a_placed_job(), a_placed_job()
        assert anna.job(second)["reason"] == f"needs 1.5 cores, 0.5 free; job {first} holds the others"

    def test_a_cluster_too_small_for_the_default_refuses_the_job(
        self, anna: Person, a_node: Callable[..., Worker]
    ) -> None:
        a_node(cores=1, memory_mib=8192)
        assert anna.post("/jobs", json=a_submission()).json["code"] == "cannot_be_fulfilled"
