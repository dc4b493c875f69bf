"""From a project to a job."""

import json
import os
import random
from pathlib import Path

import pytest

from pit_protocol.job_options import JobOptions
from pit_protocol.wire import to_json
from tests.client.conftest import Pit
from tests.support.git_projects import git, trees_of
from tests.support.stubs.head import StubHead, an_ended, drop, lines


def test_a_job_is_what_the_project_is(
    connected: StubHead, checkout: Path, tmp_path: Path, pit_command: Pit
) -> None:
    (checkout / "new.txt").write_text("a\nb\n")
    result = pit_command("run", "First light", "[ 2:gtx1070 ]", "-p", "-c", "7")
    commit = git(checkout, "rev-parse", "HEAD")
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "Job number: 12\n"
        f"Remote:     origin <file://{checkout.parent}/remote.git>\n"
        f"Hash:       {commit}\n"
        "Diff LoC:   2\n"
        'Resources:  "[2:gtx1070]"\n'
    )
    [sent] = connected.submissions
    assert (sent["title"], sent["request"]) == ("First light", "[2:gtx1070]")
    assert sent["options"] == to_json(JobOptions(private=True, continues=7))
    assert (sent["snapshot"]["base"], sent["snapshot"]["commit"]) == (commit, commit)
    assert sent["snapshot"]["tree"] in trees_of(connected.uploads[sent["snapshot"]["pack"]], tmp_path)


def test_put_is_run(connected: StubHead, checkout: Path, pit_command: Pit) -> None:
    assert pit_command("put", "First light", "-d", "hostname").exit_code == 0
    assert connected.submissions[0]["options"]["command"] == "hostname"


def test_without_a_request_the_projects_file_is_taken(
    connected: StubHead, checkout: Path, pit_command: Pit, monkeypatch: pytest.MonkeyPatch
) -> None:
    (checkout / ".pitrequest.txt").write_text("4:[a100]\n")
    (checkout / "deep").mkdir()
    monkeypatch.chdir(checkout / "deep")
    pit_command("run", "x")
    assert connected.submissions[0]["request"] == "4:[a100]"


def test_without_any_request_it_is_one_process(connected: StubHead, checkout: Path, pit_command: Pit) -> None:
    pit_command("run", "x")
    assert connected.submissions[0]["request"] == "[]"


def test_a_head_that_cannot_fetch_gets_the_objects(
    connected: StubHead, checkout: Path, tmp_path: Path, pit_command: Pit
) -> None:
    connected.fetchable = False
    (checkout / "new.txt").write_text("new\n")
    result = pit_command("run", "x")
    assert result.exit_code == 0, result.output
    assert "Remote:     none" in result.stdout
    assert "pit: this head does not fetch from there; sending the missing objects instead\n" in result.stderr
    snapshot = connected.submissions[0]["snapshot"]
    assert (snapshot["base"], snapshot["remote"]) == (None, None)
    assert snapshot["tree"] in trees_of(connected.uploads[snapshot["pack"]], tmp_path)


def test_a_remote_that_the_head_does_not_take_is_as_none(
    connected: StubHead, checkout: Path, pit_command: Pit
) -> None:
    refusal = {"code": "bad_remote", "message": "the URL is none", "hint": "", "status": 422}
    connected.misbehave("POST", "/snapshots/offer", lambda handler, _: handler.send((422, refusal)))
    result = pit_command("run", "x")
    assert result.exit_code == 0, result.output
    assert "pit: the URL is none; sending the missing objects instead\n" in result.stderr
    assert connected.submissions[0]["snapshot"]["remote"] is None


def test_what_is_no_file_is_told(connected: StubHead, checkout: Path, pit_command: Pit) -> None:
    os.mkfifo(checkout / "pipe")
    words = "pit: left out because they are not files, directories or links: pipe\n"
    assert pit_command("run", "x").stderr == words
    assert pit_command("run", "x", "--dry-run").stderr == words
    assert json.loads(pit_command("run", "x", "--dry-run", "--json").stdout)["odd"] == ["pipe"]


