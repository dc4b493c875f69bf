"""Which runtime a job needs, and where it runs therefore."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pit_protocol.job_options import JobOptions
from pit_server.services.jobs.processes import runtimes
from pit_server.settings import Settings
from tests.support.clusters.head import Person, Worker, a_submission, ended

Node = Callable[..., Worker]
Job = Callable[..., int]


@pytest.fixture
def mixed(a_node: Node) -> dict[str, Worker]:
    return {kind: a_node(name, runtime=kind) for name, kind in (("n0", "process"), ("n1", "docker"))}


@pytest.mark.parametrize(("runtime", "node"), [("process", "n0"), ("docker", "n1")])
def test_a_job_runs_only_on_nodes_of_its_runtime(
    anna: Person, mixed: dict[str, Worker], a_placed_job: Job, runtime: str, node: str
) -> None:
    for _ in range(2):
        assert anna.job(a_placed_job(runtime=runtime))["processes"][0]["node"] == node


def test_a_job_that_continues_another_inherits_its_runtime(
    anna: Person, mixed: dict[str, Worker], a_placed_job: Job
) -> None:
    number = a_placed_job(runtime="docker")
    (process,) = mixed["docker"].orders()
    mixed["docker"].beat(ended(process))
    assert anna.job(anna.submit(continues=number))["options"]["runtime"] == "docker"


def test_impossible_and_unknown_runtimes_are_refused(anna: Person, a_node: Node) -> None:
    a_node(runtime="docker")
    for options, code in (
        ({"runtime": "process"}, "no_such_runtime"),
        ({"runtime": "vm"}, "bad_runtime"),
        ({"runtime": "process", "image": "debian:12"}, "bad_runtime"),
    ):
        answer = anna.post("/jobs", json=a_submission(**options))
        assert (answer.status_code, answer.json["code"]) == (422, code)


def test_a_node_of_another_runtime_is_not_called_reserved(anna: Person, a_node: Node) -> None:
    a_node("n0", gpus={"A100": 1})
    a_node("n1", runtime="docker")
    answer = anna.post("/jobs", json=a_submission(request="[a100]", runtime="docker"))
    assert answer.json["message"].endswith("with the docker runtime, which the job needs")


def test_image_option_continued_job_and_default_decide_in_this_order() -> None:
    old = {"runtime": "docker"}
    assert runtimes.resolve(JobOptions(image="x"), old, "process") is None
    assert runtimes.resolve(JobOptions(runtime="any"), old, "process") == "any"
    assert runtimes.resolve(JobOptions(), old, "process") == "docker"
    assert runtimes.resolve(JobOptions(), {}, "process") == "process"
    assert runtimes.resolve(JobOptions(), None, "any") is None
    assert runtimes.needed({"image": "x"}) == "docker"


class TestWithADefault:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return replace(settings, default_runtime="process")

    def test_it_is_stored_with_the_job(self, anna: Person, mixed: dict[str, Worker]) -> None:
        assert anna.job(anna.submit())["options"]["runtime"] == "process"
