"""A server that cannot prove to be the head gets nothing, and there is no question to go on anyway."""

import ssl
import warnings
from pathlib import Path

import pytest

from pit.connect.head_address import Address
from pit.connect.token_store import Account, keep_account
from pit_protocol.atomic_file import write_atomic
from tests.client.conftest import Pit
from tests.support.certificates import Certificate, a_certificate
from tests.support.stubs.head import TOKEN, Server, StubHead


@pytest.fixture(scope="module")
def authority() -> Certificate:
    return a_certificate("a CA", is_ca=True)


@pytest.fixture
def system_trusts(authority: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Certificate:
    """A CA that is one of the system's."""
    path = tmp_path / "system-cas.pem"
    path.write_text(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return authority


def know(home: Path, url: str, *certificates: Certificate) -> None:
    address = Address(url, tuple(certificate.pem for certificate in certificates))
    (home / ".pitconnect.txt").write_text(address.text)
    keep_account(address.keys, Account("anna", TOKEN))


def refused(stub: StubHead, pit_command: Pit) -> str:
    """Why the head was refused; typing yes to all questions does not help."""
    result = pit_command("status", input="yes\n" * 5)
    assert (result.exit_code, result.stdout, stub.calls) == (1, "", [])
    assert TOKEN not in result.output
    assert "?" not in result.stderr
    return result.stderr.splitlines()[0]


def test_a_head_is_known_by_its_certificate(
    secure_head: StubHead, certificate: Certificate, home: Path, pit_command: Pit
) -> None:
    know(home, secure_head.url, certificate)
    result = pit_command("status")
    assert (result.exit_code, result.stderr) == (0, "")
    assert secure_head.calls[-1].authorization == f"Bearer {TOKEN}"


@pytest.mark.threat("F43")
def test_a_new_certificate_with_the_known_key_is_accepted(
    certificate: Certificate, home: Path, tmp_path: Path, pit_command: Pit
) -> None:
    renewed = a_certificate("pit.example.org", key=certificate.key)
    with Server(renewed.serving(tmp_path)) as stub:
        know(home, stub.url, certificate)
        assert pit_command("status").exit_code == 0


def test_a_token_that_pit_0_1_stored_is_found(
    secure_head: StubHead, certificate: Certificate, home: Path, pit_command: Pit
) -> None:
    address = Address(secure_head.url, (certificate.pem,))
    (home / ".pitconnect.txt").write_text(address.text)
    keep_account(address.old_keys, Account("anna", TOKEN))
    assert pit_command("status").exit_code == 0


@pytest.mark.threat("F43")
def test_of_two_known_certificates_either_will_do(
    secure_head: StubHead, certificate: Certificate, home: Path, pit_command: Pit
) -> None:
    know(home, secure_head.url, a_certificate(), certificate)
    assert pit_command("status").exit_code == 0


def test_a_pinned_certificate_is_enough_for_any_issuer(
    authority: Certificate, home: Path, tmp_path: Path, pit_command: Pit
) -> None:
    certificate = a_certificate("other.example.org", signed_by=authority)
    with Server(certificate.serving(tmp_path)) as stub:
        know(home, stub.url, certificate)
        assert pit_command("status").exit_code == 0


def test_no_proxy_and_no_ca_of_the_environment_comes_between(
    secure_head: StubHead,
    certificate: Certificate,
    home: Path,
    pit_command: Pit,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nowhere")
    know(home, secure_head.url, certificate)
    assert pit_command("status").exit_code == 0


@pytest.mark.threat("S57")
def test_another_certificate(secure_head: StubHead, home: Path, pit_command: Pit, terminal: None) -> None:
    know(home, secure_head.url, a_certificate())
    assert "does not prove to be the one" in refused(secure_head, pit_command)


def test_another_certificate_that_a_system_ca_signed(
    system_trusts: Certificate, certificate: Certificate, home: Path, tmp_path: Path, pit_command: Pit
) -> None:
    with Server(a_certificate(signed_by=system_trusts).serving(tmp_path)) as stub:
        know(home, stub.url, certificate)
        assert "does not prove to be the one" in refused(stub, pit_command)


def test_a_certificate_that_the_known_one_has_signed(
    authority: Certificate, home: Path, tmp_path: Path, pit_command: Pit, terminal: None
) -> None:
    with Server(a_certificate(signed_by=authority).serving(tmp_path)) as stub:
        know(home, stub.url, authority)
        assert refused(stub, pit_command).endswith("it is not the certificate that is known")


@pytest.mark.threat("S57", "F43")
def test_an_expired_certificate(home: Path, tmp_path: Path, pit_command: Pit, terminal: None) -> None:
    expired = a_certificate(days=-1)
    with Server(expired.serving(tmp_path)) as stub:
        know(home, stub.url, expired)
        assert refused(stub, pit_command).endswith("certificate has expired")


class TestSystemsCas:
    def test_vouch_for_the_name(
        self, system_trusts: Certificate, home: Path, tmp_path: Path, pit_command: Pit
    ) -> None:
        with Server(a_certificate(signed_by=system_trusts).serving(tmp_path)) as stub:
            know(home, stub.url)
            assert pit_command("status").exit_code == 0

    @pytest.mark.parametrize(
        ("name", "days", "why"),
        [
            ("pit.example.org", 1, "ip address mismatch, certificate is not valid for '127.0.0.1'"),
            ("127.0.0.1", -1, "certificate has expired"),
        ],
    )
    def test_not_for_another_name_nor_for_ever(
        self,
        system_trusts: Certificate,
        home: Path,
        tmp_path: Path,
        pit_command: Pit,
        terminal: None,
        name: str,
        days: int,
        why: str,
    ) -> None:
        certificate = a_certificate(name, days=days, signed_by=system_trusts)
        with Server(certificate.serving(tmp_path)) as stub:
            know(home, stub.url)
            assert why in refused(stub, pit_command).lower()
            result = pit_command("connect", stub.url, input="yes\n" * 5)
            assert (result.exit_code, stub.calls) == (1, [])

    def test_a_stranger_is_refused(
        self, secure_head: StubHead, home: Path, pit_command: Pit, terminal: None
    ) -> None:
        know(home, secure_head.url)
        assert "self-signed certificate" in refused(secure_head, pit_command)


def test_plain_http_beyond_this_machine(home: Path, pit_command: Pit, terminal: None) -> None:
    (home / ".pitconnect.txt").write_text("http://pit.example.org\n")
    write_atomic(home / ".pituser.txt", f"http://pit.example.org anna {TOKEN}\n")
    result = pit_command("status")
    assert result.exit_code == 1
    assert "would show your token to everyone on the way" in result.stderr


@pytest.mark.threat("S57")
def test_tls_1_1(
    certificate: Certificate, home: Path, tmp_path: Path, pit_command: Pit, terminal: None
) -> None:
    context = certificate.serving(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with Server(context) as stub:
        know(home, stub.url, certificate)
        assert "protocol" in refused(stub, pit_command)
        assert pit_command("connect", stub.url, "--pin", certificate.pin).exit_code == 1
