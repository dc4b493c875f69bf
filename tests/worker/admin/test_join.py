"""Joining: the right head, a code that stays secret, and settings that `run` can use."""

import os
import pty
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pit_worker.__main__ import main
from tests.support.servers.certificate_files import Certificate, make_certificate
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import PYTHON_ENVIRON, Eventually, Workers

CODE = "pit_j1_code"
Join = Callable[..., int]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config"


@pytest.fixture
def join(config: Path, monkeypatch: pytest.MonkeyPatch) -> Join:
    monkeypatch.setenv("PIT_WORKER_JOIN_CODE", CODE)
    return lambda *words: main(["join", *words, "--config", str(config)])


@pytest.fixture
def serve(data_root: Path) -> Iterator[Callable[[Certificate], StubHead]]:
    heads: list[StubHead] = []

    def start(certificate: Certificate) -> StubHead:
        heads.append(StubHead(str(data_root), certificate=certificate))
        return heads[-1]

    yield start
    for head in heads:
        head.close()


def test_with_its_pin_a_head_is_joined_and_its_certificate_stored(
    tls_head: StubHead, certificate: Certificate, join: Join, config: Path, capsys: pytest.CaptureFixture[str]
):
    assert join(f"{tls_head.url}/", certificate.pin, "--address", "n1.lab") == 0
    assert (config / "node.token").read_text() == "pit_n1_secret\n"
    assert (config / "node.token").stat().st_mode & 0o777 == 0o600
    assert (config / "head.pem").read_text() == certificate.file.read_text()
    assert sorted(path.name for path in config.iterdir()) == ["head.pem", "node.token", "worker.toml"]
    kept = tomllib.loads((config / "worker.toml").read_text())
    assert kept["url"] == tls_head.url
    assert kept["address"] == "n1.lab"
    assert (kept["token_file"], kept["ca_file"]) == (f"{config}/node.token", f"{config}/head.pem")
    said = capsys.readouterr().out
    assert f"this machine is node n1 of cluster {tls_head.cluster}" in said
    assert f"run --config {config}" in said and f"install --config {config}" in said
    assert "secret" not in said and CODE not in said


def test_after_joining_the_worker_runs_with_nothing_but_the_config_directory(
    tls_head: StubHead,
    certificate: Certificate,
    join: Join,
    config: Path,
    tmp_path: Path,
    eventually: Eventually,
):
    assert join(tls_head.url, certificate.pin, "--address", "n1.lab") == 0
    with (config / "worker.toml").open("a") as file:
        file.write("cgroups = false\n")
    workers = Workers(tls_head, tmp_path)
    try:
        workers.start_with("--config", str(config), PIT_WORKER_SPOOL=str(tmp_path / "own-spool"))
        tls_head.run(1, "echo hello")
        assert eventually(lambda: tls_head.end(1)).exit_code == 0
        assert tls_head.log(1) == "hello\n"
        assert tls_head.hellos[0].address == "n1.lab"
        assert (tmp_path / "own-spool/lock").exists()
        assert "contained by their supervisors only" in workers.log()
    finally:
        workers.close()


def test_plain_http_is_allowed_on_this_machine(head: StubHead, join: Join, config: Path):
    assert join(head.url) == 0
    kept = tomllib.loads((config / "worker.toml").read_text())
    assert "ca_file" not in kept
    assert kept["address"] and kept["spool"].endswith("spool")
    assert not (config / "head.pem").exists()


