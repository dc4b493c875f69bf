"""Address ranges as settings write them: pools for private networks, and what these may reach."""

from dataclasses import dataclass
from ipaddress import IPv4Network


@dataclass(frozen=True)
class AllowedTarget:
    """An exception that private networks may reach."""

    subnet: IPv4Network
    port: int | None = None

    def rules(self) -> list[str]:
        if self.port is None:
            return [f"-d {self.subnet} -j RETURN"]
        return [f"-d {self.subnet} -p {kind} --dport {self.port} -j RETURN" for kind in ("udp", "tcp")]


def parse_allowed(text: str) -> tuple[AllowedTarget, ...]:
    """`10.0.0.7,10.0.0.8:2049,10.1.0.0/16`; raises ValueError."""
    places = []
    for part in (part.strip() for part in text.split(",") if part.strip()):
        subnet, colon, port = part.partition(":")
        if colon and not (port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"{port!r} is not a port")
        places.append(AllowedTarget(IPv4Network(subnet), int(port) if colon else None))
    return tuple(places)


def parse_pools(text: str) -> tuple[IPv4Network, ...]:
    """Pools from a list with commas; raises ValueError."""
    return tuple(IPv4Network(part.strip()) for part in text.split(",") if part.strip())
