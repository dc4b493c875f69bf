"""Which addresses the head contacts on a user's behalf: not itself, and no service that only it can reach.

The checked address is the one that is used, because a second lookup could return another.
"""

import ipaddress
import socket
from collections.abc import Collection

from pit_protocol.problem import Problem

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
THIS_NETWORK = ipaddress.ip_network("0.0.0.0/8")
NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Metadata services of clouds that are not link-local.
METADATA = {ipaddress.ip_address(text) for text in ("fd00:ec2::254", "100.100.100.200")}
ALL = "*"


def find(host: str, port: int, local_hosts: Collection[str]) -> list[str]:
    """The addresses of `host`; a Problem if it has none, or one that is refused."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except (OSError, UnicodeError) as error:
        raise Problem(
            "no_such_host", f"the head cannot resolve {host}", "`git remote -v` shows it", status=422
        ) from error
    addresses = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))
    if ALL in local_hosts or host in local_hosts:
        return addresses
    for text in addresses:
        if text not in local_hosts and is_refused(ipaddress.ip_address(text)):
            raise Problem(
                "address_refused",
                f"the head does not connect to {host}, which is {text}",
                "an admin can allow it with the setting `git_local_hosts`",
                status=422,
            )
    return addresses


def is_refused(address: Address) -> bool:
    """Whether it is the head's own machine or link-local, also embedded in an IPv6 address."""
    inner = _embedded_ipv4(address)
    if inner is not None and is_refused(inner):
        return True
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or address in METADATA
        or (address.version == 4 and (address in THIS_NETWORK or address == ipaddress.ip_address(2**32 - 1)))
        or _is_own(address)
    )


def _embedded_ipv4(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that is embedded in an IPv6 one."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _is_own(address: Address) -> bool:
    """Whether it is an address of this machine: only those can be bound."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True