@pytest.mark.parametrize("words", [("http://head.example.org:7478",), ("http://10.0.0.1",)])
@pytest.mark.threat("S57")
def test_plain_http_to_another_machine_is_refused(
    join: Join, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    assert join(*words) == 1
    assert "would show the token to the network; use https" in capsys.readouterr().err


@pytest.mark.threat("S57")
def test_a_different_certificate_gets_no_code(
    tls_head: StubHead,
    certificate: Certificate,
    join: Join,
    config: Path,
    capsys: pytest.CaptureFixture[str],
):
    assert join(tls_head.url, "sha256:" + 64 * "0") == 1
    assert f"its certificate is {certificate.pin}" in capsys.readouterr().err
    assert tls_head.join_codes and not list(config.iterdir())


def test_an_expired_certificate_gets_no_code_though_its_pin_is_right(
    serve: Callable[[Certificate], StubHead],
    tmp_path: Path,
    join: Join,
    capsys: pytest.CaptureFixture[str],
):
    expired = make_certificate(tmp_path, "expired", days=-1)
    head = serve(expired)
    assert join(head.url, expired.pin) == 1
    assert "certificate has expired" in capsys.readouterr().err
    assert head.join_codes


def test_without_pin_an_unknown_certificate_gets_no_code(
    tls_head: StubHead, join: Join, capsys: pytest.CaptureFixture[str]
):
    assert join(tls_head.url) == 1
    said = capsys.readouterr().err
    assert "self-signed certificate; the command that `pit add node" in said
    assert tls_head.join_codes


def test_without_pin_the_systems_authorities_are_trusted(
    serve: Callable[[Certificate], StubHead], tmp_path: Path, config: Path
):
    authority = make_certificate(tmp_path, "authority", is_ca=True)
    head = serve(make_certificate(tmp_path, "signed", signer=authority))
    done = run_join(head.url, config, SSL_CERT_FILE=str(authority.file))
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_signed_certificate_can_be_pinned_too(
    serve: Callable[[Certificate], StubHead], tmp_path: Path, join: Join
):
    authority = make_certificate(tmp_path, "authority", is_ca=True)
    signed = make_certificate(tmp_path, "signed", signer=authority)
    assert join(serve(signed).url, signed.pin) == 0


def test_a_certificate_signed_by_a_pinned_one_is_not_trusted(
    serve: Callable[[Certificate], StubHead], tmp_path: Path, eventually: Eventually
):
    authority = make_certificate(tmp_path, "authority", is_ca=True)
    head = serve(make_certificate(tmp_path, "signed", signer=authority))
    workers = Workers(head, tmp_path)
    try:
        workers.start(PIT_WORKER_CA_FILE=str(authority.file))
        eventually(lambda: "it is not the certificate that is known" in workers.log())
        assert not head.hellos
    finally:
        workers.close()


def test_the_code_is_in_the_arguments_of_no_process(head: StubHead, config: Path):
    seen: list[bytes] = []
    head.on_join = lambda: seen.extend(map(read_arguments, Path("/proc").glob("[0-9]*")))
    assert run_join(head.url, config).returncode == 0
    assert [line for line in seen if b"pit_worker\0join" in line]
    assert not [line for line in seen if CODE.encode() in line]


def test_on_a_terminal_the_code_is_prompted_for_and_not_shown(head: StubHead, config: Path):
    ours, theirs = pty.openpty()
    words = ["join", head.url, "--config", str(config)]
    with subprocess.Popen(
        [sys.executable, "-m", "pit_worker", *words],
        env={**os.environ, **PYTHON_ENVIRON},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    ) as worker:
        os.close(theirs)
        shown = b""
        while b"join code: " not in shown:
            shown += os.read(ours, 1000)
        os.write(ours, CODE.encode() + b"\n")
        while worker.poll() is None or b"install" not in shown:
            try:
                shown += os.read(ours, 1000)
            except OSError:  # the other side is closed
                break
    os.close(ours)
    assert worker.returncode == 0
    assert CODE.encode() not in shown


def test_without_code_and_terminal_the_error_says_how_to_pass_the_code(head: StubHead, config: Path):
    done = run_join(head.url, config, PIT_WORKER_JOIN_CODE="")
    assert done.returncode == 1
    assert done.stderr == (
        "pit-worker: the join code is missing; PIT_WORKER_JOIN_CODE holds it, `pit add node:NAME` shows it\n"
    )


def test_a_used_up_code_is_one_sentence_with_a_hint(
    head: StubHead, join: Join, capsys: pytest.CaptureFixture[str]
):
    head.join_codes.clear()
    assert join(head.url) == 1
    assert capsys.readouterr().err == (
        "pit-worker: the head does not accept this code: it is used up, expired or mistyped; "
        "`pit add node:NAME --again` makes a new one\n"
    )


def test_joining_again_needs_force_and_keeps_settings(
    head: StubHead, join: Join, config: Path, capsys: pytest.CaptureFixture[str]
):
    assert join(head.url, "--address", "n1.lab") == 0
    with (config / "worker.toml").open("a") as file:
        file.write("cgroups = false\nsearch_path = '/opt/bin'\n")
    head.join_codes.add(CODE)
    assert join(head.url) == 1
    assert "has joined already" in capsys.readouterr().err
    head.token = "pit_n1_another"
    assert join(head.url, "--force") == 0
    assert (config / "node.token").read_text() == "pit_n1_another\n"
    kept = tomllib.loads((config / "worker.toml").read_text())
    assert (kept["cgroups"], kept["search_path"], kept["address"]) == (False, "/opt/bin", "n1.lab")


def test_a_failed_second_join_changes_nothing(
    tls_head: StubHead, certificate: Certificate, join: Join, config: Path
):
    assert join(tls_head.url, certificate.pin) == 0
    before = {path: path.read_text() for path in config.iterdir()}
    assert join(tls_head.url, certificate.pin, "--force") == 1
    assert {path: path.read_text() for path in config.iterdir()} == before


def test_the_code_is_not_used_up_if_the_token_cannot_be_stored(
    head: StubHead, join: Join, config: Path, capsys: pytest.CaptureFixture[str]
):
    config.write_text("a file")
    assert join(head.url) == 1
    assert "cannot be written to" in capsys.readouterr().err
    assert head.join_codes


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("head",), "is not a head's address"),
        (("https://[::1",), "is not a head's address"),
        (("https://h:99999",), "is not a head's address"),
        (("https://h/?x=1",), "is not a head's address"),
        (("https://user:pw@h",), "must not hold a password"),
        (("https://127.0.0.1:1", "sha256:beef"), "is not a certificate's pin"),
        (("http://127.0.0.1:1", "sha256:" + 64 * "a"), "has no certificate to compare with a pin"),
        (("https://127.0.0.1:1", "sha256:" + 64 * "a"), "connection refused"),
        (("http://127.0.0.1:1",), "connection refused"),
        (("http://localhost:1", "--address", "a\nb"), "has characters"),
    ],
)
def test_bad_arguments_are_one_sentence(
    join: Join, words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
):
    assert join(*words) == 1
    said = capsys.readouterr().err
    assert text in said and said.count("\n") == 1


@pytest.mark.parametrize("code", ["two words", "käse", "line\nbreak"])
def test_an_invalid_code_is_not_sent(
    head: StubHead,
    join: Join,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("PIT_WORKER_JOIN_CODE", code)
    assert join(head.url) == 1
    assert "that is not a join code" in capsys.readouterr().err


def run_join(url: str, config: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pit_worker", "join", url, "--config", str(config)],
        env={**os.environ, **PYTHON_ENVIRON, "PIT_WORKER_JOIN_CODE": CODE, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )


def read_arguments(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:  # it has ended meanwhile
        return b""
