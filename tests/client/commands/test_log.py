"""Following a log: each line once, whatever happens to the connection."""

import json
import os
import signal
import subprocess
import sys

import pytest

from pit.head.http_session import Unreachable
from pit.head.retry import HeadRetry
from pit.ui import log_view
from tests.client.conftest import Pit
from tests.support.stubs.head import StubHead, an_ended, cut, drop, first, lines

TEXTS = [f"line {i}" for i in range(7)]


def shown(stdout: str) -> list[str]:
    return [line.partition("] [worker 0] ")[2] for line in stdout.splitlines()]


@pytest.fixture
def logged(connected: StubHead) -> StubHead:
    connected.add_job(12, **an_ended())
    connected.logs[12] = lines(*TEXTS)
    return connected


def test_the_whole_log_is_printed(logged: StubHead, pit_command: Pit) -> None:
    result = pit_command("log", "12")
    assert (result.exit_code, shown(result.stdout), result.stderr) == (0, TEXTS, "")


@pytest.mark.parametrize("fault", [drop, cut])
def test_a_dropped_connection_neither_loses_nor_repeats_a_line(
    logged: StubHead, pit_command: Pit, fault: object
) -> None:
    good = first(lambda: None)
    logged.misbehave("GET", "/jobs/12/log", good, fault, fault, good, fault)  # type: ignore[arg-type]
    result = pit_command("log", "12")
    assert (result.exit_code, shown(result.stdout)) == (0, TEXTS)
    told = result.stderr.splitlines()
    assert [line.endswith("; trying again") for line in told] == [True, False, True, False]
    assert told[1::2] == ["pit: the head is back"] * 2


def test_a_head_that_never_answered_is_not_waited_for(logged: StubHead, pit_command: Pit) -> None:
    logged.misbehave("GET", "/jobs/12/log", drop)
    result = pit_command("log", "12")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"pit: no answer from the head at {logged.url} (from ")


