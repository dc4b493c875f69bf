"""What a project's `.pitconnect.txt` can and cannot do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pit.connect.head_address import Address
from pit.connect.token_store import Account, keep_account
from tests.client.conftest import Pit
from tests.support.certificates import Certificate, a_certificate
from tests.support.stubs.head import TOKEN, Server, StubHead

TYPED = "anna\nsecret\n"


@pytest.fixture
def stranger(tmp_path: Path) -> Iterator[tuple[StubHead, Certificate]]:
    """A head of somebody else's."""
    certificate = a_certificate()
    with Server(certificate.serving(tmp_path)) as stub:
        stub.people.passwords["anna"] = "secret"
        yield stub, certificate


def write(checkout: Path, url: str, *certificates: Certificate) -> Path:
    path = checkout / ".pitconnect.txt"
    path.write_text(Address(url, tuple(certificate.pem for certificate in certificates)).text)
    return path


@pytest.mark.threat("S56")
def test_a_foreign_projects_head_gets_nothing_and_pit_trust_is_named(
    known: StubHead, checkout: Path, pit_command: Pit, terminal: None
) -> None:
    with Server() as foreign:
        path = write(checkout, foreign.url)
        result = pit_command("status", input=TYPED)
        assert foreign.calls == known.calls == []
    assert result.exit_code == 1
    assert result.stderr == (
        f"pit: {path} names a head that is not trusted yet: {foreign.url}\n"
        "if you trust it, `pit trust` logs in there; nothing was sent to it\n"
    )


def test_a_foreign_pin_is_named(
    known: StubHead, checkout: Path, pit_command: Pit, stranger: tuple[StubHead, Certificate]
) -> None:
    head, certificate = stranger
    write(checkout, head.url, certificate)
    result = pit_command("status")
    assert head.calls == []
    assert f"{head.url} with {certificate.pin}" in result.stderr


def test_the_known_url_with_another_certificate_is_not_trusted(
    known: StubHead, checkout: Path, pit_command: Pit
) -> None:
    write(checkout, known.url, a_certificate())
    assert "is not trusted yet" in pit_command("status").stderr
    assert known.calls == []


def test_the_known_url_without_its_certificate_is_not_trusted(
    known: StubHead, checkout: Path, pit_command: Pit
) -> None:
    write(checkout, known.url)
    assert "is not trusted yet" in pit_command("status").stderr


def test_the_known_certificate_at_a_server_that_has_not_its_key_gets_no_token(
    known: StubHead,
    certificate: Certificate,
    checkout: Path,
    pit_command: Pit,
    stranger: tuple[StubHead, Certificate],
) -> None:
    head, _ = stranger
    write(checkout, head.url, certificate)
    result = pit_command("status")
    assert head.calls == []
    assert result.exit_code == 1
    assert "does not prove to be the one" in result.stderr
    assert TOKEN not in result.output


def test_a_strangers_certificate_beside_the_known_one_is_not_trusted(
    known: StubHead,
    certificate: Certificate,
    checkout: Path,
    pit_command: Pit,
    stranger: tuple[StubHead, Certificate],
) -> None:
    head, theirs = stranger
    for pair in ((certificate, theirs), (theirs, certificate)):
        write(checkout, head.url, *pair)
        assert "is not trusted yet" in pit_command("status").stderr
    # Also where the user has an account with the stranger: one head's token is nothing for another.
    keep_account([theirs.pin], Account("anna", "pit_theirs_1"))
    assert "is not trusted yet" in pit_command("status").stderr
    assert head.calls == []


def test_the_homes_head_is_trusted_in_a_project_too(
    known: StubHead, certificate: Certificate, checkout: Path, pit_command: Pit
) -> None:
    write(checkout, known.url, certificate)
    assert pit_command("status").exit_code == 0
    assert known.calls[-1].authorization == f"Bearer {TOKEN}"


class TestTrust:
    def test_it_shows_the_head_asks_and_logs_in(
        self,
        known: StubHead,
        checkout: Path,
        pit_command: Pit,
        stranger: tuple[StubHead, Certificate],
        terminal: None,
        home: Path,
    ) -> None:
        head, certificate = stranger
        path = write(checkout, head.url, certificate)
        result = pit_command("trust", input=f"yes\n{TYPED}")
        assert (result.exit_code, result.stdout) == (0, f"{head.url} is trusted\n")
        assert f"{path} names the head {head.url} with {certificate.pin}\n" in result.stderr
        assert f"{certificate.pin} anna {TOKEN}\n" in (home / ".pituser.txt").read_text()
        assert pit_command("status").exit_code == 0
        assert pit_command("trust").exit_code == 0

    def test_no_is_no(self, head: StubHead, checkout: Path, pit_command: Pit, terminal: None) -> None:
        write(checkout, head.url)
        result = pit_command("trust", input="no\n")
        assert result.exit_code == 1
        assert result.stderr.endswith("pit: the head is not trusted; nothing was sent to it\n")
        assert head.calls == []

    def test_without_a_terminal_it_takes_yes_and_a_token(
        self, head: StubHead, checkout: Path, pit_command: Pit, home: Path
    ) -> None:
        write(checkout, head.url)
        assert "`pit trust --yes` does not ask" in pit_command("trust").stderr
        assert "`pit login --with-token`" in pit_command("trust", "--yes").stderr
        assert pit_command("trust", "--yes", "--with-token", input=f"{TOKEN}\n").exit_code == 0
        assert (home / ".pituser.txt").read_text() == f"{head.url} anna {TOKEN}\n"

    def test_outside_of_such_a_project_there_is_nothing_to_trust(
        self, known: StubHead, pit_command: Pit
    ) -> None:
        result = pit_command("trust")
        assert result.stderr.startswith("pit: there is no .pitconnect.txt in this project\n")
