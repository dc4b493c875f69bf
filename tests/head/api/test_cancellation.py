"""Long loops stop when nobody waits for their result, and take bounded time and memory."""

import os
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pit_server import cancellation
from pit_server.cancellation import Cancelled, Watch, limited
from pit_server.context import Head
from pit_server.store import log_stream
from pit_server.store.files import listing
from pit_server.store.git.command import Git, GitFailed
from pit_server.store.log_stream import process_log
from tests.support.clusters.head import ONE_DATABASE, Person, Worker
from tests.support.domain_files import home, names, route

MIB = 1024 * 1024


@pytest.fixture
def ask_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancellation, "ASK_EVERY_S", 0.0)


def unwanted() -> bool:
    return False


def test_work_without_a_limit_is_never_stopped() -> None:
    cancellation.check()


def test_work_that_takes_too_long_is_stopped_unless_it_makes_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with limited(10, lambda: True, hint="ask for less"):
        now[0] = 109.0
        cancellation.check()
        cancellation.renew()
        now[0] = 118.0
        cancellation.check()
        now[0] = 119.0
        with pytest.raises(Cancelled, match="longer than 10 s") as stopped:
            cancellation.check()
    assert (stopped.value.problem.hint, stopped.value.problem.status) == ("ask for less", 503)


def test_git_is_killed_when_nobody_waits_for_it(ask_always: None, tmp_path: Path) -> None:
    git = Git(tmp_path, timeout_s=100)
    with limited(100, unwanted), pytest.raises(Cancelled, match="nobody waits"):
        git.run("-c", "alias.wait=!sleep 100", "wait")
    with pytest.raises(GitFailed, match=r"took longer than 0\.1 s"):
        Git(tmp_path, timeout_s=0.1).run("-c", "alias.wait=!sleep 100", "wait")


def test_a_watch_that_ended_stops_nothing(ask_always: None) -> None:
    process = subprocess.Popen(["sleep", "100"])
    with limited(100, lambda: True):
        watch = Watch(process.kill, 100)
        watch.end()
    assert process.poll() is None
    process.kill()
    process.wait()


@ONE_DATABASE
@pytest.mark.parametrize("query", ["sha256", "list", "glob=**/x", "tar=yes"])
def test_files_are_not_read_for_a_client_that_is_gone(
    ask_always: None, head: Head, anna: Person, query: str
) -> None:
    anna.get(route("home"))
    with (home(head) / "sparse").open("wb") as file:
        file.truncate(1 << 43)
    with limited(100, unwanted):
        answer = anna.get(route("home", b"sparse" if query == "sha256" else b"") + f"?{query}")
    assert (answer.status_code, answer.json["code"]) == (400, "not_wanted")


@ONE_DATABASE
@pytest.mark.parametrize("pattern", ["**/**/**/**/x", "**/*/**/*/**/*/**/x"])
def test_a_pattern_visits_each_directory_once(
    head: Head, anna: Person, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna.get(route("home"))
    deepest = home(head) / "/".join(["d"] * 12)
    deepest.mkdir(parents=True)
    (deepest / "x").touch()
    visited: list[int] = []

    def count(directory: int) -> list[str]:
        visited.append(directory)
        return sorted(os.listdir(directory))

    monkeypatch.setattr(listing, "names_in", count)
    assert names(anna, "home", glob=pattern) == ["/".join(["d"] * 12) + "/x"]
    assert len(visited) == 13


@pytest.fixture
def stream(head: Head, a_node: Callable[..., Worker], a_placed_job: Callable[..., int]) -> Callable[..., int]:
    """Write the output of a job's process; returns the job's number."""
    a_node()

    def write(data: bytes) -> int:
        number = a_placed_job()
        process_log(head.data, number, 1, 0, 0).append(data, 1.0)
        return number

    return write


def peak(call: Callable[[], Any]) -> float:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / MIB
    finally:
        tracemalloc.stop()


@ONE_DATABASE
@pytest.mark.parametrize(
    ("line", "query"),
    [(b"\0" * 16_000 + b"\n", "tail=10000"), (b"\n", "")],
    ids=["NULs", "empty lines"],
)
@pytest.mark.threat("F32", "S53")
def test_a_batch_of_a_log_takes_little_memory_whatever_is_in_it(
    stream: Callable[..., int], anna: Person, line: bytes, query: str
) -> None:
    number = stream(line * (20 * MIB // len(line)))
    assert peak(lambda: anna.ok(anna.get(f"/jobs/{number}/log?{query}"))) < 24


@ONE_DATABASE
def test_the_tail_of_an_endless_line_is_its_end(
    stream: Callable[..., int], anna: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = stream(b"x" * 30 * MIB + "ä".encode() * 16 * 1024 + b"end")
    monkeypatch.setattr(log_stream, "MOST_SCANNED", MIB)
    batch = anna.log(number, tail=1)
    (line,) = [line for line in batch["unfinished"] or batch["lines"] if line["source"] == "worker 0"]
    assert line["text"].endswith("äend") and set(line["text"]) == set("äend")
    assert batch["more"] is False


@ONE_DATABASE
def test_a_line_rewritten_very_often_comes_in_bounded_steps(
    stream: Callable[..., int], anna: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = stream(b"first\n" + b"".join(b"\rstep %06d" % i for i in range(200_000)) + b"\nlast\n")
    monkeypatch.setattr(log_stream, "MOST_SCANNED", MIB)
    batch, texts, steps = anna.log(number), list[str](), 1
    while batch["lines"] or batch["more"]:
        texts += [line["text"] for line in batch["lines"] if line["source"] == "worker 0"]
        batch, steps = anna.log(number, cursor=batch["cursor"]), steps + 1
    assert texts == ["first", "step 199999", "last"]
    assert steps > 2


@ONE_DATABASE
@pytest.mark.threat("F32")
def test_a_log_is_not_read_for_a_client_that_is_gone(
    ask_always: None, stream: Callable[..., int], anna: Person
) -> None:
    number = stream(b"x\n" * MIB)
    with limited(100, unwanted):
        assert anna.get(f"/jobs/{number}/log").json["code"] == "not_wanted"
