"""The frame around all commands: help, exit codes, sentences instead of tracebacks, a fast start."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from pit.args.unknown_words import FOREIGN_COMMANDS
from pit.cli import ALIASES, COMMANDS, SECTIONS
from pit.cli import pit as group
from pit_protocol import __version__
from pit_protocol.atomic_file import write_atomic
from pit_protocol.problem import Problem
from tests.client.conftest import Pit
from tests.support.stubs.head import Handler, Server, StubHead
from tests.support.stubs.users import Answer

OWN_OUTPUT = ("exec", "mcp", "shell")  # what they print is another program's, or for one
PROFILE = [f"profile {name}" for name in ("add", "use", "show", "remove")]


@pytest.mark.parametrize("name", [*COMMANDS, "put", "rm", *PROFILE])
def test_every_help_ends_with_an_example(pit_command: Pit, name: str) -> None:
    result = pit_command(*name.split(), "--help")
    assert result.exit_code == 0
    _, _, examples = result.stdout.rpartition("  Example:\n")
    assert examples.startswith("    ")
    assert all("pit " in example for example in examples.rstrip().splitlines())


def test_the_list_of_commands_says_what_they_say_themselves(pit_command: Pit) -> None:
    for name, sentence in COMMANDS.items():
        command = group.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        assert sentence in pit_command("--help").stdout
        parts = command.commands.values() if isinstance(command, click.Group) else [command]
        has_json = all(any(param.name == "as_json" for param in part.params) for part in parts)
        assert has_json or name in OWN_OUTPUT, name


def test_version(pit_command: Pit) -> None:
    assert pit_command("--version").stdout == f"pit {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run"], "missing argument 'TITLE'"),
        (["stop"], "missing argument 'NUMBER...'"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(pit_command: Pit, arguments: list[str], sentence: str) -> None:
    result = pit_command(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"pit: {sentence}")
    assert "--help` shows its usage" in result.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("fly", "`pit --help` lists the commands"),
        ("statuss", "did you mean `pit status`?"),
        ("ps", "`pit status` shows jobs, `pit show jobs` finds older ones"),
        ("users", "`pit show users` shows this"),
        ("190", "`pit show 190` shows job 190, `pit log 190` prints its log"),
        ("[gpu]", "a request comes after the title: `pit run TITLE '[gpu]'`"),
        ("python a.py --lr 1", "`pit run TITLE -d 'python a.py --lr 1'` runs this in the current project"),
    ],
)
def test_an_unknown_command_is_told_what_there_is(pit_command: Pit, words: str, hint: str) -> None:
    result = pit_command(*words.split())
    assert result.exit_code == 2
    assert result.stderr == f"pit: there is no command {words.split()[0]!r}\n{hint}\n"


def test_no_name_of_another_tool_hides_a_command() -> None:
    assert FOREIGN_COMMANDS.keys() & {*COMMANDS, *ALIASES} == set()


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("status --wtch", "did you mean --watch?"),
        ("run x --gpus 2", "GPUs are part of the request: pit run TITLE '[2:gpu]'"),
        ("logout --x", "its options are --json"),
    ],
)
def test_an_unknown_option_is_told_what_there_is(pit_command: Pit, words: str, hint: str) -> None:
    result = pit_command(*words.split())
    assert result.exit_code == 2
    message, way_out = result.stderr.splitlines()
    assert message.startswith(f"pit: `pit {words.split()[0]}` has no option --")
    assert way_out == hint


@pytest.mark.parametrize("words", ["run", "profile add", "rm", ""])
def test_help_of_a_command_is_what_its_option_shows(pit_command: Pit, words: str) -> None:
    assert pit_command("help", *words.split()).stdout == pit_command(*words.split(), "--help").stdout


def test_help_of_an_unknown_command_suggests_one(pit_command: Pit) -> None:
    result = pit_command("help", "statuss")
    assert (result.exit_code, result.stderr.splitlines()[1]) == (2, "did you mean `pit status`?")


def test_commands_are_listed_by_subject(pit_command: Pit) -> None:
    listed = re.findall(r"^(\w+):$", pit_command("--help").stdout, re.MULTILINE)
    assert listed == ["Options", *SECTIONS]


def test_an_unreachable_head_is_named_with_the_file_it_came_from(home: Path, pit_command: Pit) -> None:
    with Server() as gone:
        url = gone.url
    (home / ".pitconnect.txt").write_text(f"{url}\n")
    write_atomic(home / ".pituser.txt", f"{url} anna pit_a_1\n")
    result = pit_command("status")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        f"pit: no answer from the head at {url} (from {home}/.pitconnect.txt): connection refused\n"
        "check the address, and that the head is running\n"
    )


def test_a_refused_token_is_named_with_its_file(connected: StubHead, home: Path, pit_command: Pit) -> None:
    connected.token = "pit_other_1"
    result = pit_command("status")
    assert result.exit_code == 1
    assert result.stderr == (
        f"pit: the head at {connected.url} does not accept the token in {home}/.pituser.txt\n"
        "`pit login` gets a new one\n"
    )


def test_what_the_head_says_is_made_harmless(connected: StubHead, pit_command: Pit) -> None:
    def rude(handler: Handler, answer: Answer) -> None:
        handler.send((400, {"code": "x", "message": "\x1b[2Jgone", "hint": "\u202ehint"}))

    connected.misbehave("GET", "/status", rude)
    assert pit_command("status").stderr == "pit: \\x1b[2Jgone\n\\u202ehint\n"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'"x"'])
def test_an_answer_of_something_else_is_no_traceback(
    connected: StubHead, pit_command: Pit, body: bytes
) -> None:
    connected.misbehave("GET", "/status", lambda handler, _: handler.send((200, body)))
    result = pit_command("status")
    assert result.exit_code == 1
    assert "does not answer as a pit head does" in result.stderr


def test_an_answer_with_a_missing_field_names_the_field(connected: StubHead, pit_command: Pit) -> None:
    connected.misbehave("GET", "/status", lambda handler, _: handler.send((200, {})))
    result = pit_command("status")
    assert result.exit_code == 1
    assert "does not answer as a pit head does (HTTP 200, field 'revision' is missing)" in result.stderr


def test_fields_of_a_newer_head_are_ignored(connected: StubHead, pit_command: Pit) -> None:
    def answer_with_more(handler: Handler, answer: Answer) -> None:
        handler.send((200, {**answer[1], "weather": "sunny"}))

    connected.misbehave("GET", "/status", answer_with_more)
    result = pit_command("status", "--json")
    assert (result.exit_code, "weather" in json.loads(result.stdout)) == (0, False)


def test_a_bug_is_a_sentence_and_debug_shows_the_traceback(
    connected: StubHead, pit_command: Pit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pit.commands.status.status_sections", lambda *_: {}["missing"])
    for arguments, has_traceback in ((["status"], False), (["--debug", "status"], True)):
        result = pit_command(*arguments)
        assert result.exit_code == 1
        assert ("Traceback" in result.stderr) is has_traceback
        assert "pit: internal error: KeyError" in result.stderr


def test_a_closed_pipe_is_no_traceback(connected: StubHead, pit_env: dict[str, str]) -> None:
    for number in range(1, 2000):
        connected.add_job(number, title="x" * 200)
    command = f"{sys.executable} -m pit status | true"
    done = subprocess.run(["bash", "-c", command], env=pit_env, capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_status_in_a_pipe_imports_nothing_heavy(connected: StubHead, pit_env: dict[str, str]) -> None:
    script = "import sys\nfrom pit.cli import pit\ntry: pit.main(['status'])\nfinally: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], env=pit_env, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "requests" in loaded
    assert not loaded & {"rich", "git", "lark", "pit_grammar", "cryptography"}


def test_version_imports_nothing_but_click(pit_env: dict[str, str]) -> None:
    script = "import sys\nfrom pit.cli import pit\ntry: pit.main(['--version'])\nfinally: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], env=pit_env, capture_output=True, text=True, check=True
    )
    heavy = {"requests", "rich", "git", "lark", "subprocess", "difflib", "shlex"}
    assert not set(done.stdout.splitlines()[-1].split()) & heavy


def test_with_no_head_at_all_it_says_how_to_get_one(home: Path, pit_command: Pit) -> None:
    result = pit_command("status")
    assert result.exit_code == 1
    assert "`pit connect URL` connects to one, `pit up` starts one on this machine" in result.stderr


def test_a_connection_without_a_token_says_so(home: Path, pit_command: Pit) -> None:
    (home / ".pitconnect.txt").write_text("https://pit.example.org\n")
    result = pit_command("status")
    assert result.exit_code == 1
    assert result.stderr == (
        f"pit: there is no token for the head at https://pit.example.org (from {home}/.pitconnect.txt)\n"
        "`pit login` on a terminal logs in; `pit login --with-token` reads a token from stdin\n"
    )


def test_a_machine_without_git_is_told_so(
    connected: StubHead, checkout: Path, tmp_path: Path, pit_env: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "pit", "run", "x"]
    done = subprocess.run(command, env={**pit_env, "PATH": str(tmp_path)}, capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "pit: git is not installed on this machine")


def test_a_head_that_runs_but_cannot_answer_is_not_called_away(connected: StubHead, pit_command: Pit) -> None:
    full = Problem("database_full", "the disk of the head's database is full", "free some space", status=503)
    answer = (503, full.to_json())
    connected.misbehave("GET", "/nodes", *[lambda handler, _: handler.send(answer)] * 9)
    result = pit_command("show", "nodes")
    assert (result.exit_code, result.stderr) == (
        1,
        f"pit: the head at {connected.url} cannot do this now: the disk of the head's database is full\n"
        "free some space\n",
    )


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            [sys.executable, "-m", "pit", "--help"], stdout=pipe, stderr=subprocess.PIPE, check=False
        )
    assert (done.returncode, done.stderr) == (0, b"")
