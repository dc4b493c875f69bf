"""Short requests while a crowd holds connections and attackers open more."""

import asyncio
import http.client
import json
import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from urllib.parse import urlsplit

from bench.crowd_client import Place, exchange, open_idle
from bench.sizes import Sizes
from bench.submitting import connect, snapshot, submit
from bench.table import Row, percentile, seconds, time_row
from pit_protocol import API_PREFIX
from pit_protocol.messages.beat import BEAT_TYPE, Beat, Hello, Inventory, pack_beat
from pit_protocol.version_check import HEADERS
from pit_protocol.wire import encode
from pit_server.db.database import Database
from pit_server.services.nodes import nodes
from pit_server.services.users import accounts, tokens
from pit_server.wakeups import Wakeups
from tests.support.clusters.local import Cluster, eventually

GOAL_S = 0.1
FOLLOWERS_PER_USER = 50  # `user_held`
ADDRESSES = 20  # of those who guess passwords
PROBES_PER_S = 20
ARRIVE_S = 0.02  # between two of the crowd, which keep that distance when they ask again


def measure(cluster: Cluster, sizes: Sizes) -> list[Row]:
    _raise_limit()
    with connect(cluster) as head:
        number = submit(head, snapshot(cluster, head), "sleep 600").number
        eventually(lambda: head.job(number).state == "running")
        beats, followers = _admit(cluster, sizes)
        place = _place(head.connection.url)
        with _crowd(place, beats, followers, number) as is_there:
            eventually(is_there, within_s=600)
            time.sleep(sizes.crowd_settle_s)
            held = _probe(cluster, place, followers[0], sizes.short_requests)
            with (
                open_idle(place, sizes.idle_connections),
                open_idle(place, sizes.one_byte_connections, b"G"),
                ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as attacker,
            ):
                attacker.submit(os.getpid).result()  # it has started
                guesses = attacker.submit(_guess_all, place, sizes.bad_logins)
                attacked = _probe(cluster, place, followers[0], sizes.short_requests)
                refused = guesses.result()
        head.stop(number)
    if not refused <= {401, 429, 503}:
        raise RuntimeError(f"guessed passwords were answered with {sorted(refused)}")
    name = f"{len(beats):,} beats, {len(followers):,} followers"
    return [*_rows(name, held), *_rows(f"{name}, attacked", attacked)]


class Probed:
    """The times of short requests, and what the head used meanwhile."""

    def __init__(self, cluster: Cluster) -> None:
        self.times: list[float] = []
        self._pids = _family(cluster.pid("head"))
        self._cpu, self.began = self._cpu_s(), time.monotonic()

    def finish(self) -> None:
        self.cores = (self._cpu_s() - self._cpu) / (time.monotonic() - self.began)
        self.mib = sum(_resident(pid) for pid in self._pids) / 1024

    def _cpu_s(self) -> float:
        fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in self._pids]
        return sum(int(line[11]) + int(line[12]) for line in fields) / os.sysconf("SC_CLK_TCK")


def _probe(cluster: Cluster, place: Place, token: str, count: int) -> Probed:
    """Ask for something short at a steady rate."""
    probed = Probed(cluster)
    connection = http.client.HTTPConnection(*place, timeout=120)
    headers = {"Authorization": f"Bearer {token}", **HEADERS}
    for index in range(count):
        time.sleep(max(0.0, probed.began + index / PROBES_PER_S - time.monotonic()))

        def ask() -> None:
            connection.request("GET", f"{API_PREFIX}/me", headers=headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"a short request was answered with {answer.status}")

        probed.times.append(seconds(ask))
    connection.close()
    probed.finish()
    return probed


def _rows(name: str, probed: Probed) -> list[Row]:
    return [
        time_row(f"short request, {name}, p50", percentile(probed.times, 0.5), GOAL_S),
        time_row(f"short request, {name}, p99", percentile(probed.times, 0.99), GOAL_S),
        Row(f"head's memory and cores, {name}", f"{probed.mib:.0f} MiB, {probed.cores:.2f}"),
    ]


