"""The client for Python programs, against a stub head."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import pit
from pit import Client, Job, Problem
from tests.support.stubs.head import StubHead, an_ended, first

ROOT = Path(__file__).parents[3]


def test_a_project_is_submitted_with_options_as_values(connected: StubHead, checkout: Path) -> None:
    with Client(checkout) as client:
        job = client.run(
            "Search",
            "[2:cpu]",
            command="true",
            env={"DEPTH": 3},
            sweep={"lr": [0.1, 0.01], "seed": range(3)},
            time=90,
            after=[190],
            notify=["done", "failed"],
            secrets={"KEY": "hunter2"},
        )
    sent = connected.submissions[-1]
    options = sent["options"]
    assert (sent["title"], sent["request"], sent["variables"]) == ("Search", "[2:cpu]", {"KEY": "hunter2"})
    assert (options["env"], options["sweep"]) == ({"DEPTH": "3"}, ["lr=0.1,0.01", "seed=0,1,2"])
    assert (options["time"], options["after"][0]["job"], options["notify"]) == ("90s", 190, "done,failed")
    assert isinstance(job, Job) and job.number in connected.jobs


def test_waiting_gets_the_end_and_a_timeout_leaves_the_job_alone(connected: StubHead) -> None:
    connected.add_job(1)
    job = Client().job(1)
    with pytest.raises(TimeoutError, match="job 1 has not ended after 0 s"):
        job.wait(timeout=0)
    connected.misbehave("GET", "/jobs/1", first(lambda: connected.jobs[1].update(an_ended("failed"))))
    assert (job.wait().outcome, job.succeeded) == ("failed", False)


def test_problems_have_a_code_and_a_way_out(connected: StubHead, checkout: Path) -> None:
    client = Client(checkout)
    for call, code in (
        (lambda: client.job(7), "no_such_job"),
        (lambda: client.job("seven"), "no_such_job"),
        (lambda: client.run("x", command="true", colour="red"), "unknown_option"),
        (lambda: client.run("x", "2:[", command="true"), "bad_request"),
        (lambda: client.run("", command="true"), "bad_title"),
        (lambda: client.run("x", command="true", time="soon"), "bad_time"),
    ):
        with pytest.raises(Problem) as caught:
            call()
        assert caught.value.code == code
    assert connected.submissions == []


def test_without_a_token_it_does_not_ask(connected: StubHead, monkeypatch: pytest.MonkeyPatch) -> None:
    (Path.home() / ".pituser.txt").unlink()
    with pytest.raises(Problem) as caught:
        Client()
    assert caught.value.code == "no_token"


def test_the_package_is_light_until_the_client_is_used() -> None:
    program = "import sys, pit; print([n for n in ('click', 'requests', 'pit.client') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError):
        pit.Clients  # noqa: B018


def test_the_reference_names_everything_public() -> None:
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    for name in pit.__all__:
        assert f"`{name}" in page
    for kind in (Client, Job):
        public = [name for name, _ in inspect.getmembers(kind) if not name.startswith("_")]
        assert [name for name in public if f"`{name}" not in page] == []
        assert [name for name in public if not inspect.getdoc(getattr(kind, name))] == []
