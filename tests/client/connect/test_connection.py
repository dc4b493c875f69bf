"""Which head is used, and which token it gets."""

import os
import stat
from pathlib import Path

import pytest

from pit.connect.connection import find_connection
from pit.connect.head_address import Address, parse_address, parse_url
from pit.connect.token_store import Account, drop_account, get_account, keep_account
from pit_protocol import PROTOCOL
from pit_protocol.problem import Problem
from tests.client.conftest import Pit
from tests.support.certificates import Certificate, a_certificate
from tests.support.git_projects import git
from tests.support.stubs.head import TOKEN, Handler, Server, StubHead, redirect


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
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(Problem):
        parse_url(text)


def test_a_projects_file_comes_before_the_homes(home: Path, tmp_path: Path) -> None:
    top = tmp_path / "project"
    (top / "deep/down").mkdir(parents=True)
    git(top, "init", "-q")
    (home / ".pitconnect.txt").write_text("https://home.example.org\n")
    keep_account(["https://home.example.org"], Account("anna", "pit_h_1"))
    keep_account(["https://project.example.org"], Account("anna", "pit_p_1"))
    assert find_connection(top / "deep").url == "https://home.example.org"
    (top / ".pitconnect.txt").write_text("https://project.example.org\n")
    found = find_connection(top / "deep/down")
    assert (found.url, found.source, found.token) == (
        "https://project.example.org",
        top / ".pitconnect.txt",
        "pit_p_1",
    )


def test_the_homes_file_is_not_a_projects_file_even_through_a_link(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(tmp_path / "link"))
    (home / ".pitconnect.txt").write_text("https://home.example.org\n")
    (home / "deep").mkdir()
    assert find_connection(home / "deep").source == tmp_path / "link/.pitconnect.txt"


def test_the_way_up_ends_at_the_git_top(home: Path, tmp_path: Path) -> None:
    inner = tmp_path / "outer/inner"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    (tmp_path / "outer/.pitconnect.txt").write_text("https://outer.example.org\n")
    with pytest.raises(Problem, match="no head is known"):
        find_connection(inner)


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
    path = home / ".pituser.txt"
    path.touch(0o644)
    keep_account(["https://a"], Account("anna", "pit_a_1"))
    keep_account(["https://b"], Account("bob", "pit_b_1"))
    keep_account(["https://a"], Account("anna", "pit_a_2"))
    assert path.read_text() == "https://b bob pit_b_1\nhttps://a anna pit_a_2\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in home.iterdir() if "part" in file.name] == []


def test_an_account_under_several_keys_is_one(home: Path) -> None:
    keep_account(["sha256:a", "sha256:b"], Account("anna", "pit_a_1"))
    keep_account(["https://c"], Account("carl", "pit_c_1"))
    assert get_account(["sha256:b", "sha256:a"]) == Account("anna", "pit_a_1")
    drop_account(Account("anna", "pit_a_1"))
    assert (home / ".pituser.txt").read_text() == "https://c carl pit_c_1\n"


@pytest.mark.parametrize("keys", [["https://a", "https://x"], ["https://a", "https://b"], []])
def test_an_account_under_some_of_the_keys_is_none(keys: list[str]) -> None:
    keep_account(["https://a"], Account("anna", "pit_a_1"))
    keep_account(["https://b"], Account("bob", "pit_b_1"))
    assert get_account(keys) is None


def test_a_token_is_not_in_a_repr(home: Path) -> None:
    (home / ".pitconnect.txt").write_text("https://a\n")
    keep_account(["https://a"], Account("anna", "pit_a_1"))
    assert "pit_a_1" not in repr(get_account(["https://a"])) + repr(find_connection(home))


def test_a_connect_file_is_read_as_it_is_written(certificate: Certificate) -> None:
    address = Address("https://pit.example.org", (certificate.pem, a_certificate().pem))
    assert parse_address(address.text) == address
    assert parse_address(address.text.replace("\n", "\r\n")).pins == address.pins
    assert address.keys == (certificate.pin, address.pins[1])


@pytest.mark.parametrize(
    "rest",
    [
        "more lines",
        "-----BEGIN CERTIFICATE-----\nAAAA",
        "-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
        "\n".join(a_certificate().pem for _ in range(3)),
    ],
    ids=["no certificate", "no end", "no letters", "no content", "three"],
)
def test_a_broken_certificate_is_not_taken_for_none(rest: str) -> None:
    with pytest.raises(Problem):
        parse_address(f"https://pit.example.org\n{rest}\n")


def test_a_certificate_is_nothing_for_plain_http(certificate: Certificate) -> None:
    with pytest.raises(Problem, match="a certificate needs https"):
        parse_address(f"http://127.0.0.1:80\n{certificate.pem}\n")


def test_a_broken_connection_file_is_named(home: Path, pit_command: Pit) -> None:
    (home / ".pitconnect.txt").write_text("pit.example.org\n")
    result = pit_command("status")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"pit: {home}/.pitconnect.txt: 'pit.example.org' is no URL")


def test_a_token_that_has_expired_is_called_so(connected: StubHead, home: Path, pit_command: Pit) -> None:
    def refuse(handler: Handler, _answer: object) -> None:
        handler.send((401, {"code": "expired_token", "message": "the token has expired", "status": 401}))

    connected.misbehave("GET", "/status", refuse)
    result = pit_command("status")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"pit: the token in {home / '.pituser.txt'} has expired\n")


def test_an_older_head_is_named_as_the_side_to_upgrade(connected: StubHead, pit_command: Pit) -> None:
    connected.protocol = ""
    result = pit_command("show", "node:n9")
    assert result.exit_code == 1
    said = f"pit: the head speaks protocol 1 and the client protocol {PROTOCOL}: upgrade the head"
    assert result.stderr.splitlines()[0] == said
