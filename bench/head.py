"""The head alone: a worker whose processes end at once, so that what is measured is the head's own work."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.crowd_client import Ask, Place, exchange
from bench.sizes import Sizes
from bench.table import Row
from pit_protocol.messages.beat import (
    BEAT_TYPE,
    Beat,
    ChunkHead,
    Hello,
    Inventory,
    Order,
    OrderAction,
    Orders,
    Report,
    pack_beat,
)
from pit_protocol.states import ProcessState
from pit_protocol.wire import decode, encode
from pit_server.app import create_head
from pit_server.services.nodes import nodes
from pit_server.services.users import accounts, tokens
from pit_server.settings import Settings
from tests.support.clusters.head import a_submission
from tests.support.clusters.local import eventually

JSON = "application/json"
SINGLE_GOAL_MS, ELEMENT_GOAL_MS = 6.0, 1.5
LINE = b"one line\n"
CORES = 64  # of the node: it never is what the jobs wait for


@dataclass(frozen=True)
class LoneHead:
    """A head in a process of its own, with a user and a node that nobody else uses."""

    place: Place
    user: str  # tokens
    node: str
    pid: int  # of the process that serves

    def cpu_s(self) -> float:
        """What it has used itself, without the git commands that it has run."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(sizes: Sizes) -> list[Row]:
    with tempfile.TemporaryDirectory() as home, serving(Path(home)) as head:
        return asyncio.run(_measure(head, sizes))


async def _measure(head: LoneHead, sizes: Sizes) -> list[Row]:
    working = asyncio.create_task(InstantWorker(head).run())
    rows = []
    try:
        await _run_jobs(head, 1, 1)  # fills its caches
        for clients in (1, 4):
            per_s, cpu_ms = await _timed(head, _run_jobs(head, sizes.short_jobs, clients), sizes.short_jobs)
            what = f"{sizes.short_jobs} single jobs, instant worker, {clients} client(s)"
            rows += _rows(what, per_s, cpu_ms, SINGLE_GOAL_MS)
        count = sizes.array_elements
        per_s, cpu_ms = await _timed(head, _run_array(head, count), count)
        rows += _rows(f"array of {count:,}, instant worker", per_s, cpu_ms, ELEMENT_GOAL_MS)
    finally:
        working.cancel()
    return rows


def _rows(what: str, per_s: float, cpu_ms: float, goal_ms: float) -> list[Row]:
    is_met = cpu_ms <= goal_ms
    return [
        Row(f"{what}, end to end", f"{per_s:.0f} /s"),
        Row(f"{what}, head's CPU each", f"{cpu_ms:.2f} ms", goal=f"≤ {goal_ms:g} ms", is_met=is_met),
    ]


async def _timed(head: LoneHead, work: "asyncio.Future[None] | object", count: int) -> tuple[float, float]:
    """How many per second, and milliseconds of CPU for each."""
    cpu, began = head.cpu_s(), time.monotonic()
    await work  # type: ignore[misc]
    return count / (time.monotonic() - began), (head.cpu_s() - cpu) / count * 1000


