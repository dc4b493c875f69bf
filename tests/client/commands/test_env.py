"""`-e` and `--secret`: variables for jobs, as they are typed and told."""

import json
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from pit.args.env import WORDS
from pit.cli import pit as cli
from tests.client.conftest import Pit
from tests.support.stubs.head import StubHead, a_process


def test_they_go_along_by_value_and_from_ones_own_environment(
    connected: StubHead, checkout: Path, pit_command: Pit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "S3CRET=x")
    monkeypatch.setenv("NOTE", "a b")
    words = ["-e", "LR=0.1", "--env", "NOTE", "-e", "EMPTY=", "-e", "LR=0.2"]
    result = pit_command("run", "x", *words, "--secret", "TOKEN", "--secret", "PIN=S3CRET")
    assert result.exit_code == 0, result.output
    [sent] = connected.submissions
    assert sent["options"]["env"] == {"LR": "0.2", "NOTE": "a b", "EMPTY": ""}
    assert sent["variables"] == {"TOKEN": "S3CRET=x", "PIN": "S3CRET"}
    assert sent["inherits"] is None
    assert "S3CRET" not in result.output


def test_values_are_shown_but_of_secrets_only_the_names(connected: StubHead, pit_command: Pit) -> None:
    connected.add_job(12, env={"LR": "0.2", "NOTE": "a\x1bb"}, variables=["PIN", "TOKEN"])
    shown = pit_command("show", "12").stdout
    assert "Variables:  LR=0.2 NOTE='a\\x1bb'\n" in shown
    assert "Secrets:    PIN, TOKEN\n" in shown
    record = json.loads(pit_command("show", "12", "--json").stdout)
    assert (record["options"]["env"]["LR"], record["variables"]) == ("0.2", ["PIN", "TOKEN"])
    assert pit_command("get", "12", "env.LR").stdout == "0.2\n"


@pytest.mark.parametrize("name", ["HF_TOKEN", "wandb_api_key", "SECRET", "DbPassword"])
@pytest.mark.parametrize("command", [["run", "x"], ["rerun", "12"]])
def test_a_name_that_looks_like_a_secret_is_refused_with_a_pointer(
    connected: StubHead, checkout: Path, pit_command: Pit, command: list[str], name: str
) -> None:
    connected.add_job(12)
    result = pit_command(*command, "-e", f"{name}=S3CRET")
    assert (result.exit_code, connected.calls) == (1, [])
    assert result.stderr == (
        f"pit: {name} looks like a secret, and everybody who may see the job sees the value of -e\n"
        f"`--secret {name}` takes the value from your environment and shows it to nobody\n"
    )


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        (
            "NOWHERE",
            "NOWHERE is not set in your environment",
            "`export NOWHERE=…` first, or write -e NOWHERE=VALUE",
        ),
        ("RANK=S3CRET", "RANK is set by pit itself", "choose another name"),
        (
            "9a=S3CRET",
            "'9a' is not a valid variable name",
            "a name has up to 100 letters, digits and _, and does not begin",
        ),
        ("=S3CRET", "'' is not a valid variable name", ""),
        ("UID=S3CRET", "UID is reserved by the shell", ""),
        (
            "T=S3CRET" + "x" * 70_000,
            "the variables of a job can have at most 65,536 bytes in total, not 70,007",
            "put large",
        ),
        ("T=S3CRET\udcff", "the value of T is not valid text: it contains NUL or a lone surrogate", ""),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_sent_and_without_values(
    connected: StubHead, checkout: Path, pit_command: Pit, word: str, message: str, hint: str
) -> None:
    result = pit_command("run", "x", "-e", word)
    assert (result.exit_code, connected.calls) == (1, [])
    assert result.stderr.startswith(f"pit: {message}\n{hint}")
    assert "S3CRET" not in result.output


def test_a_secret_that_is_not_in_the_environment_is_told(
    connected: StubHead, checkout: Path, pit_command: Pit
) -> None:
    result = pit_command("run", "x", "--secret", "NOWHERE")
    assert result.stderr.endswith("`export NOWHERE=…` first, or write --secret NOWHERE=VALUE\n")


def test_a_name_is_either_plain_or_secret(connected: StubHead, checkout: Path, pit_command: Pit) -> None:
    result = pit_command("run", "x", "-e", "LR=S3CRET", "--secret", "LR=S3CRET")
    assert result.stderr == "pit: LR is given both as a plain variable and as a secret\ngive it once\n"


