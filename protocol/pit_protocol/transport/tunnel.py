"""A tunnel from loopback to a head, for programs that cannot pin its certificate.

It only passes bytes on: each client needs a token of its own.
"""

import asyncio
import ssl
import threading
import time
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit

from pit_protocol.backoff import Backoff
from pit_protocol.transport.pinning import PinnedContext, check_pin

LOOPBACK = "127.0.0.1"
BLOCK = 256 * 1024
CONNECT_S = 10.0
AGAIN_S = 2.0  # the same, after a try that failed
CLOSE_S = 1.0
PAUSE_S, MOST_PAUSE_S = 0.1, 5.0  # between two tries to reach the head


class Tunnel:
    """Listens inside the `with` block, in a thread of its own.

    Connections wait for a head that is away, up to `wait_s` since it was first missed: a mount is then slow,
    not broken. After that, connections fail soon, until the head is back.
    """

    def __init__(self, url: str, context: ssl.SSLContext | None, wait_s: float = 0.0) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._path = parts.path.rstrip("/")
        self._context = context
        self._wait_s = wait_s
        self._lost_at: float | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tunnel", daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self.url = ""

    def __enter__(self) -> "Tunnel":
        self._thread.start()
        listening = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, LOOPBACK, 0), self._loop
        )
        self._server = listening.result(CONNECT_S)
        self.url = f"http://{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}{self._path}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(CONNECT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CONNECT_S)
        self._loop.close()

    def is_open(self) -> bool:
        """Whether the head accepts connections; waits for it like a connection does."""
        try:
            asyncio.run_coroutine_threadsafe(self._knock(), self._loop).result()
        except OSError:
            return False
        return True

    async def _knock(self) -> None:
        _, writer = await self._reach()
        await _end(writer)

    async def _close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # lets the loop close the last sockets

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task  # noqa: S101
        self._tasks.add(task)
        writers = [writer]
        try:
            there, away = await self._reach()
            writers.append(away)
            pumps = {asyncio.create_task(_pump(reader, away)), asyncio.create_task(_pump(there, writer))}
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            pass  # the client sees a closed connection
        finally:
            for each in writers:
                await _end(each)
            self._tasks.discard(task)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        backoff = Backoff(PAUSE_S, MOST_PAUSE_S)
        while True:
            pause_s = backoff.delay_s()
            try:
                found = await self._connect(CONNECT_S if self._lost_at is None else AGAIN_S)
            except (OSError, TimeoutError):
                self._lost_at = self._lost_at or time.monotonic()
                if time.monotonic() + pause_s > self._lost_at + self._wait_s:
                    raise
            else:
                self._lost_at = None
                return found
            await asyncio.sleep(pause_s)

    async def _connect(self, within_s: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = self._host if self._context else None
        opening = asyncio.open_connection(
            self._host, self._port, ssl=self._context, server_hostname=name, limit=BLOCK
        )
        reader, writer = await asyncio.wait_for(opening, within_s)
        if isinstance(self._context, PinnedContext):
            try:
                # Before a single byte is sent: asyncio does not call the context's own check.
                check_pin(self._context, writer.get_extra_info("ssl_object"))
            except ssl.SSLError:
                await _end(writer)
                raise
        return reader, writer


async def _end(writer: asyncio.StreamWriter) -> None:
    """Close a connection after its last write, and wait briefly for that."""
    writer.close()
    try:
        await asyncio.wait_for(writer.wait_closed(), CLOSE_S)
    except (OSError, TimeoutError, asyncio.CancelledError):
        writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(BLOCK):
            writer.write(data)
            await writer.drain()
