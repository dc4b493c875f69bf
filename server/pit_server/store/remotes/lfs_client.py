"""The download part of the Git LFS batch API; its endpoint follows only from the remote."""

import base64
import hashlib
import json
import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import urllib3

from pit_protocol.problem import Problem
from pit_server import cancellation
from pit_server.settings import Settings
from pit_server.store.git.lfs_pointers import Pointer
from pit_server.store.remotes import addresses, http
from pit_server.store.remotes.credential import Credential
from pit_server.store.remotes.reach import ssh_command
from pit_server.store.remotes.remote import Remote

MEDIA_TYPE = "application/vnd.git-lfs+json"
AT_A_TIME = 100
MAX_ANSWER = 8 << 20
AUTHENTICATE_S = 20.0
BLOCK = 256 * 1024
SLOWEST = 1000  # bytes per second over SLOW_S; the same that git tolerates
SLOW_S = 30.0


@dataclass(frozen=True)
class Link:
    """Where one large file can be downloaded."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class LfsServer:
    def __init__(self, remote: Remote, settings: Settings, credential: Credential | None) -> None:
        self._remote, self._settings, self._credential = remote, settings, credential
        self._endpoint: Link | None = None

    def links(self, pointers: Sequence[Pointer]) -> Iterator[tuple[Pointer, Link]]:
        """The large files that the remote has, with their links."""
        if not pointers:
            return
        endpoint = self._endpoint = self._endpoint or self._find_endpoint()
        for start in range(0, len(pointers), AT_A_TIME):
            some = {pointer.oid: pointer for pointer in pointers[start : start + AT_A_TIME]}
            for item in self._batch(endpoint, list(some.values())):
                link = _link(item)
                if link and item["oid"] in some:
                    yield some[item["oid"]], self._with_login(endpoint, link)

    def download(self, pointer: Pointer, link: Link, target: Path) -> None:
        """Download a large file to `target`; a Problem if it is not what the pointer names."""
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".part", delete=False) as file:
            partial = Path(file.name)
            try:
                with http.ask(self._settings, "GET", link.url, link.headers) as response:
                    if response.status != 200:
                        raise _refused(self._remote, response.status)
                    receive(response, file.file, pointer)  # type: ignore[arg-type]
                partial.replace(target)
            except urllib3.exceptions.HTTPError as error:
                raise Problem(
                    "no_answer", f"the download of a large file from {self._remote.host} was interrupted"
                ) from error
            finally:
                partial.unlink(missing_ok=True)

    def _batch(self, endpoint: Link, pointers: list[Pointer]) -> list[dict[str, Any]]:
        asked = {
            "operation": "download",
            "transfers": ["basic"],
            "objects": [{"oid": pointer.oid, "size": pointer.size} for pointer in pointers],
            "hash_algo": "sha256",
        }
        headers = {**endpoint.headers, "Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE}
        url = f"{endpoint.url}/objects/batch"
        with http.ask(self._settings, "POST", url, headers, json.dumps(asked).encode()) as response:
            if response.status != 200:
                raise _refused(self._remote, response.status)
            answer = _json(response.read(MAX_ANSWER))
        found = answer.get("objects")
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []

    def _find_endpoint(self) -> Link:
        remote = self._remote
        if remote.protocol == "ssh" and (link := self._authenticate()):
            return link
        host = f"[{remote.host}]" if ":" in remote.host else remote.host
        protocol = "https" if remote.protocol == "ssh" else remote.protocol
        port = f":{remote.port}" if remote.port and remote.protocol != "ssh" else ""
        path = remote.path.strip("/").removesuffix(".git")
        headers = {}
        if self._credential and self._credential.suits(protocol):
            login = ":".join(self._credential.login).encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        return Link(f"{protocol}://{host}{port}/{path}.git/info/lfs", headers)

    def _authenticate(self) -> Link | None:
        """Ask an ssh remote for its LFS endpoint; None if it has none."""
        remote = self._remote
        address = addresses.find(remote.host, remote.number, self._settings.local_hosts)[0]
        with tempfile.TemporaryDirectory(prefix="pit-reach-") as scratch:
            ssh = ssh_command(remote, address, self._settings, self._credential, Path(scratch))
            target = f"{remote.user}@{remote.host}" if remote.user else remote.host
            asked = f"git-lfs-authenticate {shlex.quote(remote.path)} download"
            try:
                done = subprocess.run(
                    [*ssh, "-p", str(remote.number), "--", target, asked],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    timeout=AUTHENTICATE_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return None
        answer = _json(done.stdout[:MAX_ANSWER]) if done.returncode == 0 else {}
        href = answer.get("href")
        return Link(href.rstrip("/"), _headers(answer.get("header"))) if isinstance(href, str) else None

    def _with_login(self, endpoint: Link, link: Link) -> Link:
        """Use the endpoint's login for a link on the same origin, unless the link has its own headers."""
        if link.headers or http.origin(link.url) != http.origin(endpoint.url):
            return link
        return Link(link.url, endpoint.headers)


def receive(source: urllib3.BaseHTTPResponse, target: BinaryIO, pointer: Pointer) -> None:
    """Write a large file to disk; a Problem if it is not what the pointer names."""
    digest, size = hashlib.sha256(), 0
    pace = _Pace()
    while block := source.read1(BLOCK):  # not `read`, which waits until the block is full
        cancellation.check()
        pace.note(len(block))
        size += len(block)
        if size > pointer.size:
            break
        digest.update(block)
        target.write(block)
    if size != pointer.size or digest.hexdigest() != pointer.oid:
        raise Problem("hash_differs", f"the content of large file {pointer.oid[:12]} does not match its hash")
    target.flush()
    os.fsync(target.fileno())


class _Pace:
    """Raises a Problem for a download that is slower than `SLOWEST`."""

    def __init__(self) -> None:
        self._since, self._size = time.monotonic(), 0

    def note(self, size: int) -> None:
        self._size += size
        taken_s = time.monotonic() - self._since
        if taken_s >= SLOW_S:
            if self._size < SLOWEST * taken_s:
                raise Problem("too_slow", f"the server sends less than {SLOWEST:,} bytes per second")
            self._since, self._size = time.monotonic(), 0


def path_in(remote: Remote, pointer: Pointer) -> Path | None:
    """The path of a large file in a remote on the local disk."""
    root = Path(remote.path)
    inside = Path("lfs", "objects", pointer.oid[:2], pointer.oid[2:4], pointer.oid)
    return next((path for path in (root / inside, root / ".git" / inside) if path.is_file()), None)


def _link(item: Mapping[str, Any]) -> Link | None:
    actions = item.get("actions")
    action = actions.get("download") if isinstance(actions, dict) else None
    href = action.get("href") if isinstance(action, dict) else None
    if not isinstance(href, str) or not isinstance(item.get("oid"), str):
        return None
    return Link(href, _headers(action.get("header") if isinstance(action, dict) else None))


def _headers(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        return {}
    texts = {name: value for name, value in given.items() if isinstance(name, str) and isinstance(value, str)}
    return {
        name: value
        for name, value in texts.items()
        if f"{name}{value}".isprintable()
        and name.lower() not in ("host", "content-length", "transfer-encoding")
    }


def _json(data: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _refused(remote: Remote, status: int) -> Problem:
    return Problem("large_files_refused", f"{remote.host} answers {status} when asked for large files")
