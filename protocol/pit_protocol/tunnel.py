"""A way from this machine's loopback to a head, for programs that cannot know it by its certificate.

It hands bytes on and nothing more: who speaks through it has to bring a token of his own.
"""

import asyncio
import ssl
import threading
import time
from contextlib import suppress
from types import TracebackType
from urllib.parse import urlsplit

from pit_protocol.pinning import PinnedContext, check_pin

LOOPBACK = "127.0.0.1"
BLOCK = 256 * 1024
CONNECT_S = 10.0
AGAIN_S = 2.0  # the same, with a head that did not answer the last time
CLOSE_S = 1.0
PAUSE_S, MOST_PAUSE_S = 0.1, 5.0  # between two tries to reach the head


class Tunnel:
    """Listens from `with` to its end, in a thread of its own.

    A head that is away is waited for, up to `patience_s` since it was missed first: a mount is then slow, not
    broken. After that whoever comes is turned away soon, until it is back.
    """

    def __init__(self, url: str, context: ssl.SSLContext | None, patience_s: float = 0.0) -> None:
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._path = parts.path.rstrip("/")
        self._context = context
        self._patience_s = patience_s
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
        """Whether the head takes connections; it is waited for as by whoever comes."""
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
        await asyncio.sleep(0)  # in which the loop lets go of the last sockets

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
            pass  # whoever came sees a connection that ends
        finally:
            for each in writers:
                await _end(each)
            self._tasks.discard(task)

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        pause_s = PAUSE_S
        while True:
            try:
                found = await self._connect(CONNECT_S if self._lost_at is None else AGAIN_S)
            except (OSError, TimeoutError):
                self._lost_at = self._lost_at or time.monotonic()
                if time.monotonic() + pause_s > self._lost_at + self._patience_s:
                    raise
            else:
                self._lost_at = None
                return found
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, MOST_PAUSE_S)

    async def _connect(self, within_s: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = self._host if self._context else None
        opening = asyncio.open_connection(
            self._host, self._port, ssl=self._context, server_hostname=name, limit=BLOCK
        )
        reader, writer = await asyncio.wait_for(opening, within_s)
        if isinstance(self._context, PinnedContext):
            try:
                # Before a single byte is sent: asyncio does not come by where a context checks it itself.
                check_pin(self._context, writer.get_extra_info("ssl_object"))
            except ssl.SSLError:
                await _end(writer)
                raise
        return reader, writer


async def _end(writer: asyncio.StreamWriter) -> None:
    """Close a connection when all is written, and wait for that, but not for long."""
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
