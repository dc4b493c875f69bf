"""Short requests while a crowd holds connections and attackers open more."""

import asyncio
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Event

from bench.crowd_client import Place, exchange, guess_all, open_idle
from bench.crowd_setup import admit, find_place, probe, raise_limit
from bench.sizes import Sizes
from bench.submitting import connect, snapshot, submit
from bench.table import Row
from pit_protocol.messages.beat import BEAT_TYPE, Beat, Hello, Inventory, pack_beat
from pit_protocol.wire import encode
from tests.support.clusters.local import Cluster, eventually

FOLLOWERS_PER_USER = 50  # `user_held`
ARRIVE_S = 0.02  # between two of the crowd, which keep that distance when they ask again


def measure(cluster: Cluster, sizes: Sizes) -> list[Row]:
    raise_limit()
    with connect(cluster) as head:
        number = submit(head, snapshot(cluster, head), "sleep 600").number
        eventually(lambda: head.job(number).state == "running")
        users = -(-sizes.followers // FOLLOWERS_PER_USER)
        beats, users_tokens = admit(cluster, sizes.held_beats, users, admins=True)
        followers = [token for token in users_tokens for _ in range(FOLLOWERS_PER_USER)][: sizes.followers]
        place = find_place(head.connection.url)
        with _crowd(place, beats, followers, number) as is_there:
            eventually(is_there, within_s=600)
            time.sleep(sizes.crowd_settle_s)
            held = probe(cluster, place, followers[0], sizes.short_requests)
            with (
                open_idle(place, sizes.idle_connections),
                open_idle(place, sizes.one_byte_connections, b"G"),
                ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as attacker,
            ):
                attacker.submit(os.getpid).result()  # it has started
                guesses = attacker.submit(guess_all, place, sizes.bad_logins)
                attacked = probe(cluster, place, followers[0], sizes.short_requests)
                refused = guesses.result()
        head.stop(number)
    if not refused <= {401, 429, 503}:
        raise RuntimeError(f"guessed passwords were answered with {sorted(refused)}")
    name = f"{len(beats):,} beats, {len(followers):,} followers"
    return [*held.rows(name), *attacked.rows(f"{name}, attacked")]


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
    raise_limit()

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