def _admit(cluster: Cluster, sizes: Sizes) -> tuple[list[str], list[str]]:
    """The tokens of new nodes, and one for each follower; written directly to the database."""
    database = Database(f"sqlite:///{cluster.home / 'head' / 'pit.db'}", Wakeups())
    now = time.time()
    beats, followers = [], []
    with database.write() as session:
        for index in range(sizes.held_beats):
            node = nodes.add(session, f"crowd{index}", now=now)
            beats.append(tokens.issue(session, node_id=node.id, now=now, expires_at=None)[1])
        for index in range(-(-sizes.followers // FOLLOWERS_PER_USER)):
            user = accounts.add(session, f"crowd{index}", is_admin=True, now=now)
            token = tokens.issue(session, user_id=user.id, now=now, expires_at=None)[1]
            followers += [token] * FOLLOWERS_PER_USER
    database.dispose()
    return beats, followers[: sizes.followers]


@contextmanager
def _crowd(place: Place, beats: list[str], followers: list[str], number: int) -> Iterator[Callable[[], bool]]:
    """Hold the connections in a process of its own; yields what says whether all have been answered once."""
    context = multiprocessing.get_context("spawn")
    is_complete = context.Event()
    process = context.Process(
        target=_run_crowd, args=(place, beats, followers, number, is_complete), daemon=True
    )
    process.start()

    def is_there() -> bool:
        if not process.is_alive():
            raise RuntimeError("the crowd has left")
        return is_complete.is_set()

    try:
        yield is_there
    finally:
        process.kill()
        process.join()


def _run_crowd(
    place: Place,
    beats: list[str],
    followers: list[str],
    number: int,
    is_complete: Event,
) -> None:
    _raise_limit()

    async def run() -> None:
        left = [len(beats) + len(followers)]

        def arrive() -> None:
            left[0] -= 1
            if not left[0]:
                is_complete.set()

        async with asyncio.TaskGroup() as group:
            for token in beats:
                group.create_task(_listen(place, token, arrive))
                await asyncio.sleep(ARRIVE_S)
            for token in followers:
                group.create_task(_follow(place, token, number, arrive))
                await asyncio.sleep(ARRIVE_S)

    asyncio.run(run())


async def _listen(place: Place, token: str, arrive: Callable[[], None]) -> None:
    """What a worker does while nothing happens, without the full beats."""
    hold_s, epoch, seen = 0.0, 0, 0
    async for ask in exchange(place, token):
        if not epoch:
            hello = encode(Hello("boot", Inventory(1, 1), "n.lab"))
            epoch = json.loads(await ask("POST", "/node/session", hello, "application/json"))["epoch"]
        beat = pack_beat(Beat(epoch, "boot", seen, wait_s=hold_s), [])
        orders = json.loads(await ask("POST", "/node/beat", beat, BEAT_TYPE))
        if not hold_s:
            arrive()
        hold_s, seen = orders["hold_s"], orders["revision"]


async def _follow(place: Place, token: str, number: int, arrive: Callable[[], None]) -> None:
    cursor = ""
    async for ask in exchange(place, token):
        answer = json.loads(
            await ask("GET", f"/jobs/{number}/log?cursor={cursor}&wait_s={10 if cursor else 0}")
        )
        if not cursor:
            arrive()
        cursor = answer["cursor"]


def _guess_all(place: Place, count: int) -> set[int]:
    """The statuses of wrong passwords, all sent at once; in a process of its own."""
    with ThreadPoolExecutor(count) as pool:
        return set(pool.map(lambda index: _guess(place, index), range(count)))


def _guess(place: Place, index: int) -> int:
    """The answer to a wrong password, from one of several addresses."""
    body = json.dumps({"name": f"crowd{index % 3}", "password": f"guess {index:05}", "label": ""})
    source = (f"127.0.0.{2 + index % ADDRESSES}", 0)
    connection = http.client.HTTPConnection(*place, timeout=120, source_address=source)
    try:
        connection.request("POST", f"{API_PREFIX}/login", body, {"Content-Type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


def _place(url: str) -> Place:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0


def _family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(int(child) for child in children)]


def _resident(pid: int) -> int:
    """KiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _raise_limit() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
