"""Short requests of one user while another attacks the head, one attack after the other."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bench.crowd_client import Place, guess_all, open_idle
from bench.crowd_setup import admit, find_place, probe, raise_limit
from bench.sizes import Sizes
from bench.submitting import connect, snapshot, submit, wait
from bench.table import Row, percentile, time_row
from pit.connect.connection import Connection
from pit.head.client import Head
from pit_protocol import API_PREFIX
from tests.support.clusters.local import Cluster

GOAL_S = 0.1
SPARSE_BYTES = 8 * 1000**4
DEPTH = 12  # of the directories that a pattern walks

Attack = Callable[[], AbstractContextManager[None]]


def measure(cluster: Cluster, sizes: Sizes) -> list[Row]:
    raise_limit()
    with connect(cluster) as owner:
        place, mine = find_place(owner.connection.url), owner.connection.token or ""
        _, [token] = admit(cluster, 0, 1, admins=False)
        attacker = Head(Connection(owner.connection.url, owner.connection.source, token, Path()))
        attacks = {
            "none": lambda: open_idle(place, 0),
            **_connections(place, sizes),
            **_requests(cluster, attacker, place, sizes),
        }
        rows = []
        for name, attack in attacks.items():
            with attack():
                probed = probe(cluster, place, mine, sizes.attack_probes)
            what = f"short request, attacked by {name}, p99 (head: {probed.mib:.0f} MiB)"
            rows.append(time_row(what, percentile(probed.times, 0.99), GOAL_S))
    return rows


def _connections(place: Place, sizes: Sizes) -> dict[str, Attack]:
    """Attacks by people who have no account."""

    @contextmanager
    def guess() -> Iterator[None]:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(guess_all, place, sizes.bad_logins)
            yield

    return {
        f"{sizes.one_byte_connections} connections of one byte": lambda: open_idle(
            place, sizes.one_byte_connections, b"G"
        ),
        f"{sizes.idle_connections:,} idle connections": lambda: open_idle(place, sizes.idle_connections),
        f"{sizes.bad_logins} wrong passwords from 20 addresses": guess,
    }


def _requests(cluster: Cluster, attacker: Head, place: Place, sizes: Sizes) -> dict[str, Attack]:
    """Attacks by a user, who sends requests and never reads the answers."""
    [node] = cluster.get("/nodes")["nodes"]
    cluster.ok("set", f"node:{node['name']}", "shared_account=yes")  # for jobs of two users
    code = snapshot(cluster, attacker)
    nul = f"for i in $(seq {sizes.attack_lines}); do head -c {sizes.attack_line_bytes} /dev/zero; echo; done"
    running = submit(attacker, code, "sleep 3600").number
    lines = submit(attacker, code, nul).number
    endless = submit(attacker, code, f"head -c {sizes.attack_bytes} /dev/zero").number
    large = submit(attacker, code, f"head -c {sizes.attack_bytes} /dev/urandom > $JOB_DIR/keep/large").number
    for number in (lines, endless, large):
        if (outcome := wait(attacker, number).outcome) != "succeeded":
            raise RuntimeError(f"job {number} {outcome}")
    home = cluster.home / "head" / "data" / "home" / "crowd0"
    _fill(home)

    def ask(count: int, path: str) -> Attack:
        lines = (
            f"GET {API_PREFIX}{path} HTTP/1.1",
            f"Host: {place[0]}:{place[1]}",
            f"Authorization: Bearer {attacker.connection.token}",
            "",
            "",
        )
        return lambda: open_idle(place, count, "\r\n".join(lines).encode())

    return {
        "300 followers": ask(300, f"/jobs/{running}/log?wait_s=10"),
        "140 stalled readers of archives": ask(140, f"/jobs/{large}/archive"),
        "40 hashes of a file of 8 TB": ask(40, "/files/home/sparse?sha256=yes"),
        "40 patterns of four **": ask(40, "/files/home/deep?glob=**/**/**/**/x"),
        "40 tails of lines of NUL": ask(40, f"/jobs/{lines}/log?tail=10000"),
        "40 tails of an endless line": ask(40, f"/jobs/{endless}/log?tail=1"),
    }


def _fill(home: Path) -> None:
    """A sparse file, and directories in which a pattern finds many ways."""
    home.mkdir(exist_ok=True)
    (home / "sparse").touch()
    os.truncate(home / "sparse", SPARSE_BYTES)
    folder = home / "deep"
    for _ in range(DEPTH):
        for name in ("a", "b", "c"):
            (folder / name).mkdir(parents=True)
        folder /= "a"
