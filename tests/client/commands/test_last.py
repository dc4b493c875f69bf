"""`last` is the user's latest job, and so is no number at all for commands that only read."""

import json
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from pit.cli import pit as group
from pit_protocol.answers.jobs import VariablesDiff
from pit_protocol.wire import to_json
from tests.client.conftest import Pit
from tests.support.stubs.head import StubHead, an_ended


@pytest.fixture
def mine(connected: StubHead) -> StubHead:
    """A head where 191 is my latest job, and 192 somebody else's."""
    connected.add_job(190, **an_ended())
    connected.add_job(191, title="Mine", **an_ended())
    connected.add_job(192, user="jill", **an_ended())
    connected.logs[191] = [{"at": 0.0, "source": "worker 0", "text": "hello"}]
    connected.bodies["/diff"] = b"diff --git a/x b/x\n"
    connected.bodies["/variables"] = json.dumps(to_json(VariablesDiff([], [], [], []))).encode()
    return connected


@pytest.mark.parametrize(
    ("command", "route"),
    [
        ("log", "/jobs/191/log"),
        ("log last", "/jobs/191/log"),
        ("show", "/jobs/191"),
        ("show last", "/jobs/191"),
        ("show job:last", "/jobs/191"),
        ("wait", "/jobs/191"),
        ("wait last", "/jobs/191"),
        ("diff", "/jobs/191/diff"),
        ("diff 190 last", "/jobs/190/diff"),
        ("get last title", "/jobs/191"),
        ("set last title=x", "/jobs/191"),
        ("add-group last lab", "/jobs/191/groups/lab"),
        ("remove-group job:last lab", "/jobs/191/groups/lab"),
        ("rm last", "/jobs/191"),
        ("download last", "/jobs/191/archive"),
    ],
)
def test_it_is_my_latest_job(mine: StubHead, pit_command: Pit, command: str, route: str) -> None:
    result = pit_command(*command.split())
    assert result.exit_code == 0, result.output
    assert mine.called(route)
    assert [call.query for call in mine.called("/jobs")] == [{"user": "me", "limit": "1"}]


@pytest.mark.parametrize("command", ["ls last", "ls last:keep", "cat last x", "pull job:last x"])
def test_it_names_a_data_directory(mine: StubHead, pit_command: Pit, command: str) -> None:
    pit_command(*command.split())
    assert mine.calls[-1].path.startswith("/files/job:191")


def test_which_job_it_is_is_said_on_stderr(mine: StubHead, pit_command: Pit) -> None:
    result = pit_command("wait")
    assert (result.stdout, result.stderr) == ("job 191 succeeded\n", "pit: job 191: Mine\n")


@pytest.mark.parametrize("command", ["stop", "rerun", "checkout", "download"])
def test_other_commands_need_a_number(connected: StubHead, pit_command: Pit, command: str) -> None:
    assert (pit_command(command).exit_code, connected.calls) == (2, [])


def test_what_changes_something_needs_the_word(mine: StubHead, pit_command: Pit) -> None:
    mine.jobs[191]["state"] = "running"
    assert pit_command("stop").exit_code == 2
    assert mine.calls == []
    assert pit_command("stop", "last").stdout == "job 191 is stopping\n"


@pytest.mark.parametrize("command", ["log", "stop last", "ls last"])
def test_who_has_no_job_is_told_how_to_make_one(connected: StubHead, pit_command: Pit, command: str) -> None:
    connected.add_job(192, user="jill")
    result = pit_command(*command.split())
    assert result.exit_code == 1
    assert result.stderr == (
        f"pit: you have no job yet on the head at {connected.url}\n"
        "`pit run` makes one, `pit status` shows the jobs of others\n"
    )


def test_a_job_continues_from_the_latest(mine: StubHead, checkout: Path, pit_command: Pit) -> None:
    result = pit_command("run", "x", "-c", "last")
    assert result.exit_code == 0, result.output
    assert mine.jobs[193]["options"]["continues"] == 191


@pytest.mark.parametrize("command", ["run x", "rerun last"])
def test_a_job_waits_for_others(mine: StubHead, checkout: Path, pit_command: Pit, command: str) -> None:
    given = ["--after", "last", "--after", "7,job:8-9:any", "--after", "191"]
    result = pit_command(*command.split(), *given)
    assert result.exit_code == 0, result.output
    after = mine.jobs[193]["options"]["after"]
    assert [(each["job"], each["when"]) for each in after] == [
        (191, "ok"),
        (7, "any"),
        (8, "any"),
        (9, "any"),
    ]
    assert "191 7,8,9:any" in pit_command("show", "193").stdout


@pytest.mark.parametrize("command", ["run x", "rerun last"])
def test_quiet_prints_only_the_number(mine: StubHead, checkout: Path, pit_command: Pit, command: str) -> None:
    assert pit_command(*command.split(), "-q").stdout == "193\n"


@pytest.mark.parametrize("words", [["log"], ["stop"], ["show"], ["diff", "190"], ["wait"], ["rerun"]])
def test_the_shell_completes_it(words: list[str]) -> None:
    completion = ShellComplete(group, {}, "pit", "_PIT_COMPLETE")
    assert "last" in [item.value for item in completion.get_completions(words, "la")]
