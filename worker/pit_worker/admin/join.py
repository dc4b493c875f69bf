"""`pit-worker join`: exchange a join code for this machine's own token."""

import getpass
import json
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from pit_protocol import API_PREFIX
from pit_protocol.atomic_file import write_atomic
from pit_protocol.problem import Problem
from pit_protocol.transport.pinning import PIN, fetch_certificate, has_pin, pin_of
from pit_protocol.transport.tls import explain
from pit_protocol.version_check import HEADER, check_protocol
from pit_worker import settings
from pit_worker.head.tls import CONNECT_S, open_session
from pit_worker.settings import NotNow, SettingError

CODE = "PIT_WORKER_JOIN_CODE"
TOKEN_FILE = "node.token"  # noqa: S105
CA_FILE = "head.pem"
ANSWER_S = 30.0
HTTPS_PORT = 443
NEW_CODE = "`pit add node:NAME --again` makes a new one"


@dataclass(frozen=True)
class Joined:
    node: str
    cluster: str


def join(url: str, pin: str | None, config: Path, address: str | None, *, force: bool) -> Joined:
    """Join the head at `url`, and store in `config` what `pit-worker run` needs; raises SettingError."""
    url = url.rstrip("/")
    _check(url, pin, config, address)
    kept = settings.load_file(str(config)) if (config / settings.FILE_NAME).exists() else {}
    if (config / TOKEN_FILE).exists() and not force:
        raise SettingError(f"this machine has joined already ({config / TOKEN_FILE}); --force joins again")
    _prepare(config)  # must fail now if it fails, before the code is used up
    code = _read_code(os.environ)
    certificate = _fetch_pinned(url, pin.lower()) if pin else ""
    try:
        answer = ask(url, code, certificate)
    except NotNow as error:
        raise SettingError(str(error)) from error  # a person is there to try again
    try:
        _save(config, kept, url, address, certificate)
        _replace(config / TOKEN_FILE, answer["token"] + "\n", 0o600)
    except OSError as error:
        raise SettingError(
            f"{config} cannot be written to: {error.strerror}; the code is used up, {NEW_CODE}"
        ) from error
    return Joined(answer["node"], answer["cluster"])


def own_address() -> str:
    """The name by which other machines reach this one."""
    name = socket.getfqdn()
    # /etc/hosts may list localhost first; other machines use the host name.
    return socket.gethostname() if name.startswith("localhost") else name


def _check(url: str, pin: str | None, config: Path, address: str | None) -> None:
    settings.check_url(url)
    for text in (str(config), address or ""):
        if not text.isprintable():
            raise SettingError(f"{text!r} has characters that {settings.FILE_NAME} cannot contain")
    if pin and not PIN.fullmatch(pin.lower()):
        raise SettingError(f"{pin!r} is not a certificate's pin; those look like sha256:28ab… with 64 digits")
    if pin and not url.startswith("https:"):
        raise SettingError(f"{url} has no certificate to compare with a pin; use https, or no pin")


def _prepare(config: Path) -> None:
    try:
        config.mkdir(mode=0o755, parents=True, exist_ok=True)
        _replace(config / (TOKEN_FILE + ".try"), "", 0o600)
        (config / (TOKEN_FILE + ".try")).unlink()
    except OSError as error:
        raise SettingError(
            f"{config} cannot be written to: {error.strerror}; --config names another directory"
        ) from error


def _read_code(environ: Mapping[str, str]) -> str:
    code = environ.get(CODE, "").strip()
    if not code and not sys.stdin.isatty():
        raise SettingError(f"the join code is missing; {CODE} holds it, `pit add node:NAME` shows it")
    # Never an argument: every user of the machine can see those.
    code = code or getpass.getpass("join code: ").strip()
    if not settings.is_token(code):
        raise SettingError(f"that is not a join code; {NEW_CODE}")
    return code


def _fetch_pinned(url: str, pin: str) -> str:
    parts = urlsplit(url)
    try:
        certificate = fetch_certificate(parts.hostname or "", parts.port or HTTPS_PORT, CONNECT_S)
    except (OSError, UnicodeError) as error:
        why = explain(error)
        raise SettingError(f"{url} shows no certificate: {why}") from error
    if not has_pin(certificate, pin):
        raise SettingError(
            f"{url} is not the head with this pin: its certificate is {pin_of(certificate)}; "
            "do not continue before you know why (`pit show connect` shows the right one)"
        )
    return certificate + "\n"


def ask(url: str, code: str, certificate: str, host: str = "") -> dict[str, str]:
    """Use up a join code: node or site, cluster and token; raises SettingError, or NotNow."""
    try:
        with open_session(url, (certificate,) if certificate else ()) as session:
            answer = session.post(
                f"{url}{API_PREFIX}/node/join",
                json={"host": host} if host else {},
                headers={"Authorization": f"Bearer {code}"},
                timeout=(CONNECT_S, ANSWER_S),
                allow_redirects=False,
            )
        content = answer.json()
    except requests.JSONDecodeError:
        content = {}
    except requests.RequestException as error:
        raise NotNow(f"no answer from {url}: {explain(error)}{_pin_hint(error, certificate)}") from error
    if isinstance(content, dict) and content.keys() & {"code", "token"}:
        _check_version(answer)
    if answer.status_code != 201:
        raise SettingError(_refusal(url, answer.status_code, content))
    fields = ("node", "cluster", "token")
    if not isinstance(content, dict) or not all(isinstance(content.get(field), str) for field in fields):
        raise SettingError(f"{url} does not answer like a head; is that the head's address?")
    if not settings.is_token(content["token"]):
        raise SettingError(f"{url} sent an unusable token; do head and worker have the same version?")
    return {field: content[field] for field in fields}


def _check_version(answer: requests.Response) -> None:
    try:
        check_protocol(answer.headers.get(HEADER), "head", "worker")
    except Problem as problem:
        raise SettingError(problem.message) from problem


def _pin_hint(error: requests.RequestException, certificate: str) -> str:
    if certificate or not isinstance(error, requests.exceptions.SSLError):
        return ""
    return "; the command that `pit add node:NAME` prints has the pin of its certificate"


def _refusal(url: str, status: int, content: Any) -> str:
    problem = Problem.from_json({**content, "status": status} if isinstance(content, dict) else {})
    if status == 401:
        return f"the head does not accept this code: it is used up, expired or mistyped; {NEW_CODE}"
    if problem.code == "unknown":
        return f"{url} answered {status}, not like a head; is that the head's address?"
    return f"the head answered {status}: {problem.message}" + (f"; {problem.hint}" if problem.hint else "")


def _save(config: Path, kept: dict[str, Any], url: str, address: str | None, certificate: str) -> None:
    values = {"spool": settings.default_spool(), "address": own_address(), **kept}
    values |= {
        "url": url,
        "token_file": config / TOKEN_FILE,
        "ca_file": config / CA_FILE if certificate else "",
    }
    if address:
        values["address"] = address
    # Strings and booleans are the same in JSON and TOML.
    lines = [
        f"{name} = {json.dumps(value if isinstance(value, bool) else str(value), ensure_ascii=False)}\n"
        for name, value in sorted(values.items())
        if value != ""
    ]
    if certificate:
        _replace(config / CA_FILE, certificate, 0o644)
    _replace(config / settings.FILE_NAME, "".join(lines), 0o644)
    if not certificate:
        (config / CA_FILE).unlink(missing_ok=True)


def _replace(file: Path, text: str, mode: int) -> None:
    file.with_name(file.name + ".part").unlink(missing_ok=True)  # its mode may be wrong
    write_atomic(file, text, sync=True)
    file.chmod(mode)
