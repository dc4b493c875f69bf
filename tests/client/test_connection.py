"""Which head is used, and which token it gets."""

import os
import stat
from pathlib import Path

import pytest

from pit.connection import Account, find_connection, get_account, keep_account, parse_url
from pit_protocol.problem import Problem
from tests.client.conftest import Pit
from tests.client.projects import git
from tests.client.stub_head import TOKEN, Server, StubHead, redirect


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://Pit.Example.org/", "https://pit.example.org"),
        (" https://host:8443/pit/ \n", "https://host:8443/pit"),
        ("http://127.0.0.1:80", "http://127.0.0.1:80"),
        ("http://localhost", "http://localhost"),
        ("http://[::1]:9", "http://[::1]:9"),
    ],
)
def test_a_url_has_one_form(text: str, url: str) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pit.example.org",
        "ftp://host",
        "https://",
        "https://u:p@host",
        "https://host?token=1",
        "https://host:99999",
        "https://ho st",
        "http://127.0.0.1\\@evil.org",
        "http://127.0.0.1%2eevil.org",
        "http://pit.example.org",
        "http://127.0.0.1.evil.org",
        "http://10.0.0.1",
    ],
)
def test_anything_else_is_no_head(text: str) -> None:
    with pytest.raises(Problem):
        parse_url(text)


def test_a_projects_file_comes_before_the_homes(home: Path, tmp_path: Path) -> None:
    top = tmp_path / "project"
    (top / "deep/down").mkdir(parents=True)
    git(top, "init", "-q")
    (home / ".pitconnect.txt").write_text("https://home.example.org\n")
    keep_account(Account("https://home.example.org", "anna", "pit_h_1"))
    keep_account(Account("https://project.example.org", "anna", "pit_p_1"))
    assert find_connection(top / "deep").url == "https://home.example.org"
    (top / ".pitconnect.txt").write_text("https://project.example.org\nmore lines\n")
    found = find_connection(top / "deep/down")
    assert (found.url, found.source, found.token) == (
        "https://project.example.org",
        top / ".pitconnect.txt",
        "pit_p_1",
    )


def test_the_way_up_ends_at_the_git_top(home: Path, tmp_path: Path) -> None:
    inner = tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    (tmp_path / "outer/.pitconnect.txt").write_text("https://outer.example.org\n")
    with pytest.raises(Problem, match="no head is known"):
        find_connection(inner)


def test_a_foreign_projects_head_gets_nothing(connected: StubHead, checkout: Path, pit_command: Pit) -> None:
    with Server() as foreign:
        (checkout / ".pitconnect.txt").write_text(f"{foreign.url}\n")
        result = pit_command("status")
        assert foreign.calls == []
    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"pit: there is no token for {foreign.url}, which {checkout}/.pitconnect.txt"
    )
    assert f"pit connect {foreign.url}" in result.stderr


def test_a_redirect_is_not_followed(connected: StubHead, pit_command: Pit) -> None:
    with Server() as foreign:
        connected.misbehave("GET", "/status", redirect(f"{foreign.url}/api/v1/status"))
        result = pit_command("status")
        assert foreign.calls == []
    assert result.exit_code == 1
    assert "does not answer as a pit head does (HTTP 302)" in result.stderr


def test_no_password_of_netrc_and_no_proxy_is_used(
    connected: StubHead, home: Path, pit_command: Pit, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / ".netrc").write_text("machine 127.0.0.1 login anna password netrc-secret\n")
    (home / ".netrc").chmod(0o600)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert pit_command("status").exit_code == 0
    assert connected.calls[-1].authorization == f"Bearer {TOKEN}"


def test_tokens_are_kept_for_their_owner_alone(home: Path) -> None:
    os.umask(0o022)
    keep_account(Account("https://a", "anna", "pit_a_1"))
    keep_account(Account("https://b", "bob", "pit_b_1"))
    keep_account(Account("https://a", "anna", "pit_a_2"))
    path = home / ".pituser.txt"
    assert path.read_text() == "https://b bob pit_b_1\nhttps://a anna pit_a_2\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in home.iterdir() if "part" in file.name] == []


def test_a_token_is_not_in_a_repr() -> None:
    keep_account(Account("https://a", "anna", "pit_a_1"))
    assert "pit_a_1" not in repr(get_account("https://a"))


def test_a_broken_connection_file_is_named(home: Path, pit_command: Pit) -> None:
    (home / ".pitconnect.txt").write_text("pit.example.org\n")
    result = pit_command("status")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        f"pit: the first line of {home}/.pitconnect.txt: 'pit.example.org' is no URL"
    )


class TestConnect:
    def test_stores_address_and_token(self, head: StubHead, home: Path, pit_command: Pit) -> None:
        result = pit_command("connect", f"{head.url}/", input=f"{TOKEN}\n")
        assert (result.exit_code, result.stdout) == (0, f"connected to {head.url} as anna\n")
        assert (home / ".pitconnect.txt").read_text() == f"{head.url}\n"
        assert (home / ".pituser.txt").read_text() == f"{head.url} anna {TOKEN}\n"
        assert pit_command("status").exit_code == 0

    def test_a_known_token_is_not_asked_for_again(self, connected: StubHead, pit_command: Pit) -> None:
        assert pit_command("connect", connected.url, input="").exit_code == 0

    def test_a_known_token_that_is_refused_is_asked_for(
        self, connected: StubHead, home: Path, pit_command: Pit
    ) -> None:
        connected.token = "pit_new_1"
        result = pit_command("connect", connected.url, input="pit_new_1\n")
        assert result.exit_code == 0
        assert (home / ".pituser.txt").read_text() == f"{connected.url} anna pit_new_1\n"

    def test_a_wrong_token_is_not_stored(self, head: StubHead, home: Path, pit_command: Pit) -> None:
        result = pit_command("connect", head.url, input="pit_wrong_1\n")
        assert result.exit_code == 1
        assert "does not accept this token" in result.stderr
        assert "pit_wrong_1" not in result.output
        assert not (home / ".pituser.txt").exists()

    def test_an_address_without_a_head_is_not_stored(self, home: Path, pit_command: Pit) -> None:
        with Server() as gone:
            url = gone.url
        result = pit_command("connect", url)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"pit: no answer from the head at {url}: connection refused")
        assert not (home / ".pitconnect.txt").exists()

    def test_plain_http_is_for_this_machine(self, pit_command: Pit) -> None:
        result = pit_command("connect", "http://pit.example.org")
        assert result.exit_code == 1
        assert "write https://pit.example.org" in result.stderr