class TestDryRun:
    def test_it_tells_what_the_head_says_to_the_offer(
        self, connected: StubHead, checkout: Path, pit_command: Pit
    ) -> None:
        commit = git(checkout, "rev-parse", "HEAD")
        assert f"Head:       has or fetches {commit}\n" in pit_command("run", "x", "--dry-run").stdout
        connected.fetchable = False
        words = "this head does not fetch from there"
        assert (
            f"Head:       {words}; the missing objects would be sent"
            in pit_command("run", "x", "--dry-run").stdout
        )
        document = json.loads(pit_command("run", "x", "--dry-run", "--json").stdout)
        assert document["head"] == {"complete": False, "base": None, "why": words}
        assert (connected.submissions, connected.uploads) == ([], {})

    def test_without_a_head_it_tells_the_rest(self, home: Path, checkout: Path, pit_command: Pit) -> None:
        (checkout / "new.txt").write_text("new\n")
        result = pit_command("run", "x", "--dry-run")
        assert (result.exit_code, "new.txt" in result.stdout, "Head:" in result.stdout) == (0, True, False)
        assert "pit: the head was not asked what it has: no head is known" in result.stderr


def test_bundle_sends_objects_and_no_url(connected: StubHead, checkout: Path, pit_command: Pit) -> None:
    git(checkout, "remote", "set-url", "origin", "https://anna:TOPSECRET@host/r.git")
    assert pit_command("run", "x", "--bundle").exit_code == 0
    assert connected.submissions[0]["snapshot"]["remote"] is None
    assert all(b"TOPSECRET" not in call.body for call in connected.calls)


def test_a_secret_in_the_remote_is_not_sent(connected: StubHead, checkout: Path, pit_command: Pit) -> None:
    git(checkout, "remote", "set-url", "origin", "https://anna:TOPSECRET@host/r.git")
    result = pit_command("run", "x")
    assert result.exit_code == 0
    assert "contains a user name or a secret" in result.stderr
    assert "TOPSECRET" not in result.output
    assert connected.submissions[0]["snapshot"]["remote"] is None
    assert all(b"TOPSECRET" not in call.body for call in connected.calls)


