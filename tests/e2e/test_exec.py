"""Commands and shells inside running jobs, through the installed `pit`."""

import hashlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters.local import PIT, Cluster, Project, eventually
from tests.support.requirements import need_programs
from tests.support.terminal import Terminal

MIB = 1024 * 1024
# Redraws the whole screen whenever its size changes, until a key is pressed.
FULL_SCREEN = """
import curses
def main(screen):
    while True:
        screen.erase()
        screen.addstr(0, 0, "size %d by %d" % screen.getmaxyx())
        screen.refresh()
        if screen.getch() == ord("q"):
            return
curses.wrapper(main)
"""


@pytest.fixture(scope="module")
def job(shared_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, str]]:
    """A job that runs for as long as the tests of this file."""
    cluster = shared_cluster.with_project(Project(tmp_path_factory.mktemp("exec")))
    number = cluster.run("echo ready; exec sleep 1000", "2:[]", "-e", "COLOUR=blue")
    eventually(lambda: cluster.log_text(number).splitlines().count("ready") == 2)
    yield cluster, str(number)
    cluster.ok("stop", str(number))


def pit(cluster: Cluster, *arguments: str, **options: object) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [PIT, *arguments], cwd=cluster.project.path, env=cluster.env, timeout=120, check=False, **options
    )


def test_a_command_runs_as_the_process_does_and_its_streams_stay_apart(job: tuple[Cluster, str]) -> None:
    cluster, number = job
    script = 'echo $COLOUR $RANK; pwd; grep -c . /proc/self/cgroup; cat; echo "to stderr" >&2; exit 7'
    done = pit(
        cluster,
        "exec",
        number,
        "-w",
        "0.1",
        "--",
        "sh",
        "-c",
        script,
        input=b"from\0stdin",
        capture_output=True,
    )
    colour, directory, _, *rest = done.stdout.split(b"\n")
    assert colour == b"blue 1"
    assert directory.endswith(f"jobs/{number}/1/src".encode())
    assert rest == [b"from\0stdin"]
    assert done.stderr == b"to stderr\n"
    assert done.returncode == 7


def test_many_bytes_pass_unchanged_in_both_directions(job: tuple[Cluster, str], tmp_path: Path) -> None:
    cluster, number = job
    sent = tmp_path / "sent"
    digest = hashlib.sha256()
    with sent.open("wb") as file:
        for _ in range(100):
            block = os.urandom(MIB)
            digest.update(block)
            file.write(block)
    with sent.open("rb") as source:
        child = subprocess.Popen(
            [PIT, "exec", number, "--", "cat"],
            cwd=cluster.project.path,
            env=cluster.env,
            stdin=source,
            stdout=subprocess.PIPE,
        )
    assert child.stdout
    received = hashlib.sha256()
    with child.stdout:
        while block := child.stdout.read(MIB):
            received.update(block)
    assert child.wait(60) == 0
    assert received.hexdigest() == digest.hexdigest()


def test_a_reader_that_has_seen_enough_ends_the_command(job: tuple[Cluster, str]) -> None:
    cluster, number = job
    line = f"'{PIT}' exec {number} -- yes | head -1"
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=cluster.project.path,
        env=cluster.env,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == b"y\n"
    eventually(lambda: not _runs(cluster, number, "yes"))


def _runs(cluster: Cluster, number: str, name: str) -> bool:
    listing = pit(cluster, "exec", number, "--", "sh", "-c", "cat /proc/[0-9]*/comm", capture_output=True)
    return name.encode() in listing.stdout.split()


def test_a_terminal_has_keys_colours_and_size_and_is_restored(job: tuple[Cluster, str]) -> None:
    cluster, number = job
    need_programs("vim")
    env = {**cluster.env, "TERM": "xterm"}
    # A shell around it, so that the terminal outlives the session and can be looked at.
    line = f"stty rows 30 cols 100; '{PIT}' shell {number}; echo code $?; read _"
    terminal = Terminal(["sh", "-c", line], cluster.project.path, env)
    before = terminal.modes()

    def type_line(text: str) -> None:
        terminal.see("/src")  # the prompt
        terminal.press(f"{text}\r")

    type_line("stty size; echo $COLOUR")
    terminal.see("30 100\n")
    terminal.see("blue\n")
    type_line("echo wait''ing; sleep 1000")
    terminal.see("waiting\n")
    terminal.press("\x03")
    type_line("echo interr''upted $?")
    terminal.see("interrupted 130\n")
    type_line("vim -u NONE -N note.txt")
    terminal.see("[New]")
    terminal.press("ione line\x1b:wq\r")
    terminal.see("written")
    type_line("cat note.txt; tput setaf 1 | od -c | head -1")
    terminal.see("one line\n")
    terminal.see("033   [   3   1   m")
    type_line("exit 9")
    terminal.see("code 9\n")
    assert terminal.modes() == before
    terminal.press("\r")
    assert terminal.end() == 0


def test_a_full_screen_program_follows_the_size(job: tuple[Cluster, str]) -> None:
    cluster, number = job
    terminal = Terminal(
        [str(PIT), "exec", number, "--", "python3", "-c", FULL_SCREEN],
        cluster.project.path,
        {**cluster.env, "TERM": "xterm"},
    )
    terminal.see("size ")
    terminal.resize(40, 120)
    terminal.see("40 by 120")
    terminal.press("q")
    assert terminal.end() == 0


def test_the_end_of_the_job_ends_the_session_with_a_sentence(job: tuple[Cluster, str]) -> None:
    cluster, _ = job
    short = cluster.run("echo ready; while [ ! -e go ]; do sleep 0.05; done")
    eventually(lambda: "ready" in cluster.log_text(short))
    done = pit(
        cluster, "exec", str(short), "--", "sh", "-c", "touch go; sleep 1000", capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "the process has ended, and the session with it" in done.stderr
    assert cluster.wait(short)["outcome"] == "succeeded"
    again = pit(cluster, "exec", str(short), "--", "true", capture_output=True, text=True)
    assert f"job {short} has ended" in again.stderr


def test_what_cannot_be_entered_is_named(job: tuple[Cluster, str]) -> None:
    cluster, number = job
    assert "there is no job 4444" in cluster.pit("exec", "4444", "--", "true").err
    assert f"job {number} has no process 9" in cluster.pit("exec", number, "-w", "9", "--", "true").err
    assert cluster.pit("exec", number, "--", "no-such-program").code == 127
    audit = cluster.json("show", "audit", f"object=job:{number}")
    assert any(entry["act"] == "exec" for entry in audit["entries"])
