"""The head's certificate is made once and kept; clients without TLS do no harm."""

import os
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509

from pit_protocol.problem import Problem
from pit_protocol.transport.pinning import fetch_certificate, list_certificates, pin_of, pinned_context
from pit_server import tls
from pit_server.connections.inbound import LINGER_S
from pit_server.settings import Settings
from tests.support.certificates import a_certificate

ASK = b"GET /api/v1/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
MAKE = """
import sys, pathlib
from pit_server import tls
from pit_server.settings import Settings
sys.stdin.readline()
print(tls.get_pin(Settings(home=pathlib.Path(sys.argv[1]), bind="0.0.0.0:7478")))
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", bind="0.0.0.0:7478")


def test_the_certificate_is_made_once_and_kept(settings: Settings):
    files = tls.find_files(settings)
    before = [file.read_bytes() for file in files]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o644, 0o600]
    assert sorted(path.name for path in settings.home.iterdir()) == ["certificate.pem", "key.pem"]
    assert tls.find_files(replace(settings, bind="0.0.0.0:80")) == files
    assert [file.read_bytes() for file in files] == before


def test_what_the_certificate_says(settings: Settings):
    files = tls.find_files(replace(settings, bind="192.0.2.7:7478"))
    made = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {socket.gethostname(), "localhost"} <= set(names.get_values_for_type(x509.DNSName))
    addresses = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    assert addresses == {"127.0.0.1", "192.0.2.7"}
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert 3648 <= (made.not_valid_after_utc - datetime.now(UTC)).days <= 3650


def test_a_url_that_is_set_later_gets_into_the_certificate_and_the_pin_stays(settings: Settings):
    files = tls.find_files(settings)
    before, key = files.certificate.read_text(), files.key.read_bytes()
    later = replace(settings, url="https://Pit.Example.org:7478", hosts="192.0.2.9,other.example.org:80")
    assert tls.get_pin(later) == pin_of(before)
    made = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "pit.example.org" in names.get_values_for_type(x509.DNSName)
    assert "192.0.2.9" in map(str, names.get_values_for_type(x509.IPAddress))
    assert files.key.read_bytes() == key
    after = files.certificate.read_text()
    assert after != before
    tls.find_files(later)
    assert files.certificate.read_text() == after  # once


@pytest.mark.threat("F43")
def test_a_certificate_that_expires_soon_is_renewed_with_its_key(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tls, "DAYS", 30)
    pin, before = tls.get_pin(settings), tls.find_files(settings).certificate.read_text()
    monkeypatch.setattr(tls, "DAYS", 3650)
    assert tls.get_pin(settings) == pin
    assert tls.find_files(settings).certificate.read_text() != before


def test_a_certificate_that_somebody_else_signed_is_left_alone(settings: Settings):
    files = tls.find_files(settings)
    foreign = a_certificate("127.0.0.1", signed_by=a_certificate("a CA", is_ca=True))
    files.certificate.write_text(foreign.pem)
    files.key.write_text(foreign.key_pem)
    tls.find_files(replace(settings, url="https://pit.example.org:7478"))
    assert files.certificate.read_text() == foreign.pem


def test_starts_at_once_make_one_certificate(settings: Settings):
    words = [sys.executable, "-c", MAKE, str(settings.home)]
    starts = [
        subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    said = [start.communicate("go\n")[0].strip() for start in starts]
    assert {start.returncode for start in starts} == {0}
    assert set(said) == {tls.get_pin(settings)}


def test_a_start_that_died_half_way_is_made_good(settings: Settings):
    settings.home.mkdir()
    (settings.home / "key.pem").write_text("a key without certificate")
    (settings.home / f"key.pem.{os.getpid()}.part").touch(mode=0o644)
    assert tls.find_files(settings).key.stat().st_mode & 0o777 == 0o600


def test_a_lost_key_is_reported_and_not_replaced(settings: Settings):
    files = tls.find_files(settings)
    files.key.unlink()
    with pytest.raises(Problem, match=r"key\.pem does not exist") as problem:
        tls.find_files(settings)
    assert "restore both from a backup" in problem.value.hint


@pytest.mark.parametrize(
    ("bind", "choice", "expected"),
    [
        ("127.0.0.1:7478", "auto", False),
        ("localhost:7478", "auto", False),
        ("[::1]:7478", "auto", False),
        ("unix:/run/pit.sock", "auto", False),
        ("0.0.0.0:7478", "auto", True),
        ("[::]:7478", "auto", True),
        ("head.example.org:7478", "auto", True),
        ("127.0.0.1:7478", "on", True),
        ("0.0.0.0:7478", "off", False),
    ],
)
def test_tls_is_used_beyond_loopback_unless_it_is_off(
    settings: Settings, bind: str, choice: str, expected: bool
):
    assert tls.uses_tls(replace(settings, bind=bind, tls=choice)) is expected


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({}, "https://{name}:7478"),
        ({"bind": "[::]:7478"}, "https://{name}:7478"),
        ({"bind": "192.0.2.7:7478"}, "https://192.0.2.7:7478"),
        ({"bind": "[2001:db8::1]:7478"}, "https://[2001:db8::1]:7478"),
        ({"bind": "127.0.0.1:7478"}, "http://127.0.0.1:7478"),
        ({"bind": "0.0.0.0:7478", "tls": "off"}, "http://127.0.0.1:7478"),
        ({"url": "https://pit.example.org/", "tls": "off"}, "https://pit.example.org"),
    ],
)
def test_the_url_is_what_others_can_use(
    settings: Settings, changes: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(socket, "getfqdn", lambda: "head.lab")
    assert tls.find_url(replace(settings, **changes)) == url.format(name="head.lab")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"tls": "yes"}, "tls must be auto, on or off, not 'yes'"),
        ({"url": "head"}, "url is 'head', which is not a URL"),
        ({"url": "https://head:99999"}, "which is not a URL"),
        ({"bind": "0.0.0.0:http"}, "bind is '0.0.0.0:http', without a port number"),
        ({"bind": "unix:/run/pit.sock"}, "only be reached through a proxy"),
    ],
)
def test_a_wrong_setting_is_a_problem(settings: Settings, changes: dict[str, str], text: str):
    with pytest.raises(Problem, match=text):
        tls.connect_text(replace(settings, **changes))


def test_the_connect_text_has_the_certificate_that_the_head_made(settings: Settings):
    url, _, rest = tls.connect_text(settings).partition("\n")
    assert url == tls.find_url(settings)
    (certificate,) = list_certificates(rest)
    assert pin_of(certificate) == tls.get_pin(settings)


def test_where_there_is_nothing_to_pin_the_connect_text_is_the_url(settings: Settings, own: Settings):
    assert tls.connect_text(replace(settings, bind="127.0.0.1:7478")) == "http://127.0.0.1:7478\n"
    assert tls.connect_text(own) == f"{tls.find_url(own)}\n"
    assert not settings.home.exists()


@pytest.fixture
def own(settings: Settings, tmp_path: Path) -> Settings:
    """A head with a certificate that it did not make itself."""
    files = tls.find_files(Settings(home=tmp_path / "elsewhere", bind="0.0.0.0:7478"))
    return replace(settings, certificate=str(files.certificate), certificate_key=str(files.key))


def test_an_own_certificate_is_used(own: Settings):
    assert tls.find_files(own).certificate == Path(own.certificate)
    assert tls.get_pin(own) == pin_of(Path(own.certificate).read_text())
    assert not own.home.exists()


def test_an_own_certificate_needs_its_key(own: Settings, settings: Settings, tmp_path: Path):
    other = tls.find_files(settings).key
    with pytest.raises(Problem, match="is not the key of"):
        tls.find_files(replace(own, certificate_key=str(other)))
    with pytest.raises(Problem, match="certificate_key is not set"):
        tls.find_files(replace(own, certificate_key=""))
    with pytest.raises(Problem, match="certificate is not set"):
        tls.find_files(replace(own, certificate=""))
    with pytest.raises(Problem, match=r"none\.pem does not exist"):
        tls.find_files(replace(own, certificate=str(tmp_path / "none.pem")))
    with pytest.raises(Problem, match="are not a certificate and its key"):
        tls.find_files(replace(own, certificate=own.certificate_key))


@dataclass(frozen=True)
class Serving:
    home: Path
    port: int

    def log(self) -> str:
        return (self.home / "log").read_text()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def ask(self) -> bytes:
        context = pinned_context([(self.home / "certificate.pem").read_text()])
        with self.connect() as plain, context.wrap_socket(plain) as secure:
            secure.sendall(ASK)
            return secure.recv(15)


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A head on all interfaces, as its own process; asked by loopback only."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        serving = Serving(tmp_path_factory.mktemp("serving"), probe.getsockname()[1])
    words = ["-m", "pit_server", "serve", "--home", str(serving.home), "--bind", f"0.0.0.0:{serving.port}"]
    with (serving.home / "log").open("w") as log:
        head = subprocess.Popen([sys.executable, *words], stdout=log, stderr=log, env={**os.environ})
    try:
        deadline = time.monotonic() + 60
        while not _is_up(serving):
            assert head.poll() is None and time.monotonic() < deadline, serving.log()
            time.sleep(0.05)
        yield serving
    finally:
        head.terminate()
        head.wait(120)


def _is_up(serving: Serving) -> bool:
    try:
        return bool(serving.ask())
    except OSError:
        return False


def test_beyond_loopback_the_head_speaks_tls_and_says_url_and_pin(serving: Serving):
    assert serving.ask() == b"HTTP/1.1 200 OK"
    pin = pin_of(fetch_certificate("127.0.0.1", serving.port, 10))
    assert pin == tls.get_pin(Settings(home=serving.home, bind="0.0.0.0:1"))
    assert f"its fingerprint is {pin}\n" in serving.log()
    assert f":{serving.port}\n" in serving.log()


def test_while_there_is_no_user_the_console_shows_the_setup_code(serving: Serving):
    assert re.search(r"the setup code [0-9a-f]{16} make", serving.log())


def test_plain_http_is_answered_with_a_hint_to_https(serving: Serving):
    with serving.connect() as plain:
        plain.sendall(ASK)
        answer = b"".join(iter(lambda: plain.recv(1000), b""))
    assert answer.startswith(b"HTTP/1.1 400 ") and answer.endswith(b"use https\n")
    assert "Traceback" not in serving.log() and "Invalid request" not in serving.log()


@pytest.mark.threat("S59")
def test_a_silent_or_incomplete_request_blocks_nobody(serving: Serving):
    idle = [serving.connect() for _ in range(20)]
    for connection in idle[10:]:
        connection.sendall(b"\x16\x03\x01")  # the beginning of a handshake
    try:
        assert serving.ask() == b"HTTP/1.1 200 OK"
        assert idle[-1].recv(1) == b""  # sent away before the test's patience ends
    finally:
        for connection in idle:
            connection.close()
    assert serving.ask() == b"HTTP/1.1 200 OK"
    assert "Traceback" not in serving.log()


def test_a_client_that_does_not_hang_up_blocks_nobody(serving: Serving):
    began = time.monotonic()
    idle = [serving.connect() for _ in range(60)]
    try:
        for connection in idle:
            connection.sendall(ASK)
        for connection in idle:
            connection.recv(1000)  # answered, but not closed by us
        assert serving.ask() == b"HTTP/1.1 200 OK"
        assert time.monotonic() - began < 0.5 * len(idle) * LINGER_S
    finally:
        for connection in idle:
            connection.close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_client_that_checks_strictly_accepts_the_certificate(serving: Serving, name: str):
    """As Python does by default from 3.13 on."""
    context = ssl.create_default_context(cafile=str(serving.home / "certificate.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with serving.connect() as plain, context.wrap_socket(plain, server_hostname=name) as secure:
        secure.sendall(ASK)
        assert secure.recv(15) == b"HTTP/1.1 200 OK"


@pytest.mark.threat("S57")
def test_old_tls_is_refused(serving: Serving):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")  # else this side would not even try
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with serving.connect() as plain, pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
        context.wrap_socket(plain)
    assert "Traceback" not in serving.log()


def test_a_head_without_tls_beyond_loopback_warns(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    from pit_server.gunicorn_server import _log_address

    _log_address(Settings(home=tmp_path, bind="0.0.0.0:7478", tls="off"))
    assert "tls is off and tokens are sent in plain text" in caplog.text
    assert "only a proxy with TLS may reach 0.0.0.0:7478" in caplog.text