async def _run_jobs(head: LoneHead, count: int, clients: int) -> None:
    """Each client submits its jobs one after the other, and then waits for each."""

    async def use(share: int) -> None:
        async for ask in exchange(head.place, head.user):
            numbers = [await _submit(ask) for _ in range(share)]
            for number in numbers:
                await _wait(ask, number)
            return

    shares = [count // clients + (index < count % clients) for index in range(clients)]
    await asyncio.gather(*map(use, shares))


async def _run_array(head: LoneHead, count: int) -> None:
    async for ask in exchange(head.place, head.user):
        await _wait(ask, await _submit(ask, array=f"0-{count - 1}"))
        return


async def _submit(ask: Ask, **options: str) -> int:
    body = json.dumps(a_submission(key=os.urandom(16).hex(), **options)).encode()
    return int(json.loads(await ask("POST", "/jobs", body, JSON))["number"])


async def _wait(ask: Ask, number: int) -> None:
    while True:
        record = json.loads(await ask("GET", f"/jobs/{number}?wait_s=10"))
        if record["state"] == "ended":
            break
    if record["outcome"] != "succeeded":
        raise RuntimeError(f"job {number} ended {record['outcome']}: {record['reason']}")


class InstantWorker:
    """Speaks the beat over two connections, as a worker does; each process writes a line and succeeds."""

    def __init__(self, head: LoneHead) -> None:
        self._head = head
        self._reports: dict[int, Report] = {}
        self._unsent: dict[int, ChunkHead] = {}
        self._epoch = self._seen = 0
        self._hold_s = 0.0
        self._has_news = asyncio.Event()

    async def run(self) -> None:
        async for ask in exchange(self._head.place, self._head.node):
            hello = Hello("boot", Inventory(CORES, 2**20), "n.lab", separates_users=True, trouble="")
            welcome = json.loads(await ask("POST", "/node/session", encode(hello), JSON))
            self._epoch, self._hold_s = welcome["epoch"], welcome["hold_s"]
            break
        await asyncio.gather(self._listen(), self._speak())

    async def _listen(self) -> None:
        async for ask in exchange(self._head.place, self._head.node):
            await self._beat(ask, Beat(self._epoch, "boot", self._seen, self._hold_s), {})

    async def _speak(self) -> None:
        async for ask in exchange(self._head.place, self._head.node):
            await self._has_news.wait()
            self._has_news.clear()
            chunks, self._unsent = self._unsent, {}
            reports = tuple(self._reports.values())
            beat = Beat(self._epoch, "boot", self._seen, 0.0, reports, tuple(chunks.values()))
            await self._beat(ask, beat, chunks)

    async def _beat(self, ask: Ask, beat: Beat, chunks: dict[int, ChunkHead]) -> None:
        body = pack_beat(beat, [LINE] * len(chunks))
        orders = decode(Orders, await ask("POST", "/node/beat", body, BEAT_TYPE))
        self._hold_s = orders.hold_s or self._hold_s
        if orders.revision >= self._seen:
            self._seen = orders.revision
            for order in orders.orders:
                self._obey(order)

    def _obey(self, order: Order) -> None:
        if order.action is OrderAction.FORGET:
            self._reports.pop(order.process, None)
        elif order.process not in self._reports and order.spec is not None:
            now = time.time()
            self._reports[order.process] = Report(
                order.process,
                order.attempt,
                ProcessState.ENDED,
                len(LINE),
                exit_code=0,
                started_at=now,
                ended_at=now,
            )
            self._unsent[order.process] = ChunkHead(order.process, order.attempt, 0, len(LINE), now)
            self._has_news.set()


@contextmanager
def serving(home: Path, database_url: str = "") -> Iterator[LoneHead]:
    """Start a head in an empty directory; it ends with the block."""
    user, node = _admit(Settings(home=home, database_url=database_url))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place: Place = probe.getsockname()
    command = ["-m", "pit_server", "serve", "--home", str(home), "--bind", f"127.0.0.1:{place[1]}"]
    env = {**os.environ, "PIT_HEAD_DATABASE_URL": database_url, "PIT_HEAD_RESERVE_MIB": "0"}
    with (home / "head.log").open("wb") as log:
        head = subprocess.Popen([sys.executable, *command], env=env, stdout=log, stderr=log)
    try:
        yield LoneHead(place, user, node, eventually(lambda: _serving_pid(head.pid, place)))
    finally:
        head.terminate()
        head.wait(30)


def _admit(settings: Settings) -> tuple[str, str]:
    """The tokens of a new user and of a new node."""
    settings.home.mkdir(mode=0o700, exist_ok=True)
    head = create_head(settings)
    now = time.time()
    with head.database.write() as session:
        user = accounts.add(session, "anna", is_admin=False, now=now)
        node = nodes.add(session, "n0", now=now)
        of_user = tokens.issue(session, user_id=user.id, now=now, expires_at=None)[1]
        of_node = tokens.issue(session, node_id=node.id, now=now, expires_at=None)[1]
    head.database.dispose()
    return of_user, of_node


def _serving_pid(arbiter: int, place: Place) -> int | None:
    """The child of gunicorn's arbiter, as soon as it listens."""
    with socket.socket() as probe:
        if probe.connect_ex(place):
            return None
    children = Path(f"/proc/{arbiter}/task/{arbiter}/children").read_text().split()
    return int(children[0]) if children else None
