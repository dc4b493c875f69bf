"""`pit connect`: meeting a head, by URL and by file."""

import json
from pathlib import Path

import pytest

from pit.connect.head_address import Address
from pit.connect.token_store import Account, keep_account
from tests.client.conftest import Pit
from tests.support.certificates import Certificate, a_certificate
from tests.support.stubs.head import TOKEN, Server, StubHead

TYPED = "anna\nsecret\n"


def test_it_stores_the_address_and_logs_in(
    head: StubHead, home: Path, pit_command: Pit, terminal: None
) -> None:
    head.people.passwords["anna"] = "secret"
    result = pit_command("connect", f"{head.url}/", input=TYPED)
    assert (result.exit_code, result.stdout) == (0, f"connected to {head.url} as anna\n")
    assert (home / ".pitconnect.txt").read_text() == f"{head.url}\n"
    assert (home / ".pituser.txt").read_text() == f"{head.url} anna {TOKEN}\n"
    assert pit_command("status").exit_code == 0


def test_without_a_terminal_login_is_left_for_later(head: StubHead, home: Path, pit_command: Pit) -> None:
    result = pit_command("connect", head.url)
    assert (result.exit_code, result.stdout) == (0, f"connected to {head.url}\n")
    assert result.stderr == "pit: you are not logged in there yet\n`pit login` logs in\n"
    assert not (home / ".pituser.txt").exists()


def test_a_known_token_is_not_asked_for_again(connected: StubHead, pit_command: Pit, terminal: None) -> None:
    result = pit_command("connect", connected.url, "--json", input="")
    assert json.loads(result.stdout) == {"url": connected.url, "pins": [], "user": "anna"}


def test_a_known_token_that_is_refused_is_asked_for(
    connected: StubHead, home: Path, pit_command: Pit, terminal: None
) -> None:
    connected.token = connected.people.token = "pit_new_1"
    connected.people.passwords["anna"] = "secret"
    assert pit_command("connect", connected.url, input=TYPED).exit_code == 0
    assert (home / ".pituser.txt").read_text() == f"{connected.url} anna pit_new_1\n"


def test_an_address_without_a_head_is_not_stored(home: Path, pit_command: Pit) -> None:
    with Server() as gone:
        url = gone.url
    result = pit_command("connect", url)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"pit: no answer from the head at {url}: connection refused")
    assert not (home / ".pitconnect.txt").exists()


def test_another_server_is_not_taken_for_a_head(head: StubHead, home: Path, pit_command: Pit) -> None:
    head.misbehave("GET", "/", lambda handler, _: handler.send((200, {"name": "other"})))
    assert "does not answer as a pit head does" in pit_command("connect", head.url).stderr
    assert not (home / ".pitconnect.txt").exists()


def test_plain_http_is_for_this_machine(pit_command: Pit) -> None:
    result = pit_command("connect", "http://pit.example.org")
    assert result.exit_code == 1
    assert "write https://pit.example.org" in result.stderr


def test_a_broken_file_in_the_home_is_replaced(head: StubHead, home: Path, pit_command: Pit) -> None:
    (home / ".pitconnect.txt").write_text("nonsense")
    assert pit_command("connect", head.url).exit_code == 0
    assert (home / ".pitconnect.txt").read_text() == f"{head.url}\n"


