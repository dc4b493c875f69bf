"""How git reaches a remote: an allowed protocol, a checked address, the user's own credentials."""

import ipaddress
import os
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pit_protocol.problem import Problem
from pit_server.settings import Settings
from pit_server.store.git.command import Access
from pit_server.store.remotes import addresses
from pit_server.store.remotes.credential import Credential
from pit_server.store.remotes.remote import PORTS, Remote


def check_protocol(remote: Remote, settings: Settings) -> None:
    """Raise a Problem unless the remote's protocol is allowed."""
    if remote.protocol not in settings.protocols:
        raise Problem(
            "remote_not_fetchable",
            f"the head does not fetch over {remote.protocol}",
            f"it fetches over {', '.join(settings.protocols)}",
            status=422,
        )
    if remote.protocol == "file":
        _check_path(remote, settings)


def _check_path(remote: Remote, settings: Settings) -> None:
    """Raise a Problem for a path into the head's own files, such as other users' stores."""
    path = Path(os.path.realpath(remote.path))
    own = [Path(os.path.realpath(place)) for place in (settings.home, settings.root)]
    if not Path(remote.path).is_absolute() or any(path.is_relative_to(place) for place in own):
        raise Problem(
            "remote_not_fetchable",
            f"the head does not fetch from {remote.text}",
            "a path must be absolute, and outside of the head's own files",
            status=422,
        )


@contextmanager
def reach(remote: Remote, settings: Settings, credential: Credential | None = None) -> Iterator[Access]:
    """How git reaches the remote; secrets are in temporary files until the end of the block."""
    check_protocol(remote, settings)
    config = [f"protocol.{remote.protocol}.allow=always"]
    env = {}
    with tempfile.TemporaryDirectory(prefix="pit-reach-") as scratch:
        if remote.host:
            found = addresses.find(remote.host, remote.number, settings.local_hosts)
            if remote.protocol == "ssh":
                ssh = ssh_command(remote, found[0], settings, credential, Path(scratch))
                env["GIT_SSH_COMMAND"] = shlex.join(ssh)
            elif remote.protocol == "git":
                named = remote.text.removesuffix(remote.path)
                config.append(f"url.git://{_joined(found[:1])}:{remote.number}.insteadOf={named}")
            elif not _is_address(remote.host):
                config.append(f"http.curloptResolve={remote.host}:{remote.number}:{_joined(found)}")
        if credential and remote.protocol in ("https", "http") and credential.suits(remote.protocol):
            config.append(_helper(remote, credential, Path(scratch)))
        yield Access(tuple(config), env)


def ssh_command(
    remote: Remote, address: str, settings: Settings, credential: Credential | None, scratch: Path
) -> list[str]:
    """ssh to the checked address, with the host key looked up by name."""
    port = remote.number
    alias = remote.host if port == PORTS["ssh"] else f"[{remote.host}]:{port}"
    known = settings.root / "cache" / "known_hosts"
    options = [
        "-oBatchMode=yes",
        "-oStrictHostKeyChecking=accept-new",
        "-oConnectTimeout=10",
        f"-oHostName={address}",
        f"-oHostKeyAlias={alias}",
        f'-oUserKnownHostsFile="{known}" ~/.ssh/known_hosts',
    ]
    if credential and credential.suits("ssh"):
        key = scratch / "key"
        key.touch(mode=0o600)
        key.write_text(credential.secret)
        # Nothing of the head's own account: no keys, no agent, no configuration.
        options += [
            "-F",
            "/dev/null",
            "-oIdentitiesOnly=yes",
            "-oIdentityAgent=none",
            f"-oIdentityFile={key}",
        ]
    return ["ssh", *options]


def _helper(remote: Remote, credential: Credential, scratch: Path) -> str:
    """A credential helper that answers for exactly this host."""
    user, password = credential.login
    file = scratch / "credential"
    file.touch(mode=0o600)
    file.write_text(f"username={user}\npassword={password}\n")
    host = f"[{remote.host}]" if ":" in remote.host else remote.host
    place = f"{remote.protocol}://{host}" + (f":{remote.port}" if remote.port else "")
    return f"credential.{place}.helper=!f() {{ cat {shlex.quote(str(file))}; }}; f"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _joined(found: list[str]) -> str:
    return ",".join(f"[{address}]" if ":" in address else address for address in found)
