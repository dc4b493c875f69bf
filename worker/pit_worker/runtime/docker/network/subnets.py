"""Addresses for private networks: small subnets of a pool that nothing else on this machine uses."""

import socket
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import IPv4Network
from pathlib import Path

ROUTES = Path("/proc/net/route")
SMALLEST = 27  # prefix length: room for 29 containers
NOT_FOR_CONTAINERS = 3  # the subnet's own address, its gateway's, and the broadcast address


def choose(
    pools: Sequence[IPv4Network], containers: int, taken: Iterable[IPv4Network], seed: str
) -> Iterator[IPv4Network]:
    """Free subnets for so many containers; the search begins at `seed`, so that two workers differ."""
    bits = min(SMALLEST, 32 - (containers + NOT_FOR_CONTAINERS - 1).bit_length())
    for pool in pools:
        count = 2 ** (bits - pool.prefixlen) if bits >= pool.prefixlen else 0
        used = [subnet for subnet in taken if subnet.overlaps(pool)]
        first = zlib.crc32(seed.encode()) % max(count, 1)
        for step in range(count):
            start = int(pool.network_address) + ((first + step) % count << (32 - bits))
            subnet = IPv4Network((start, bits))
            if not any(subnet.overlaps(each) for each in used):
                yield subnet


def read_routes() -> list[IPv4Network]:
    """The networks to which this machine has routes, except the default route."""
    return parse_routes(ROUTES.read_text().splitlines()[1:])


def parse_routes(lines: Iterable[str]) -> list[IPv4Network]:
    fields = (line.split() for line in lines)
    pairs = ((_address(field[1]), _address(field[7])) for field in fields)
    return [IPv4Network(f"{place}/{mask}") for place, mask in pairs if mask != "0.0.0.0"]  # noqa: S104


def _address(text: str) -> str:
    return socket.inet_ntoa(struct.pack("=I", int(text, 16)))
