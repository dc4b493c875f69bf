"""A wall around private networks: neither the node itself is reached from them, nor what a cloud tells it.

Two chains of the worker's own in iptables: one for what goes to the node, one for what goes
through it. They match bridges by their names, so they are the same whatever runs.
"""

import hashlib
import logging
import os
import shutil
import subprocess
import threading
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from pathlib import Path

SEARCH_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"
RESOLV_CONF = Path("/etc/resolv.conf")
LINK_LOCAL = "169.254.0.0/16"  # where clouds answer their machines, with credentials too
DNS_PORT = 53
DOCKER_CHAIN = "-N DOCKER-USER"  # as iptables lists it
PATIENCE_S = 20
REJECT = ("-p tcp -j REJECT --reject-with tcp-reset", "-j REJECT")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Place:
    """What may be reached all the same."""

    subnet: IPv4Network
    port: int | None = None

    def rules(self) -> list[str]:
        if self.port is None:
            return [f"-d {self.subnet} -j RETURN"]
        return [f"-d {self.subnet} -p {kind} --dport {self.port} -j RETURN" for kind in ("udp", "tcp")]


def parse_places(text: str) -> tuple[Place, ...]:
    """`10.0.0.7,10.0.0.8:2049,10.1.0.0/16`; raises ValueError."""
    places = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        subnet, colon, port = part.partition(":")
        if colon and not (port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"{port!r} is no port")
        places.append(Place(IPv4Network(subnet), int(port) if colon else None))
    return tuple(places)


def bridge_name(spool: Path, network: str) -> str:
    """Of the bridge behind a private network: it tells the worker, within the kernel's 15 characters."""
    return f"{_prefix(spool)}{zlib.crc32(network.encode()) & 0xFFFFFFF:07x}"


class Firewall:
    """The rules of one worker; without root or iptables there are none."""

    def __init__(self, spool: Path, places: Iterable[Place] = ()) -> None:
        self._places = (*places, *_name_servers(RESOLV_CONF))
        self._bridges = f"{_prefix(spool)}+"
        tag = _tag(spool).upper()
        self._to_node, self._through = f"PIT-{tag}-NODE", f"PIT-{tag}-AWAY"
        self._has_warned = False
        self._lock = threading.Lock()

    def lack(self) -> str:
        """Why there can be no rules; empty if there can."""
        if os.geteuid() != 0:
            return "the worker is not root"
        return "" if _find("iptables") else "there is no iptables"

    def is_up(self) -> bool:
        return not self._missing("iptables")

    def keep_up(self) -> None:
        """See that the rules are there: who sets up his own firewall may have swept them away."""
        if lack := self.lack():
            self._warn(f"private networks reach this node, for {lack}")
            return
        with self._lock:
            if not self.is_up():
                self._put_up()

    def renew(self) -> None:
        """Make the rules, as if there had been none."""
        if not self.lack():
            with self._lock:
                self._put_up()

    def _put_up(self) -> None:
        try:
            _restore("iptables-restore", self._render())
            for hook in self._missing("iptables"):
                _run("iptables", "-I", *hook)
        except (OSError, subprocess.SubprocessError) as error:
            self._warn(f"private networks reach this node: {_explain(error)}")
        self._put_up_six()

    def take_down(self) -> None:
        if self.lack():
            return
        for program in ("iptables", "ip6tables"):
            # Docker's chain may have been there before, or not yet.
            for hook in {*self._hooks([]), *self._hooks([DOCKER_CHAIN])}:
                _succeeds(program, "-D", *hook)
            for chain in (self._to_node, self._through):
                _succeeds(program, "-F", chain)
                _succeeds(program, "-X", chain)

    def _render(self) -> str:
        passes = ["-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN"]
        passes += [rule for place in self._places for rule in place.rules()]
        away = [*passes, *(f"-d {LINK_LOCAL} {rule}" for rule in REJECT)]
        return _table({self._to_node: [*passes, *REJECT], self._through: away})

    def _put_up_six(self) -> None:
        """Private networks have no IPv6, but a bridge has an address of its own accord."""
        if not _find("ip6tables-restore"):
            return
        table = _table({self._to_node: ["-j DROP"], self._through: ["-j DROP"]})
        try:
            _restore("ip6tables-restore", table)
            for hook in self._missing("ip6tables"):
                _run("ip6tables", "-I", *hook)
        except (OSError, subprocess.SubprocessError) as error:
            log.info("no rules for IPv6: %s", _explain(error))

    def _missing(self, program: str) -> list[tuple[str, ...]]:
        rules = _list_rules(program)
        return [hook for hook in self._hooks(rules) if f"-A {' '.join(hook)}" not in rules]

    def _hooks(self, rules: Collection[str]) -> list[tuple[str, ...]]:
        # Docker puts its own rules in front of all others in FORWARD, but never in this chain.
        away = "DOCKER-USER" if DOCKER_CHAIN in rules else "FORWARD"
        here = ("-i", self._bridges, "-j")
        return [("INPUT", *here, self._to_node), (away, *here, self._through)]

    def _warn(self, text: str) -> None:
        if not self._has_warned:
            log.warning("%s; `pit-worker doctor` says more", text)
        self._has_warned = True


def _tag(spool: Path) -> str:
    # Not of the cluster: two workers of one may be on one machine, with different settings.
    return hashlib.sha256(str(spool).encode()).hexdigest()[:4]


def _prefix(spool: Path) -> str:
    return f"pit{_tag(spool)}-"


def _table(chains: dict[str, list[str]]) -> str:
    # A chain that is named anew here is emptied first.
    heads = [f":{name} - [0:0]" for name in chains]
    rules = [f"-A {name} {rule}" for name, rules in chains.items() for rule in rules]
    return "\n".join(["*filter", *heads, *rules, "COMMIT", ""])


def _name_servers(file: Path) -> list[Place]:
    """Whom containers ask for names, by way of Docker; they may be on this very machine."""
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
                found.append(Place(IPv4Network(address), DNS_PORT))
    return found


def _find(program: str) -> str | None:
    return shutil.which(program, path=f"{SEARCH_PATH}:{os.environ.get('PATH', '')}")


def _list_rules(program: str) -> list[str]:
    """All chains and rules, in one call; none where they cannot be read."""
    try:
        return _run(program, "-S").splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def _run(program: str, *words: str) -> str:
    command = [_find(program) or program, "-w", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.stdout


def _restore(program: str, table: str) -> None:
    command = [_find(program) or program, "-w", "--noflush"]
    subprocess.run(command, input=table, check=True, capture_output=True, text=True, timeout=PATIENCE_S)


def _succeeds(program: str, *words: str) -> bool:
    try:
        _run(program, *words)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def _explain(error: Exception) -> str:
    told = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
    return (told or str(error)).strip().splitlines()[0]
