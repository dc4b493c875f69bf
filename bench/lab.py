"""A whole lab at work: simulated nodes run short jobs of many users, who look at them in between."""

import asyncio
import json
import multiprocessing
import random
import time
from collections.abc import Awaitable
from concurrent.futures import ProcessPoolExecutor

from bench.crowd_client import Ask, Place, exchange
from bench.crowd_setup import Probe, admit, find_place, raise_limit
from bench.sizes import Sizes
from bench.submitting import connect
from bench.table import Row, percentile, time_row
from pit_protocol.messages.beat import (
    BEAT_TYPE,
    Beat,
    Hello,
    Inventory,
    OrderAction,
    Orders,
    Report,
    pack_beat,
)
from pit_protocol.states import ProcessState
from pit_protocol.wire import decode, encode
from tests.support.clusters.head import a_submission
from tests.support.clusters.local import Cluster, eventually

GOAL_S = 0.1
RUN_S = 20.0  # of each process
PAUSE_S = 6.0  # of a user between two looks, on average
SUBMITS_EACH = 10  # every so many looks, a user submits a job
JSON = "application/json"


def measure(cluster: Cluster, sizes: Sizes) -> list[Row]:
    nodes, users = admit(cluster, sizes.lab_nodes, sizes.lab_users, admins=False)
    context = multiprocessing.get_context("spawn")
    with connect(cluster) as head, ProcessPoolExecutor(1, context) as pool:
        place = find_place(head.connection.url)
        working = context.Process(target=_run_nodes, args=(place, nodes, sizes.crowd_settle_s), daemon=True)
        working.start()
        try:
            time.sleep(sizes.crowd_settle_s)  # until the nodes have joined
            probe = Probe(cluster)
            probe.times, submits = pool.submit(_run_users, place, users, sizes.lab_s).result()
            probe.finish()
            eventually(lambda: _count(cluster, "state=ended") == len(submits), within_s=600)
            succeeded = _count(cluster, "outcome=succeeded")
        finally:
            working.kill()
            working.join()
    if succeeded != len(submits):
        raise RuntimeError(f"of {len(submits)} jobs {succeeded} succeeded")
    name = f"{len(nodes):,} nodes, {len(users):,} users, {sizes.lab_s:.0f} s"
    return [
        *probe.rows(name),
        time_row(f"submission, {name}, p99", percentile(submits, 0.99), GOAL_S),
        Row(f"jobs, all succeeded, {name}", f"{succeeded}"),
    ]


def _count(cluster: Cluster, query: str) -> int:
    return int(cluster.get(f"/jobs?{query}&limit=1")["total"])


def _run_users(place: Place, tokens: list[str], seconds: float) -> tuple[list[float], list[float]]:
    """The times of their looks and of their submissions."""
    raise_limit()
    looks: list[float] = []
    submits: list[float] = []

    async def timed(times: list[float], answer: Awaitable[bytes]) -> bytes:
        began = time.monotonic()
        body = await answer
        times.append(time.monotonic() - began)
        return body

    async def use(index: int, token: str) -> None:
        dice, turn, number = random.Random(index), 0, 0
        async for ask in exchange(place, token):
            await asyncio.sleep(dice.uniform(0, 2 * PAUSE_S))
            turn += 1
            if turn % SUBMITS_EACH == 1:
                body = json.dumps(a_submission(key=f"lab-{index}-{turn}")).encode()
                number = json.loads(await timed(submits, ask("POST", "/jobs", body, JSON)))["number"]
            else:
                paths = ("/me", "/status?limit=20", f"/jobs/{number}", f"/jobs/{number}/log")
                await timed(looks, ask("GET", dice.choice(paths)))

    _run_for(seconds, [use(index, token) for index, token in enumerate(tokens)])
    return looks, submits


def _run_nodes(place: Place, tokens: list[str], join_s: float) -> None:
    """Nodes that join one after the other, and work until this process is killed."""
    raise_limit()
    pause_s = join_s / len(tokens)
    _run_for(None, [_work(place, token, index * pause_s) for index, token in enumerate(tokens)])


async def _work(place: Place, token: str, delay_s: float) -> None:
    """What a worker says whose processes all succeed after the same time."""
    await asyncio.sleep(delay_s)
    ends: dict[int, tuple[int, float]] = {}  # of each process: its attempt, and when it ends
    epoch, seen, hold_s = 0, 0, 0.0
    async for ask in exchange(place, token):
        epoch = epoch or await _join(ask)
        now = time.monotonic()
        running = [end - now for _, end in ends.values() if end > now]
        reports = tuple(_report(process, attempt, end <= now) for process, (attempt, end) in ends.items())
        beat = Beat(epoch, "boot", seen, min([hold_s, *running]), reports)
        orders = decode(Orders, await ask("POST", "/node/beat", pack_beat(beat, []), BEAT_TYPE))
        seen, hold_s = max(seen, orders.revision), orders.hold_s or hold_s
        for order in orders.orders:
            if order.action is OrderAction.FORGET:
                ends.pop(order.process, None)
            else:
                ends.setdefault(order.process, (order.attempt, time.monotonic() + RUN_S))


async def _join(ask: Ask) -> int:
    hello = Hello("boot", Inventory(1, 1024), "n.lab", separates_users=True, trouble="")
    return int(json.loads(await ask("POST", "/node/session", encode(hello), JSON))["epoch"])


def _report(process: int, attempt: int, has_ended: bool) -> Report:
    if has_ended:
        return Report(process, attempt, ProcessState.ENDED, exit_code=0)
    return Report(process, attempt, ProcessState.RUNNING)


def _run_for(seconds: float | None, tasks: list[Awaitable[None]]) -> None:
    """Run them all until time is up; if one fails, so does the whole."""

    async def run() -> None:
        try:
            async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
                for task in tasks:
                    group.create_task(task)  # type: ignore[arg-type]
        except TimeoutError:
            pass

    asyncio.run(run())
