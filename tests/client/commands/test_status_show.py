"""What is shown of jobs, nodes and oneself, in a pipe and on a terminal."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from rich.console import Console

from pit.ui.tables import render_rich
from pit.views.job import details
from pit.views.job.table import JOB_COLUMNS, status_sections
from pit_protocol.answers.jobs import JobRecord, JobSummary, Status, Totals
from pit_protocol.wire import from_json
from tests.client.conftest import Pit
from tests.support.stubs.head import StubHead, a_process, a_record, a_summary, an_ended, first
from tests.support.stubs.users import SETTLED_AT


def on_a_terminal(jobs: list[dict[str, Any]], width: int) -> list[str]:
    shown = [from_json(JobSummary, a_summary(job)) for job in jobs]
    status = Status(1, shown, [], [], Totals(running=30, waiting=0, done=0))
    console = Console(
        file=io.StringIO(), width=width, highlight=False, force_terminal=True, color_system=None
    )
    console.print(render_rich(JOB_COLUMNS, status_sections(status, time.time()), width))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def nothing() -> None:
    pass


class TestStatus:
    def test_tells_an_admin_who_waits_for_approval(self, connected: StubHead, pit_command: Pit) -> None:
        connected.people.unapproved = ["jill", "tom"]
        result = pit_command("status")
        assert result.stderr == (
            "pit: 2 accounts wait for approval (jill, tom): `pit set user:jill active=yes`\n"
        )
        assert json.loads(pit_command("status", "--json").stdout)["unapproved"] == ["jill", "tom"]

    def test_tells_an_admin_of_a_clock_that_jumped(self, connected: StubHead, pit_command: Pit) -> None:
        connected.people.notices = ["the clock jumped 400.0 days ahead"]
        assert pit_command("status").stderr == "pit: the clock jumped 400.0 days ahead\n"

    def test_three_parts_with_ages_and_loads(self, connected: StubHead, pit_command: Pit) -> None:
        connected.add_job(190, gpu_percent=87.4, memory_percent=40, request="[2:gtx1070]")
        connected.add_job(191, state="waiting", letters="WAI", title="Second light")
        connected.add_job(7, **an_ended("failed"), user="bob")
        result = pit_command("status")
        assert result.exit_code == 0
        assert result.stdout == (
            "JOB  S    SINCE  UC%  UM%  USER  TITLE         RESOURCE\n"
            "Running\n"
            "190  RUN  3m      87   40  anna  First light   [2:gtx1070]\n"
            "Waiting\n"
            "191  WAI  3m       -    -  anna  Second light  []\n"
            "Done\n"
            "  7  FAI  3m       -    -  bob   First light   []\n"
        )

    def test_a_line_below_a_job_says_what_it_waits_for(self, connected: StubHead, pit_command: Pit) -> None:
        connected.add_job(190, reason="n1 has been silent for 40 s")
        why = "needs 1 core, 0 free; job 190 holds them"
        connected.add_job(191, state="waiting", letters="WAI", reason=why)
        connected.add_job(7, **an_ended("failed"), reason="process 0.0 ended with exit code 7")
        lines = pit_command("status").stdout.splitlines()
        assert lines[3] == "     n1 has been silent for 40 s"
        assert lines[6] == f"     {why}"
        assert len(lines) == 9

    def test_what_is_not_shown_is_counted(self, connected: StubHead, pit_command: Pit) -> None:
        for number in range(1, 1031):
            connected.add_job(number, state="waiting", letters="WAI")
        assert pit_command("status").stdout.splitlines()[-1] == "… and 1,010 more"

    def test_ones_own_jobs_and_a_limit_are_asked_for(self, connected: StubHead, pit_command: Pit) -> None:
        assert pit_command("status", "--mine", "--limit", "5").exit_code == 0
        assert connected.calls[-1].query == {"mine": "yes", "limit": "5"}
        assert pit_command("status", "--limit", "0").exit_code == 2

    def test_without_jobs_it_says_how_to_run_one(self, connected: StubHead, pit_command: Pit) -> None:
        assert pit_command("status").stdout.splitlines()[-1] == "no jobs yet; `pit run` makes one"

    def test_titles_are_sanitized(self, connected: StubHead, pit_command: Pit) -> None:
        connected.add_job(1, title="\x1b]0;owned\x07 \u202eevil")
        assert "\\x1b]0;owned\\x07 \\u202eevil" in pit_command("status").stdout

    def test_json_is_the_answer_of_the_head(self, connected: StubHead, pit_command: Pit) -> None:
        connected.add_job(1, title="\u202eevil")
        result = pit_command("status", "--json")
        assert json.loads(result.stdout)["running"] == [a_summary(connected.jobs[1])]
        assert result.stdout.isascii()

    def test_watching_shows_each_change_and_ctrl_c_exits_0(
        self, connected: StubHead, pit_env: dict[str, str]
    ) -> None:
        def change() -> None:
            connected.revision += 1
            connected.add_job(2, title="new")

        child: list[subprocess.Popen[str]] = []
        interrupt = first(lambda: os.kill(child[0].pid, signal.SIGINT))
        connected.add_job(1)
        connected.misbehave("GET", "/status", *map(first, (nothing, nothing, change, nothing)), interrupt)
        command = [sys.executable, "-m", "pit", "status", "-w"]
        with subprocess.Popen(command, env=pit_env, stdout=-1, stderr=-1, text=True) as process:
            child.append(process)
            stdout, stderr = process.communicate(timeout=120)
        assert (process.returncode, stderr) == (0, "")
        assert [line.split()[0] for line in stdout.splitlines()] == [
            "JOB",
            "Running",
            "1",
            "JOB",
            "Running",
            "1",
            "2",
        ]
        assert [call.query.get("seen") for call in connected.called("/status")] == [None, "1", "1", "1", "2"]

    def test_a_narrow_terminal_cuts_titles_and_nothing_else(self) -> None:
        job = a_record(190, title="a very long title " * 10, request="[2:gtx1070]", gpu_percent=100)
        table = on_a_terminal([job], 70)
        assert all(len(line.rstrip()) <= 70 for line in table)
        assert "…" in table[2]
        assert "[2:gtx1070]" in table[2]
        assert table[-1] == "… and 29 more"

    def test_a_title_is_no_markup(self) -> None:
        assert "[red]x[/red]" in on_a_terminal([a_record(1, title="[red]x[/red]")], 100)[2]

    def test_wide_letters_do_not_break_the_columns(self) -> None:
        rows = on_a_terminal([a_record(1, title="漢字漢字"), a_record(2, title="ascii")], 100)
        assert rows[2].index("[]") + 4 == rows[3].index("[]")


class TestShow:
    def test_jobs_by_filter(self, connected: StubHead, pit_command: Pit) -> None:
        connected.add_job(1)
        words = [
            "user=jill",
            "since=2026-04",
            "title=%test%",
            "asc=date",
            "limit=20",
            "offset=40",
            "state=failed",
        ]
        assert pit_command("show", "jobs", *words).exit_code == 0
        assert connected.calls[-1].query == {
            "user": "jill",
            "since": "1775001600.0",
            "title": "%test%",
            "asc": "date",
            "limit": "20",
            "offset": "40",
            "outcome": "failed",
        }

    @pytest.mark.parametrize(
        ("word", "name", "value"),
        [
            ("state=WAI", "state", "waiting"),
            ("state=waiting", "state", "waiting"),
            ("state=Fai", "outcome", "failed"),
            ("state=STG", "state", "stopping"),
            ("outcome=stp", "outcome", "stopped"),
            ("state=timed_out", "outcome", "timed out"),
            ("state=ended", "state", "ended"),
            ("title=sweep", "title", "%sweep%"),
            ("title=%a%b", "title", "%a%b"),
            ("comment=base", "comment", "%base%"),
        ],
    )
    def test_a_filter_takes_what_is_shown(
        self, connected: StubHead, pit_command: Pit, word: str, name: str, value: str
    ) -> None:
        assert pit_command("show", "jobs", word).exit_code == 0
        assert connected.calls[-1].query == {name: value}

    def test_columns_are_shown_as_asked_for(self, connected: StubHead, pit_command: Pit) -> None:
        connected.add_job(1, result="acc 0.9")
        connected.jobs[1] |= {"run_s": 7500.0, "secrets": ["PIN"]}
        connected.jobs[1]["options"]["env"] = {"LR": "0.\x1b1"}
        columns = "number,state,runtime,result,env.LR,env.PIN,env.NONE"
        result = pit_command("show", "jobs", "--columns", columns, "user=anna")
        assert result.stdout.splitlines() == [
            "JOB  S    RUNTIME  RESULT   LR       PIN       NONE",
            "  1  RUN    2h 5m  acc 0.9  0.\\x1b1  (secret)  -",
        ]
        assert connected.calls[-1].query == {"user": "anna", "columns": "result,env.LR,env.PIN,env.NONE"}

    @pytest.mark.parametrize("columns", ["help", "number,colour", "env.", "env.a b", ""])
    def test_a_wrong_column_lists_the_known_ones(
        self, connected: StubHead, pit_command: Pit, columns: str
    ) -> None:
        result = pit_command("show", "jobs", "--columns", columns)
        assert (result.exit_code, connected.calls) == (2, [])
        assert "the columns are number, state, since, created, runtime, " in result.stderr
        assert "and env.NAME for a variable" in result.stderr

    def test_columns_are_for_jobs_alone(self, connected: StubHead, pit_command: Pit) -> None:
        result = pit_command("show", "nodes", "--columns", "number")
        assert result.stderr.startswith("pit: --columns is for jobs, not for nodes\n")

    def test_an_unknown_state_lists_all_words_and_letters(
        self, connected: StubHead, pit_command: Pit
    ) -> None:
        stderr = pit_command("show", "jobs", "state=happy").stderr
        assert stderr.startswith(
            "pit: there is no state 'happy'; the states are preparing (PRE), waiting (WAI), "
        )
        assert "ended, succeeded (SUC)" in stderr

    @pytest.mark.parametrize(
        "word", ["user", "colour=red", "state=happy", "asc=size", "limit=x", "since=soon"]
    )
    def test_a_wrong_filter_is_a_usage_error(self, connected: StubHead, pit_command: Pit, word: str) -> None:
        result = pit_command("show", "jobs", word)
        assert (result.exit_code, result.stderr.startswith("pit: ")) == (2, True)
        assert connected.calls == []

    @pytest.mark.parametrize("word", ["job:12", "12"])
    def test_a_job_with_processes_and_events(self, connected: StubHead, pit_command: Pit, word: str) -> None:
        event = {
            "at": SETTLED_AT,
            "event": "started",
            "from": "starting",
            "to": "running",
            "actor": "node:n0",
            "reason": "",
            "process": None,
        }
        connected.add_job(
            12,
            **an_ended("failed"),
            processes=[a_process(0, 1, exit_code=3)],
            events=[event],
            result="acc 0.9\n",
            keep=True,
        )
        stdout = pit_command("show", word, "--events").stdout
        assert "Keep:       yes\n" in stdout
        assert "State:      ended, failed since 20" in stdout
        assert "Result:     acc 0.9\n" in stdout
        assert "1       n0    ended  exit code 3  2025-12-06 05:46:40  1m   -          -\n" in stdout
        assert "2025-12-06 05:46:40  started  -       running  node:n0  -\n" in stdout

    def test_json_is_the_answer_of_the_head(self, connected: StubHead, pit_command: Pit) -> None:
        connected.add_job(12)
        assert json.loads(pit_command("show", "12", "--json").stdout) == connected.jobs[12]

    def test_events_are_shown_only_if_asked_for(self, connected: StubHead, pit_command: Pit) -> None:
        connected.add_job(12, processes=[a_process(0, i) for i in range(3)])
        stdout = pit_command("show", "12").stdout
        assert ("EVENT" in stdout, "0–2" in stdout) == (False, True)
        assert "0–2" not in pit_command("show", "12", "--processes").stdout
        for what in ("jobs", "node:n0"):
            result = pit_command("show", what, "--events")
            expected = f"pit: --events and --processes are for one job, not for {what}\n"
            assert (result.exit_code, result.stderr.startswith(expected)) == (2, True)

    @pytest.mark.parametrize("width", [60, 80])
    def test_a_job_with_much_to_tell_fits_on_one_screen(self, width: int) -> None:
        job = a_record(
            12,
            **an_ended("failed"),
            title="A title " * 20,
            command="for i in 1 2 3; do\n  python train.py\ndone" * 20,
            image="registry.example.org/lab/torch:2.9",
            env={f"NAME{i}": "x" * 50 for i in range(9)},
            comment="more to say " * 20,
            variables=["HF_TOKEN", "WANDB_API_KEY"],
            groups=["students"],
            reason="worker 1 ended with exit code 3",
            result="line\n" * 30,
            processes=[a_process(0, i, image="lab/torch@sha256:" + "a" * 64) for i in range(64)],
        )
        lines = details.job_text(from_json(JobRecord, job), 0, width).splitlines()
        assert len(lines) + len(["", "WORKER", "0–63", "$"]) <= 24
        assert max(map(len, lines)) <= width

    def test_an_unknown_word_is_a_usage_error(self, connected: StubHead, pit_command: Pit) -> None:
        result = pit_command("show", "everything")
        assert result.exit_code == 2
        assert result.stderr.startswith("pit: there is no 'everything' to show\nwrite me, users, groups")