@pytest.mark.parametrize("option", ["-e", "--secret"])
def test_both_kinds_together_have_one_limit(
    connected: StubHead, checkout: Path, pit_command: Pit, option: str
) -> None:
    result = pit_command("run", "x", "-e", "A=" + "x" * 40_000, option, "B=" + "x" * 40_000)
    assert "at most 65,536 bytes in total, not 80,002" in result.stderr


@pytest.mark.parametrize("here", [[], ["--here"]])
def test_a_rerun_keeps_them_and_adds(
    connected: StubHead, checkout: Path, pit_command: Pit, here: list[str]
) -> None:
    connected.add_job(12, env={"LR": "0.1", "SEED": "7", "PIN": "1"}, variables=["TOKEN"])
    result = pit_command("rerun", "12", "-e", "LR=0.2", "--secret", "PIN=2", *here)
    assert result.exit_code == 0, result.output
    [sent] = connected.submissions
    assert sent["options"]["env"] == {"LR": "0.2", "SEED": "7"}
    assert (sent["inherits"], sent["variables"]) == (12, {"PIN": "2"})
    assert (sent["reruns"] is None) == bool(here)


class TestDiff:
    @pytest.fixture
    def two(self, connected: StubHead) -> StubHead:
        compared = {"removed": ["OLD"], "added": ["NEW"], "changed": ["PIN"], "unknown": []}
        connected.add_job(12, env={"LR": "0.1", "SAME": "1", "GONE": "1"})
        ran = [a_process(image=f"debian@sha256:{name}") for name in ("aa", "bb", "aa")]
        connected.add_job(
            13,
            request="[cpu]",
            image="debian:12",
            command="a\nb",
            processes=ran,
            env={"LR": "0.2", "SAME": "1"},
        )
        connected.bodies |= {"/variables": json.dumps(compared).encode(), "/diff": b"diff --git a/x b/x\n"}
        return connected

    def test_each_is_a_line_before_the_code(self, two: StubHead, pit_command: Pit) -> None:
        assert pit_command("diff", "12", "13").stdout.splitlines() == [
            "# request: [] -> [cpu]",
            "# command: .compute -> a\\x0ab",
            "# image: - -> debian:12",
            "# image digest: - -> debian@sha256:aa, debian@sha256:bb",
            "# env.GONE: 1 -> -",
            "# env.LR: 0.1 -> 0.2",
            "# secret OLD: set -> -",
            "# secret NEW: - -> set",
            "# secret PIN: another value",
            "diff --git a/x b/x",
        ]

    def test_json_has_them_by_how_they_differ(self, two: StubHead, pit_command: Pit) -> None:
        document = json.loads(pit_command("diff", "12", "13", "--json").stdout)
        assert document["variables"]["changed"] == ["PIN"]
        assert document["settings"]["env.LR"] == ["0.1", "0.2"]
        assert document["settings"]["request"] == ["[]", "[cpu]"]
        assert document["settings"]["image"] == [None, "debian:12"]
        assert document["diff"] == "diff --git a/x b/x\n"

    def test_that_nothing_differs_is_told(self, two: StubHead, pit_command: Pit) -> None:
        two.bodies |= {"/diff": b"", "/variables": json.dumps({name: [] for name in WORDS}).encode()}
        same = pit_command("diff", "12", "12")
        assert (same.exit_code, same.stdout, same.stderr) == (0, "", "pit: jobs 12 and 12 do not differ\n")
        assert pit_command("diff", "12").stderr == "pit: all of job 12 was committed\n"

    def test_one_job_alone_is_its_code(self, two: StubHead, pit_command: Pit) -> None:
        assert pit_command("diff", "12").stdout == "diff --git a/x b/x\n"
        assert two.called("/jobs/12/variables") == []


def test_names_of_ones_own_environment_are_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OWN_ONE", "OWN_9", "OWN_GROUP_DIR", "OWN_KEY"):
        monkeypatch.setenv(name, "x")
    completion = ShellComplete(cli, {}, "pit", "_PIT_COMPLETE")
    plain, secret = (
        completion.get_completions(["run", "x", option], "OWN_") for option in ("-e", "--secret")
    )
    assert [item.value for item in plain] == ["OWN_9", "OWN_ONE"]
    assert [item.value for item in secret] == ["OWN_9", "OWN_KEY", "OWN_ONE"]