def test_a_broken_upload_goes_on_where_it_was(
    connected: StubHead, checkout: Path, pit_command: Pit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pit.jobs.pack_upload.PIECE", 1000)
    (checkout / "weights.bin").write_bytes(random.Random(1).randbytes(5000))
    assert pit_command("run", "x").exit_code == 0
    pack = connected.submissions[0]["snapshot"]["pack"]
    first = len(connected.called(f"/uploads/{pack}"))
    connected.uploads[pack] = connected.uploads[pack][:3000]
    connected.trees.clear()
    connected.misbehave("PUT", f"/uploads/{pack}", drop)
    assert pit_command("run", "x").exit_code == 0
    assert connected.submissions[1]["snapshot"]["pack"] == pack, "the same state makes the same pack"
    again = connected.called(f"/uploads/{pack}")[first:]
    assert [call.query["offset"] for call in again if call.method == "PUT"] == [
        "3000",
        "3000",
        "4000",
        "5000",
    ]


@pytest.mark.threat("F02")
def test_a_lost_answer_makes_no_second_job(connected: StubHead, checkout: Path, pit_command: Pit) -> None:
    (checkout / "new.txt").write_text("new\n")
    connected.misbehave("POST", "/jobs", drop, drop)
    result = pit_command("run", "x")
    assert result.exit_code == 0, result.output
    assert len(connected.called("/jobs")) == 4  # twice without an answer, once refused, then accepted
    assert len(connected.submissions) == 1


def test_an_answer_that_never_comes_leaves_it_open_whether_there_is_a_job(
    connected: StubHead, checkout: Path, pit_command: Pit
) -> None:
    connected.misbehave("POST", "/jobs", drop, drop, drop)
    result = pit_command("run", "x")
    assert result.exit_code == 1
    assert "the job may or may not have been accepted" in result.stderr
    assert "`pit show jobs`" in result.stderr


def test_json_is_the_heads_record(connected: StubHead, checkout: Path, pit_command: Pit) -> None:
    assert json.loads(pit_command("run", "x", "--json").stdout) == connected.jobs[12]


class TestLog:
    def test_follows_to_a_good_end(self, connected: StubHead, checkout: Path, pit_command: Pit) -> None:
        connected.jobs[11] = {}
        connected.logs[12] = lines("one", "two", "three")
        connected.misbehave("GET", "/jobs/12/log", ending_with(connected, "succeeded"))
        result = pit_command("run", "x", "-l")
        assert result.exit_code == 0, result.output
        assert result.stdout.partition("\n\n")[2].splitlines() == [
            "[2025-12-06 05:46:40] [worker 0] one",
            "[2025-12-06 05:46:41] [worker 0] two",
            "[2025-12-06 05:46:42] [worker 0] three",
        ]

    def test_a_failed_job_is_exit_code_3(self, connected: StubHead, checkout: Path, pit_command: Pit) -> None:
        failed = ending_with(connected, "failed", reason="worker 1 ended with exit code 3")
        connected.misbehave("GET", "/jobs/12/log", failed)
        result = pit_command("run", "x", "-l")
        assert result.exit_code == 3
        assert result.stderr == "pit: job 12 failed: worker 1 ended with exit code 3\n"

    def test_json_is_record_then_lines_then_record(
        self, connected: StubHead, checkout: Path, pit_command: Pit
    ) -> None:
        connected.logs[12] = lines("one")
        connected.misbehave("GET", "/jobs/12/log", ending_with(connected, "succeeded"))
        documents = [json.loads(line) for line in pit_command("run", "x", "-l", "--json").stdout.splitlines()]
        assert [document.get("state") for document in documents] == ["running", None, "ended"]
        assert documents[1] == connected.logs[12][0]


def ending_with(head: StubHead, outcome: str, **fields: object):  # type: ignore[no-untyped-def]
    """The job ends while its log is asked for."""

    def end(handler, answer) -> None:  # type: ignore[no-untyped-def]
        head.jobs[12].update(an_ended(outcome), **fields)
        handler.send(answer)

    return end


class TestRefusals:
    def test_no_repository(self, connected: StubHead, home: Path, pit_command: Pit) -> None:
        result = pit_command("run", "x")
        assert result.exit_code == 1
        assert result.stderr == (
            f"pit: {home} is not in a git repository\n"
            "run `git init`, or send the directory as it is with `pit run -a`\n"
        )

    def test_no_compute_file(self, connected: StubHead, checkout: Path, pit_command: Pit) -> None:
        (checkout / ".compute").unlink()
        result = pit_command("run", "x")
        assert result.exit_code == 1
        assert result.stderr.startswith(f"pit: there is no .compute in {checkout}\n")

    def test_an_ignored_compute_file(self, connected: StubHead, checkout: Path, pit_command: Pit) -> None:
        git(checkout, "rm", "-q", "--cached", ".compute")
        (checkout / ".gitignore").write_text(".compute\n")
        result = pit_command("run", "x")
        assert result.exit_code == 1
        assert "pit: .compute is ignored by git and would be left out\n" in result.stderr

    def test_a_wrong_request_is_shown_with_a_caret_before_anything_else(
        self, home: Path, pit_command: Pit
    ) -> None:
        result = pit_command("run", "x", "2:[a100")
        assert result.exit_code == 1
        assert result.stderr.startswith('pit: "]" is missing: write 2:[a100]\n  2:[a100\n         ^\n')

    def test_a_wrong_request_file_is_named(
        self, connected: StubHead, checkout: Path, pit_command: Pit
    ) -> None:
        (checkout / ".pitrequest.txt").write_text("[[")
        assert f"pit: {checkout}/.pitrequest.txt: " in pit_command("run", "x").stderr

    @pytest.mark.parametrize("title", ["", "  ", "x" * 201])
    def test_a_title_of_no_use(
        self, connected: StubHead, checkout: Path, pit_command: Pit, title: str
    ) -> None:
        result = pit_command("run", title)
        assert (result.exit_code, result.stderr.startswith("pit: a title has 1 to 200")) == (2, True)

    def test_a_bad_number_to_continue(self, checkout: Path, pit_command: Pit) -> None:
        result = pit_command("run", "x", "-c", "seven")
        assert (result.exit_code, result.stderr.splitlines()[0]) == (2, "pit: 'seven' is not a job number")


def test_an_image_comes_from_the_option_or_from_the_project(
    connected: StubHead, checkout: Path, pit_command: Pit
) -> None:
    assert pit_command("run", "x").exit_code == 0
    (checkout / ".pitimage.txt").write_text("lab/torch:2.3\n")
    assert pit_command("run", "x").exit_code == 0
    assert pit_command("run", "x", "--image", "debian:12").exit_code == 0
    assert [s["options"]["image"] for s in connected.submissions] == [None, "lab/torch:2.3", "debian:12"]


@pytest.mark.parametrize(
    ("step", "left"),
    [
        ("pit.jobs.submission.ask", "no job was submitted"),
        ("pit.head.client.Head.submit", "the job may or may not have been accepted"),
    ],
)
def test_an_interrupt_says_what_is_left(
    connected: StubHead,
    checkout: Path,
    pit_command: Pit,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    left: str,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(checkout)
    monkeypatch.setattr(step, interrupt)
    result = pit_command("run", "x", "-d", "true")
    assert result.exit_code == 130
    assert result.stderr.startswith(f"pit: interrupted\n{left}")
