"""Ending jobs, and waiting for their end."""

import itertools
import json

import pytest

from pit.commands import wait
from pit.jobs.delay_notes import DelayNotes
from tests.client.conftest import Pit
from tests.support.stubs.head import StubHead, an_ended, drop, first


class TestStop:
    def test_several_are_stopped_and_what_cannot_be_is_said(
        self, connected: StubHead, pit_command: Pit
    ) -> None:
        for number in (190, 191):
            connected.add_job(number)
        connected.add_job(192, **an_ended())
        result = pit_command("stop", "190-193")
        assert result.exit_code == 1
        assert result.stdout == "job 190 is stopping\njob 191 is stopping\n"
        assert result.stderr == (
            "pit: job 192 has ended already\npit: there is no job 193\n`pit status` lists jobs\n"
        )

    def test_all_well_is_exit_code_0(self, connected: StubHead, pit_command: Pit) -> None:
        connected.add_job(190)
        result = pit_command("stop", "job:190", "--json")
        assert result.exit_code == 0
        assert json.loads(result.stdout)["state"] == "stopping"

    def test_a_bad_number_is_a_usage_error(self, connected: StubHead, pit_command: Pit) -> None:
        result = pit_command("stop", "12", "all")
        assert (result.exit_code, result.stderr.splitlines()[0]) == (2, "pit: 'all' is not a job number")
        assert connected.calls == []


class TestWait:
    @pytest.mark.parametrize(
        ("outcome", "code"), [("succeeded", 0), ("failed", 3), ("stopped", 3), ("lost", 3)]
    )
    def test_the_exit_code_tells_whether_all_succeeded(
        self, connected: StubHead, pit_command: Pit, outcome: str, code: int
    ) -> None:
        connected.add_job(1, **an_ended())
        connected.add_job(2, **an_ended(outcome))
        assert pit_command("wait", "1", "2").exit_code == code

    def test_it_asks_until_the_job_has_ended(self, connected: StubHead, pit_command: Pit) -> None:
        connected.add_job(1)
        why = "worker 0 ended with exit code 7"
        end = first(lambda: connected.jobs[1].update(an_ended("failed"), reason=why))
        connected.misbehave("GET", "/jobs/1", first(lambda: None), drop, end)
        result = pit_command("wait", "1")
        assert result.exit_code == 3
        assert result.stdout == "job 1 failed: worker 0 ended with exit code 7\n"
        assert {call.query["wait_s"] for call in connected.called("/jobs/1")} == {"10.0"}
        assert result.stderr.endswith("pit: the head is back\n")

    def test_on_a_terminal_it_says_what_the_job_waits_for(
        self, connected: StubHead, pit_command: Pit, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(wait, "DelayNotes", lambda: DelayNotes(is_wanted=True))
        why = "needs 1 core, 0 free; job 16 holds them"
        connected.add_job(1, state="waiting", reason=why, delay="a1")
        end = first(lambda: connected.jobs[1].update(an_ended(), reason="", delay=""))
        connected.misbehave("GET", "/jobs/1", first(lambda: None), first(lambda: None), end)
        result = pit_command("wait", "1")
        assert result.stderr == f"pit: job 1 is waiting: {why}\n"
        assert [call.query.get("delay") for call in connected.called("/jobs/1")][1:] == ["a1", "a1"]

    def test_an_unknown_job_is_a_problem_and_the_others_are_waited_for(
        self, connected: StubHead, pit_command: Pit
    ) -> None:
        connected.add_job(2, **an_ended())
        result = pit_command("wait", "1-2")
        assert (result.exit_code, result.stdout) == (1, "job 2 succeeded\n")
        assert result.stderr.startswith("pit: there is no job 1\n")

    def test_any_ends_with_the_first_job_that_ends(self, connected: StubHead, pit_command: Pit) -> None:
        for number in (1, 2):
            connected.add_job(number)
        end = first(lambda: connected.jobs[2].update(an_ended("failed")))
        connected.misbehave("GET", "/status", first(lambda: None), end)
        result = pit_command("wait", "1-3", "--any")
        assert (result.exit_code, result.stdout) == (1, "job 2 failed\n")
        assert result.stderr == "pit: there is no job 3\n`pit status` lists jobs\n"

    def test_any_has_the_exit_code_of_that_job(self, connected: StubHead, pit_command: Pit) -> None:
        connected.add_job(1)
        connected.add_job(2, **an_ended("failed"))
        assert pit_command("wait", "1-2", "--any").exit_code == 3

    @pytest.mark.parametrize("options", [[], ["--any"]])
    def test_a_timeout_has_its_own_exit_code(
        self, connected: StubHead, pit_command: Pit, options: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = itertools.count()
        monkeypatch.setattr("pit.commands.wait.time.monotonic", lambda: float(next(clock)))
        connected.add_job(1, **an_ended())
        connected.add_job(2)
        jobs = ["2"] if options else ["1", "2"]
        result = pit_command("wait", *jobs, "--timeout", "9s", *options)
        assert result.exit_code == 124
        assert result.stdout == ("" if options else "job 1 succeeded\n")
        assert result.stderr == (
            "pit: job 2 has not ended after 9s and keeps running\n"
            "`pit log 2` follows it, `pit stop 2` stops it\n"
        )

    def test_a_timeout_of_any_names_what_is_left(self, connected: StubHead, pit_command: Pit) -> None:
        for number in (2, 3, 4):
            connected.add_job(number)
        result = pit_command("wait", "1-4", "--timeout", "1s", "--any")
        assert result.exit_code == 124
        assert "pit: job 2 and 2 more have not ended after 1s and keep running\n" in result.stderr

    def test_a_timeout_ends_the_wait_for_a_head_that_is_away(
        self, connected: StubHead, pit_command: Pit
    ) -> None:
        connected.add_job(1)
        connected.misbehave("GET", "/jobs/1", first(lambda: None), *[drop] * 10_000)
        result = pit_command("wait", "1", "--timeout", "1s")
        assert result.exit_code == 124

    @pytest.mark.parametrize("text", ["soon", "0", "-1", "10 m", "1.5h"])
    def test_a_timeout_is_a_length_of_time(self, pit_command: Pit, text: str) -> None:
        result = pit_command("wait", "1", f"--timeout={text}")
        assert result.exit_code == 2
        assert result.stderr.startswith(
            f"pit: {text!r} is not a length of time: write 90s, 10m, 2h or 1d12h\n"
        )
