"""`pit profile`: several heads, each under a name."""

import json
from pathlib import Path

import pytest

from tests.client.conftest import Pit
from tests.support.stubs.head import Server, StubHead


def test_heads_under_names(head: StubHead, home: Path, pit_command: Pit) -> None:
    with Server() as other:
        assert pit_command("profile", "add", "lab", head.url).exit_code == 0
        assert pit_command("profile", "add", "other", other.url).exit_code == 0
    assert not (home / ".pitconnect.txt").exists()
    assert pit_command("profile", "use", "lab").stdout == f"profile lab is in use: {head.url}\n"
    assert (home / ".pitconnect.txt").read_text() == f"{head.url}\n"
    assert [line.split() for line in pit_command("profile", "show").stdout.splitlines()] == [
        ["PROFILE", "URL", "PIN"],
        ["*", "lab", head.url, "-"],
        ["other", other.url, "-"],
    ]
    assert pit_command("profile", "remove", "lab").exit_code == 0
    shown = json.loads(pit_command("profile", "show", "--json").stdout)["profiles"]
    assert shown == [{"name": "other", "url": other.url, "pins": [], "in_use": False}]


def test_the_head_in_use_is_kept_under_a_name(
    connected: StubHead, home: Path, pit_command: Pit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    assert pit_command("profile", "add", "lab").exit_code == 0
    assert (home / "config/pit/profiles/lab.txt").read_text() == f"{connected.url}\n"
    result = pit_command("profile", "add", "lab")
    assert (result.exit_code, "there is a profile lab already" in result.stderr) == (1, True)


def test_the_environment_chooses_one_even_in_a_project(
    connected: StubHead,
    checkout: Path,
    pit_command: Pit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pit_command("profile", "add", "lab")
    (checkout / ".pitconnect.txt").write_text("https://foreign.example.org\n")
    assert pit_command("status").exit_code == 1
    monkeypatch.setenv("PIT_PROFILE", "lab")
    assert pit_command("status").exit_code == 0
    assert pit_command("profile", "show").stdout.splitlines()[1].startswith("*  lab")
    monkeypatch.setenv("PIT_PROFILE", "lap")
    assert pit_command("status").stderr == "pit: there is no profile 'lap'\nthe profiles are lab\n"


@pytest.mark.parametrize("name", ["../x", "", ".hidden", "a/b", "x" * 65])
def test_a_profile_name_cannot_be_a_path(connected: StubHead, pit_command: Pit, name: str) -> None:
    for verb in ("add", "use", "remove"):
        result = pit_command("profile", verb, name)
        assert (result.exit_code, "is not a name for a profile" in result.stderr) == (1, True)


def test_nothing_to_store_is_reported(pit_command: Pit) -> None:
    assert "name a URL or FILE" in pit_command("profile", "add", "lab").stderr
