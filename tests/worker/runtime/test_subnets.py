"""Addresses for private networks."""

from ipaddress import IPv4Network
from itertools import islice

import pytest

from pit_worker.network_ranges import parse_pools
from pit_worker.runtime.docker.network.subnets import choose, parse_routes

POOL = parse_pools("10.213.0.0/16")


def test_a_pool_has_room_for_two_thousand_networks_none_twice():
    subnets = list(choose(POOL, 1, [], "a"))
    assert len(set(subnets)) == len(subnets) == 2048
    assert {subnet.prefixlen for subnet in subnets} == {27}


@pytest.mark.parametrize(("containers", "bits"), [(1, 27), (29, 27), (30, 26), (61, 26), (62, 25), (253, 24)])
def test_a_subnet_has_room_for_all_containers_and_the_gateway(containers: int, bits: int):
    assert next(choose(POOL, containers, [], "")).prefixlen == bits


def test_subnets_in_use_are_skipped_and_the_next_pool_follows():
    pools = parse_pools("10.213.0.0/26, 172.30.0.0/27")
    taken = [IPv4Network("10.213.0.0/27"), IPv4Network("192.168.0.0/16")]
    assert list(map(str, choose(pools, 1, taken, "x"))) == ["10.213.0.32/27", "172.30.0.0/27"]
    assert list(map(str, choose(pools, 1, [IPv4Network("10.0.0.0/8")], "x"))) == ["172.30.0.0/27"]
    assert list(choose(pools, 1000, [], "x")) == []


def test_two_workers_begin_at_different_subnets():
    firsts = {next(choose(POOL, 1, [], f"pit-{number}")) for number in range(50)}
    assert len(firsts) > 40
    assert len(list(islice(choose(POOL, 1, [], "pit-7"), 5))) == 5


def test_routes_are_parsed():
    lines = [
        "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0",
        "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0",
    ]
    assert parse_routes(lines) == [IPv4Network("172.17.0.0/16")]
