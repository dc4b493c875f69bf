"""Completion of words: what the head knows, quickly, and nothing at all if it is away."""

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pit import completion
from pit.args import completers
from pit.cli import pit
from pit_protocol.atomic_file import write_atomic
from tests.client.conftest import Pit
from tests.support.clusters.local import eventually
from tests.support.stubs.head import TOKEN, StubHead, an_ended

Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch) -> Iterator[Complete]:
    """The words that bash gets for a line."""
    before = dict(completers.SOURCES)
    monkeypatch.setattr(completion, "TIMEOUT_S", 60.0)  # however busy the machine is
    completion.register()

    def words(line: str) -> list[str]:
        monkeypatch.setenv("COMP_LINE", line)
        monkeypatch.setenv("COMP_POINT", str(len(line.encode())))
        found = completion.PitBash(pit, {}, "pit", completion.VARIABLE).complete()
        return [each.partition(",")[2] for each in found.splitlines()]

    yield words
    completers.SOURCES.clear()
    completers.SOURCES.update(before)


def test_commands_options_and_choices(complete: Complete) -> None:
    assert complete("pit sta") == ["status"]
    assert complete("pit wait --not") == ["--notify"]
    assert complete("pit run --priority ") == ["low", "normal", "high"]


def test_numbers_of_jobs(connected: StubHead, complete: Complete) -> None:
    for number in (7, 19, 190):
        connected.add_job(number, **an_ended())
    assert set(complete("pit log ")) == {"last", "7", "19", "190"}
    assert set(complete("pit stop 7 19")) == {"19", "190"}
    assert set(complete("pit run x --after 1")) == {"19", "190"}
    assert set(complete("pit show job:19")) == {"19", "190"}  # bash keeps what is before the colon


def test_without_a_head_there_is_nothing_to_say(complete: Complete) -> None:
    assert complete("pit log ") == ["last"]
    assert complete("pit show node:") == []
    assert complete("pit ls home ") == []


def test_a_head_that_does_not_answer_costs_a_moment(
    home: Path, complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "TIMEOUT_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        (home / ".pitconnect.txt").write_text(f"{url}\n")
        write_atomic(home / ".pituser.txt", f"{url} anna {TOKEN}\n")
        assert complete("pit log ") == ["last"]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_shell_gets_a_script(pit_command: Pit, shell: str) -> None:
    result = pit_command("completion", shell)
    assert (result.exit_code, f"{completion.VARIABLE}={shell}_complete" in result.stdout) == (0, True)


def test_bash_completes_with_it(
    connected: StubHead, pit_command: Pit, pit_env: dict[str, str], tmp_path: Path
) -> None:
    connected.add_job(190)
    program = tmp_path / "pit"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m pit "$@"\n')
    program.chmod(0o755)
    script = tmp_path / "script"
    script.write_text(pit_command("completion", "bash").stdout)
    line = "pit log 1"
    call = f'COMP_LINE="{line}" COMP_POINT={len(line)}; _pit_completion {program}'
    commands = f'. {script}; {call}; echo "${{COMPREPLY[@]}}"'
    bash = shutil.which("bash") or "bash"

    def words() -> str:
        done = subprocess.run(
            [bash, "--norc", "-c", commands], capture_output=True, text=True, env=pit_env, timeout=60
        )
        assert done.stderr == ""
        return done.stdout.strip()

    eventually(lambda: words() == "190")  # it gives up after a moment, which may be too short