class TestFingerprint:
    def test_is_shown_and_asked_for(
        self,
        secure_head: StubHead,
        certificate: Certificate,
        home: Path,
        pit_command: Pit,
        terminal: None,
    ) -> None:
        secure_head.people.passwords["anna"] = "secret"
        result = pit_command("connect", secure_head.url, input=f"yes\n{TYPED}")
        assert result.exit_code == 0
        assert f"its fingerprint is\n  {certificate.pin}\n" in result.stderr
        assert (home / ".pitconnect.txt").read_text() == f"{secure_head.url}\n{certificate.pem}\n"
        assert (home / ".pituser.txt").read_text() == f"{certificate.pin} anna {TOKEN}\n"
        assert pit_command("show", "connect").stdout == (home / ".pitconnect.txt").read_text()

    def test_that_is_denied_stores_nothing(
        self, secure_head: StubHead, home: Path, pit_command: Pit, terminal: None
    ) -> None:
        assert pit_command("connect", secure_head.url, input="no\n").exit_code == 1
        assert not (home / ".pitconnect.txt").exists()

    def test_takes_a_pin_where_nobody_can_be_asked(
        self, secure_head: StubHead, certificate: Certificate, home: Path, pit_command: Pit
    ) -> None:
        result = pit_command("connect", secure_head.url)
        assert result.exit_code == 1
        assert f"`pit connect {secure_head.url} --pin {certificate.pin}`" in result.stderr
        assert not (home / ".pitconnect.txt").exists()
        assert pit_command("connect", secure_head.url, "--pin", certificate.pin).exit_code == 0
        assert certificate.pem in (home / ".pitconnect.txt").read_text()

    def test_that_is_another_than_the_pin_is_refused(
        self, secure_head: StubHead, certificate: Certificate, home: Path, pit_command: Pit, terminal: None
    ) -> None:
        other = a_certificate().pin
        result = pit_command("connect", secure_head.url, "--pin", other, input="yes\n" * 5)
        assert result.exit_code == 1
        assert f"shows {certificate.pin}, not {other}" in result.stderr
        assert not (home / ".pitconnect.txt").exists()

    def test_that_has_changed_is_not_asked_for(
        self, secure_head: StubHead, home: Path, pit_command: Pit, terminal: None
    ) -> None:
        old = Address(secure_head.url, (a_certificate().pem,))
        (home / ".pitconnect.txt").write_text(old.text)
        result = pit_command("connect", secure_head.url, input="yes\n" * 5)
        assert result.exit_code == 1
        assert f"does not prove to have {old.pins[0]}" in result.stderr
        assert (home / ".pitconnect.txt").read_text() == old.text

    def test_of_an_expired_certificate_is_not_asked_for(
        self, home: Path, tmp_path: Path, pit_command: Pit, terminal: None
    ) -> None:
        with Server(a_certificate(days=-1).serving(tmp_path)) as stub:
            result = pit_command("connect", stub.url, input="yes\n" * 5)
        assert (result.exit_code, stub.calls) == (1, [])
        assert "certificate has expired" in result.stderr

    @pytest.mark.parametrize("pin", ["sha256:12", "12" * 32, "sha256:" + "G" * 64])
    def test_is_written_in_one_way(self, secure_head: StubHead, pit_command: Pit, pin: str) -> None:
        result = pit_command("connect", secure_head.url, "--pin", pin)
        assert (result.exit_code, "is not a pin" in result.stderr) == (1, True)


class TestFile:
    def test_is_taken_over(
        self, secure_head: StubHead, certificate: Certificate, home: Path, tmp_path: Path, pit_command: Pit
    ) -> None:
        file = tmp_path / "handed-out.txt"
        file.write_text(Address(secure_head.url, (certificate.pem,)).text)
        keep_account([certificate.pin], Account("anna", TOKEN))
        result = pit_command("connect", str(file))
        assert (result.exit_code, result.stdout) == (0, f"connected to {secure_head.url} as anna\n")
        assert (home / ".pitconnect.txt").read_text() == file.read_text()

    def test_of_another_head_than_answers_is_refused(
        self, secure_head: StubHead, home: Path, tmp_path: Path, pit_command: Pit
    ) -> None:
        file = tmp_path / "handed-out.txt"
        file.write_text(Address(secure_head.url, (a_certificate().pem,)).text)
        assert pit_command("connect", str(file)).exit_code == 1
        assert not (home / ".pitconnect.txt").exists()

    def test_that_is_not_there_is_named(self, pit_command: Pit) -> None:
        result = pit_command("connect", "pit.example.org")
        sentence = "pit: 'pit.example.org' is neither a URL nor a file\nwrite https://pit.example.org\n"
        assert result.stderr == sentence
