"""A firewall around private networks: they reach neither the node itself nor a cloud's metadata service.

The worker has two chains of its own in iptables: one for packets to the node, one for packets through it.
They match bridges by their names, so they do not depend on what runs. From an overlay, containers get out
through a bridge that they share with those of others, so only the metadata service is closed there.
"""

import hashlib
import logging
import os
import shutil
import subprocess
import threading
import zlib
from collections.abc import Collection, Iterable
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from pathlib import Path

from pit_worker.network_ranges import AllowedTarget

SEARCH_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
RESOLV_CONF = Path("/etc/resolv.conf")
LINK_LOCAL = "169.254.0.0/16"  # the metadata services of clouds, which give credentials too
DNS_PORT = 53
DOCKER_CHAIN = "-N DOCKER-USER"  # as iptables lists it
TIMEOUT_S = 20
OVERLAY_BRIDGE = "docker_gwbridge"
REJECT = ("-p tcp -j REJECT --reject-with tcp-reset", "-j REJECT")

log = logging.getLogger(__name__)


def bridge_name(spool: Path, network: str) -> str:
    """The bridge of a private network; the name identifies the worker, and has at most 15 characters."""
    return f"{_prefix(spool)}{zlib.crc32(network.encode()) & 0xFFFFFFF:07x}"


class Firewall:
    """The rules of one worker; without root or iptables there are none."""

    def __init__(
        self, spool: Path, places: Iterable[AllowedTarget] = (), *, has_overlay: bool = False
    ) -> None:
        self._places = (*places, *_name_servers(RESOLV_CONF))
        self._bridges = f"{_prefix(spool)}+"
        self._has_overlay = has_overlay
        tag = _tag(spool).upper()
        self._to_node, self._through = f"PIT-{tag}-NODE", f"PIT-{tag}-AWAY"
        self._has_warned = False
        self._lock = threading.Lock()

    def missing(self) -> str:
        """What is missing to set rules; empty if nothing is."""
        if os.geteuid() != 0:
            return "the worker is not root"
        return "" if _find("iptables") else "there is no iptables"

    def is_up(self) -> bool:
        return not self._missing_hooks("iptables")

    def ensure(self) -> None:
        """Install the rules if they are gone: another firewall may have removed them."""
        if missing := self.missing():
            self._warn(f"private networks reach this node: {missing}")
            return
        with self._lock:
            if not self.is_up():
                self._install()

    def install(self) -> None:
        """Install the rules, whether or not they are there."""
        if not self.missing():
            with self._lock:
                self._install()

    def _install(self) -> None:
        try:
            _restore("iptables-restore", self._render())
            for hook in self._missing_hooks("iptables"):
                _run("iptables", "-I", *hook)
        except (OSError, subprocess.SubprocessError) as error:
            self._warn(f"private networks reach this node: {_explain(error)}")
        self._install_ipv6()

    def remove(self) -> None:
        if self.missing():
            return
        for program in ("iptables", "ip6tables"):
            # Docker's chain may have been created since, or removed.
            for hook in {*self._hooks(program, []), *self._hooks(program, [DOCKER_CHAIN])}:
                _succeeds(program, "-D", *hook)
            for chain in (self._to_node, self._through):
                _succeeds(program, "-F", chain)
                _succeeds(program, "-X", chain)

    def _render(self) -> str:
        passes = ["-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN"]
        passes += [rule for place in self._places for rule in place.rules()]
        away = [*passes, *(f"-d {LINK_LOCAL} {rule}" for rule in REJECT)]
        return _table({self._to_node: [*passes, *REJECT], self._through: away})

    def _install_ipv6(self) -> None:
        """Block IPv6: private networks do not use it, but a bridge gets an address by itself."""
        if not _find("ip6tables-restore"):
            return
        table = _table({self._to_node: ["-j DROP"], self._through: ["-j DROP"]})
        try:
            _restore("ip6tables-restore", table)
            for hook in self._missing_hooks("ip6tables"):
                _run("ip6tables", "-I", *hook)
        except (OSError, subprocess.SubprocessError) as error:
            log.info("no rules for IPv6: %s", _explain(error))

    def _missing_hooks(self, program: str) -> list[tuple[str, ...]]:
        rules = _list_rules(program)
        return [hook for hook in self._hooks(program, rules) if f"-A {' '.join(hook)}" not in rules]

    def _hooks(self, program: str, rules: Collection[str]) -> list[tuple[str, ...]]:
        # Docker puts its own rules first in FORWARD, but leaves this chain alone.
        away = "DOCKER-USER" if DOCKER_CHAIN in rules else "FORWARD"
        here = ("-i", self._bridges, "-j")
        hooks: list[tuple[str, ...]] = [("INPUT", *here, self._to_node), (away, *here, self._through)]
        if self._has_overlay and program == "iptables":  # the chain for IPv6 would close everything
            hooks.append((away, "-i", OVERLAY_BRIDGE, "-j", self._through))
        return hooks

    def _warn(self, text: str) -> None:
        if not self._has_warned:
            log.warning("%s; run `pit-worker doctor` for details", text)
        self._has_warned = True


def _tag(spool: Path) -> str:
    # Not by cluster: two workers of one cluster may be on one machine, with different settings.
    return hashlib.sha256(str(spool).encode()).hexdigest()[:4]


def _prefix(spool: Path) -> str:
    return f"pit{_tag(spool)}-"


def _table(chains: dict[str, list[str]]) -> str:
    # This empties a chain that exists already.
    heads = [f":{name} - [0:0]" for name in chains]
    rules = [f"-A {name} {rule}" for name, rules in chains.items() for rule in rules]
    return "\n".join(["*filter", *heads, *rules, "COMMIT", ""])


def _name_servers(file: Path) -> list[AllowedTarget]:
    """The name servers that containers use through Docker; they may be on this machine."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return []
    found = []
    for words in (line.split() for line in lines):
        if len(words) > 1 and words[0] == "nameserver":
            try:
                address = IPv4Address(words[1])
            except AddressValueError:
                continue
            if not address.is_loopback:
                found.append(AllowedTarget(IPv4Network(address), DNS_PORT))
    return found


def _find(program: str) -> str | None:
    return shutil.which(program, path=f"{SEARCH_PATH}:{os.environ.get('PATH', '')}")


def _list_rules(program: str) -> list[str]:
    """All chains and rules, in one call; none if they cannot be read."""
    try:
        return _run(program, "-S").splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def _run(program: str, *words: str) -> str:
    command = [_find(program) or program, "-w", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return done.stdout


def _restore(program: str, table: str) -> None:
    command = [_find(program) or program, "-w", "--noflush"]
    subprocess.run(command, input=table, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)


def _succeeds(program: str, *words: str) -> bool:
    try:
        _run(program, *words)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _explain(error: Exception) -> str:
    output = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    return (output or str(error)).strip().splitlines()[0]
