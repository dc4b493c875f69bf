"""Which remotes the head fetches from: known protocols, no secrets, nothing that git takes for an option."""

import re
from pathlib import Path
from urllib.parse import urlsplit

from pit_protocol.problem import Problem
from pit_protocol.submission import Snapshot
from pit_server.store.git import Git
from pit_server.store.mirror import Mirror
from pit_server.store.paths import DataRoot

COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
SCP_FORM = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:(?!//)[^:]+")
MAX_REMOTE = 2_000
MOST_KNOWN = 1_000
# Per mirror the commits that could be had a while ago: asking again would cost more than it tells.
_fetched: dict[Path, set[str]] = {}
REACH_S = 10.0  # for a remote to answer while a client waits


def check_hash(what: str, value: str) -> None:
    if not COMMIT.fullmatch(value):
        raise Problem("bad_hash", f"{what} {value[:70]!r} is no full git hash", status=422)


def check_remote(remote: str, protocols: tuple[str, ...]) -> None:
    """Raise a Problem unless the head may fetch from `remote`."""
    if remote.startswith("-") or "::" in remote or not remote.isprintable() or len(remote) > MAX_REMOTE:
        raise _bad_remote()
    protocol = "ssh" if SCP_FORM.fullmatch(remote) else "file"
    if "://" in remote:
        protocol = _check_url(remote)
    if protocol not in protocols:
        raise Problem(
            "remote_not_fetchable",
            f"the head does not fetch by {protocol}",
            f"it fetches by {', '.join(protocols)}; `pit run --bundle` sends the code along",
            status=422,
        )


def check_reachable(
    data: DataRoot, user_id: int, snapshot: Snapshot, protocols: tuple[str, ...], timeout_s: float = REACH_S
) -> None:
    """Raise a Problem if the head does not get an answer from the remote; no session may be open."""
    if snapshot.remote is None or snapshot.commit is None or snapshot.pack is not None:
        return
    mirror = data.mirror(user_id, snapshot.remote)
    known = _fetched.setdefault(mirror, set())
    if snapshot.commit in known:
        return
    heard: list[str] = []
    git = Git(mirror, protocols, timeout_s, heard.append)
    if not Mirror(git).reaches(snapshot.remote, snapshot.commit):
        raise Problem(
            "remote_not_fetchable",
            f"the head gets no answer from {snapshot.remote}",
            "`pit run --bundle` sends the code along",
            status=422,
        )
    if len(known) >= MOST_KNOWN:
        known.clear()
    known.add(snapshot.commit)


def _check_url(remote: str) -> str:
    """The protocol of a URL that has no secret in it, and a host that is no option."""
    try:
        parts = urlsplit(remote)
        host = parts.hostname or ""
    except ValueError:
        raise _bad_remote() from None
    if host.startswith("-") or parts.netloc.startswith("-"):
        raise _bad_remote()
    protocol = parts.scheme.lower()
    if parts.password or parts.query or (parts.username and protocol in ("http", "https")):
        # The URL itself stays out of the message: it would carry the secret into logs.
        raise Problem(
            "secret_in_remote",
            "the remote's URL carries a user name, a password or a query",
            "`git remote set-url` to one without; `pit run --bundle` sends the code along meanwhile",
            status=422,
        )
    return protocol


def _bad_remote() -> Problem:
    return Problem(
        "bad_remote",
        "the remote's URL is not one that git should get",
        "`pit run --bundle` sends the code along",
        status=422,
    )