def test_pauses_grow_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pit.head.retry.FIRST_PAUSE_S", 0.5)
    answers = iter([Unreachable("unreachable", "gone")] * 7 + ["answer"])
    pauses: list[float] = []

    def question() -> str:
        answer = next(answers)
        if isinstance(answer, Unreachable):
            raise answer
        return answer

    assert HeadRetry(lambda _: None, met=True, pause=pauses.append).call(question) == "answer"
    longest = [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert len(pauses) == 7
    assert all(most / 2 <= pause <= most for pause, most in zip(pauses, longest, strict=True))


def test_filters_go_to_the_head(logged: StubHead, pit_command: Pit) -> None:
    result = pit_command("log", "12", "--tail", "3", "--process", "0.1", "--since", "2026-04-01")
    assert shown(result.stdout) == TEXTS[-3:]
    asked = [call.query for call in logged.called("/jobs/12/log")]
    assert [query.get("tail") for query in asked] == ["3", None, None]
    assert {(query["process"], query["since"]) for query in asked} == {("0.1", "1775001600.0")}


@pytest.mark.parametrize(
    ("option", "name", "sent"),
    [
        ("--process", "1", "1"),
        ("-w", "1", "1"),
        ("--worker", "0.1", "0.1"),
        ("--process", "worker 1", "1"),
        ("--process", "[worker 1]", "1"),
        ("--process", "process 0.1", "0.1"),
    ],
)
def test_a_process_is_known_by_all_its_names(
    logged: StubHead, pit_command: Pit, option: str, name: str, sent: str
) -> None:
    assert pit_command("log", "12", option, name).exit_code == 0
    assert {call.query["process"] for call in logged.called("/jobs/12/log")} == {sent}


def test_options_of_tail_and_docker_are_understood(logged: StubHead, pit_command: Pit) -> None:
    assert shown(pit_command("log", "12", "-f", "-n", "3").stdout) == TEXTS[-3:]


def test_raw_and_json_exclude_each_other(logged: StubHead, pit_command: Pit) -> None:
    result = pit_command("log", "12", "--raw", "--json")
    assert (result.exit_code, "use one of them" in result.stderr) == (2, True)


def test_no_follow_ends_while_the_job_runs(logged: StubHead, pit_command: Pit) -> None:
    logged.jobs[12]["state"] = "running"
    result = pit_command("log", "12", "--no-follow")
    assert (result.exit_code, shown(result.stdout)) == (0, TEXTS)
    assert all("wait_s" not in call.query for call in logged.called("/jobs/12/log"))


def test_lines_are_sanitized(logged: StubHead, pit_command: Pit) -> None:
    logged.logs[12] = lines("\x1b[31mred\x1b[0m", "\x1b]0;owned\x07", "10%\r90%\r")
    assert shown(pit_command("log", "12").stdout) == ["red", "\\x1b]0;owned\\x07", "90%"]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of an unfinished line follow each other quickly."""
    monkeypatch.setattr(log_view.LineView, "pace", log_view.Pace(0.05, hold_back=True))


def grow(logged: StubHead, *texts: str, after: int) -> None:
    """The log gets these lines, and its job ends, after so many answers."""
    logged.jobs[12]["state"] = "running"

    def act() -> None:
        logged.logs[12] += lines(*texts)
        logged.jobs[12]["state"] = "ended"

    logged.misbehave("GET", "/jobs/12/log", *[first(lambda: None)] * (after - 1), first(act))


@pytest.mark.usefixtures("hurried")
def test_a_pipe_gets_the_last_version_of_an_unfinished_line_and_its_end(
    logged: StubHead, pit_command: Pit
) -> None:
    logged.unfinished[12] = [lines("10%"), lines("20%"), [], lines("30%")]
    grow(logged, "100%", after=10)
    assert shown(pit_command("log", "12").stdout)[-3:] == ["20%", "30%", "100%"]


@pytest.mark.usefixtures("hurried")
def test_a_line_that_was_shown_unfinished_is_not_repeated_when_it_ends(
    logged: StubHead, pit_command: Pit
) -> None:
    logged.unfinished[12] = [lines("loading ...")]
    grow(logged, "loading ...", "loaded", after=6)
    assert shown(pit_command("log", "12").stdout)[-3:] == ["line 6", "loading ...", "loaded"]


def test_a_line_that_is_soon_finished_is_printed_once(logged: StubHead, pit_command: Pit) -> None:
    logged.unfinished[12] = [lines("step")]
    grow(logged, "step 1", after=4)
    assert shown(pit_command("log", "12").stdout)[-2:] == ["line 6", "step 1"]


def test_after_a_version_the_next_is_left_out_for_a_second(logged: StubHead, pit_command: Pit) -> None:
    logged.unfinished[12] = [lines("10%")]
    pit_command("log", "12")
    *earlier, last = [call.query for call in logged.called("/jobs/12/log")]
    assert all("unfinished" not in query for query in earlier)
    assert last["unfinished"] == "no" and 0 < float(last["wait_s"]) <= 1


def test_no_follow_ends_with_the_unfinished_lines(logged: StubHead, pit_command: Pit) -> None:
    logged.jobs[12]["state"] = "running"
    logged.unfinished[12] = [lines("10%"), lines("20%")]
    assert shown(pit_command("log", "12", "--no-follow").stdout) == [*TEXTS, "20%"]


@pytest.mark.usefixtures("hurried")
def test_json_marks_unfinished_lines(logged: StubHead, pit_command: Pit) -> None:
    logged.unfinished[12] = [lines("10%")]
    grow(logged, "10%", after=6)
    printed = [json.loads(line) for line in pit_command("log", "12", "--json").stdout.splitlines()]
    assert [line.get("unfinished", False) for line in printed] == [False] * 7 + [True, False]


@pytest.mark.parametrize("arguments", [("--process", "one"), ("--since", "soon"), ("--tail", "x")])
def test_a_wrong_filter_is_a_usage_error(
    logged: StubHead, pit_command: Pit, arguments: tuple[str, str]
) -> None:
    result = pit_command("log", "12", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("pit: ")


def test_an_unknown_job_is_the_problem_of_the_head(connected: StubHead, pit_command: Pit) -> None:
    result = pit_command("log", "99")
    assert (result.exit_code, result.stderr) == (1, "pit: there is no job 99\n`pit status` lists jobs\n")


def test_ctrl_c_leaves_the_job_running_and_says_how_to_follow_it(
    logged: StubHead, pit_env: dict[str, str]
) -> None:
    logged.jobs[12]["state"] = "running"
    child: list[subprocess.Popen[str]] = []
    interrupt = first(lambda: os.kill(child[0].pid, signal.SIGINT))
    logged.misbehave("GET", "/jobs/12/log", *[first(lambda: None)] * 4, interrupt)
    command = [sys.executable, "-m", "pit", "log", "12"]
    with subprocess.Popen(command, env=pit_env, stdout=-1, stderr=-1, text=True) as process:
        child.append(process)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert shown(stdout) == TEXTS
    assert stderr == "pit: job 12 keeps running\n`pit log 12` follows it, `pit stop 12` stops it\n"
