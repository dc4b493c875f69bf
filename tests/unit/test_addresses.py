"""Which addresses the head contacts on a user's behalf."""

import socket
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest

from pit_protocol.problem import Problem
from pit_server.store.remotes import addresses


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make names resolve to these addresses."""

    def set_to(*found: str) -> None:
        def look_up(_host: str, port: int, **_: Any) -> list[Any]:
            return [(0, 0, 0, "", (address, port)) for address in found]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)

    return set_to


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.8.9.10",
        "0.0.0.0",
        "0.1.2.3",
        "169.254.169.254",
        "224.0.0.1",
        "255.255.255.255",
        "100.100.100.200",
        "::1",
        "::",
        "fe80::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "fd00:ec2::254",
    ],
)
def test_local_and_link_local_addresses_are_refused(text: str) -> None:
    assert addresses.is_refused(ip_address(text))


@pytest.mark.parametrize("text", ["203.0.113.7", "10.20.30.40", "192.168.200.9", "2001:db8::1", "fd12::7"])
def test_public_and_private_networks_are_allowed(text: str) -> None:
    assert not addresses.is_refused(ip_address(text))


def test_the_machines_own_address_is_refused() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            own = probe.getsockname()[0]
        except OSError:
            own = "127.0.0.1"  # a machine without network has no other
    assert addresses.is_refused(ip_address(own))


@pytest.mark.parametrize("host", ["0x7f.1", "2130706433", "127.1", "localhost", "0", "017700000001"])
def test_alternative_notations_of_refused_addresses_are_refused(host: str) -> None:
    with pytest.raises(Problem, match="does not connect to"):
        addresses.find(host, 443, ())


def test_one_refused_address_among_others_refuses_the_host(resolve: Callable[..., None]) -> None:
    resolve("203.0.113.7", "127.0.0.1")
    with pytest.raises(Problem, match=r"127\.0\.0\.1"):
        addresses.find("git.example.org", 443, ())


def test_an_admin_can_allow_a_host_by_name_or_address(resolve: Callable[..., None]) -> None:
    resolve("127.0.0.1")
    for allowed in (("git.example.org",), ("127.0.0.1",), ("*",)):
        assert addresses.find("git.example.org", 443, allowed) == ["127.0.0.1"]


def test_an_unresolvable_host_has_a_clear_error() -> None:
    with pytest.raises(Problem, match=r"cannot resolve nosuchhost\.invalid"):
        addresses.find("nosuchhost.invalid", 443, ())
