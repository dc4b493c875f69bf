"""Processes in containers, behind the same interface as those of the machine itself.

The order is the safety: a container is made and started, its init is put on record, what it has
bound is looked at; then its scribe takes the claim and begins to read, and only now does the
command begin. Whatever dies in between, the next worker does the rest, and nothing twice.
"""

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from pit_protocol.beat import PRIVATE
from pit_worker import crash, occupants
from pit_worker.backoff import Backoff
from pit_worker.beginning import NO_GPUS, Beginning, NotBegun
from pit_worker.containers import container_name, is_own, network_name
from pit_worker.crew import Crew
from pit_worker.engine import Engine, EngineAway, EngineRefused, Found, Image
from pit_worker.engine_watch import EngineWatch
from pit_worker.entry import End, Entry, Record, read_stat
from pit_worker.environment import StartRefused
from pit_worker.firewall import Firewall, parse_places
from pit_worker.images import Images
from pit_worker.loop import Loop
from pit_worker.networks import Networks
from pit_worker.pulls import explain
from pit_worker.runtime import Begun, Settled, find_job_dir
from pit_worker.scribe import Scribes
from pit_worker.settings import Settings
from pit_worker.subnets import parse_pools
from pit_worker.verdicts import engine_started_at, judge

AT_ONCE = 8  # containers that are made, and that are seen to their end, at the same time
RETRY_S, RETRY_MOST_S = 0.5, 15.0  # between two tries at an engine that does not answer

log = logging.getLogger(__name__)


class DockerRuntime:
    """Containers of the engine on this machine. Its threads ask the engine; the loop never does."""

    def __init__(self, loop: Loop, settings: Settings, changed: Callable[[], None]) -> None:
        self._loop = loop
        self._watch = EngineWatch(loop, changed)
        self._spool = spool = settings.spool
        self._engine = Engine()
        self._images = Images(self._engine, spool, settings.image_cache_gib)
        self._firewall = Firewall(spool, parse_places(settings.network_allow))
        self._networks = Networks(self._engine, spool, parse_pools(settings.network_pool), self._firewall)
        self._scribes = Scribes()
        self._beginning = Beginning(self._engine, self._networks, self._scribes)
        self._starting = Crew("start", AT_ONCE)
        self._ending = Crew("end", AT_ONCE)
        self._removing = Crew("remove", 2)
        self._disks: list[Path] = []

    @property
    def trouble(self) -> str | None:
        trouble = self._watch.trouble
        return trouble if trouble is None else "; ".join(filter(None, (trouble, self._networks.trouble)))

    @property
    def gpu_trouble(self) -> str | None:
        return self._watch.gpu_trouble

    def await_ready(self, ready: Callable[[], None]) -> None:
        def ask() -> None:
            backoff, said = Backoff(RETRY_S, RETRY_MOST_S), ""
            while True:
                try:
                    self._engine.version()
                except OSError as error:
                    if str(error) != said:
                        log.error("%s; until it does, this node is offered to nobody", error)
                    said = str(error)
                    time.sleep(backoff.delay_s())
                else:
                    self._loop.post(ready)
                    return

        self._ending.do(ask)

    def start(self, entry: Entry, begun: Begun) -> None:
        def tell(outcome: int | StartRefused | OSError) -> None:
            self._loop.post(partial(begun, outcome))

        def begin(outcome: Image | StartRefused | OSError) -> None:
            # In a thread of its own kind: many may have waited for one image.
            if isinstance(outcome, Image):
                self._starting.do(partial(self._begin, entry, outcome, tell))
            else:
                tell(outcome)

        self._starting.do(partial(self._fetch, entry, begin))

    def adopt(self, entry: Entry) -> int | None:
        spec, record = entry.intent.spec, entry.record()
        if spec and spec.container and spec.container.network == PRIVATE:
            self._networks.note(network_name(entry, spec), entry.key)
        return open_init(record) if record else None

    def settle(self, entry: Entry, settled: Settled) -> None:
        if self.has_exited(entry):
            settled(None)
        else:
            backoff = Backoff(RETRY_S, RETRY_MOST_S)
            self._ending.do(partial(self._settle, entry, settled, backoff))

    def signal(self, entry: Entry, number: int) -> int:
        record = entry.record()
        if record is None:
            return 0
        if number == signal.SIGKILL and (handle := open_init(record)) is not None:
            # The kernel ends all that is inside along with the init, forks under way included.
            try:
                signal.pidfd_send_signal(handle, number)
            except ProcessLookupError:
                return 0
            finally:
                os.close(handle)
        return occupants.send(Path(record.cgroup), record.pid, number)

    def is_over(self, entry: Entry) -> bool:  # noqa: ARG002
        """Never before its end: what the command leaves behind ends with it."""
        return False

    def has_exited(self, entry: Entry) -> bool:
        return entry.verdict() is not None

    def remove(self, entry: Entry) -> None:
        self._scribes.reap(entry)
        spec = entry.intent.spec
        private = spec and spec.container and spec.container.network == PRIVATE
        network = network_name(entry, spec) if spec and private else ""

        def remove() -> None:
            crash.point("before-remove")
            found = self._engine.get(container_name(entry))
            if found and is_own(found, entry):
                self._engine.remove(found.id)
            if network:
                self._networks.release(network, entry.key)

        if spec and spec.container:
            self._insist(remove)

    def clear(self, cluster: str) -> None:
        self._watch.start()
        own = {"pit.cluster": cluster, "pit.spool": str(self._spool)}

        def clear() -> None:
            self._firewall.renew()
            for name, labels in self._engine.list_(own):
                key = f"{labels.get('pit.process')}-{labels.get('pit.attempt')}"
                if not (self._spool / key).exists():
                    log.info("removing the container %s, of which nobody knows", name)
                    self._engine.remove(name)
            self._networks.clear(own)

        self._insist(clear)

    def disks(self) -> list[Path]:
        if not self._disks:
            with suppress(EngineAway, EngineRefused):
                self._disks = [Path(self._engine.info()["DockerRootDir"])]
        return self._disks

    def list_filled(self, entry: Entry) -> list[Path]:
        record = entry.record()
        found = self._engine.get(record.container) if record else None
        return [*find_job_dir(entry), *([Path(found.upper)] if found and found.upper else [])]

    def leave(self) -> None:
        self._firewall.take_down()

    def _insist(self, task: Callable[[], None]) -> None:
        """Have it done; later, if the engine does not answer or is not able to."""
        backoff = Backoff(RETRY_S, RETRY_MOST_S)

        def attempt() -> None:
            try:
                task()
            except (EngineAway, EngineRefused) as error:
                log.warning("%s; trying again", error)
                self._later(backoff.delay_s(), partial(self._removing.do, attempt))

        self._removing.do(attempt)

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        # The loop's timers are for the loop's thread alone.
        self._loop.post(lambda: self._keep(delay_s, call))

    def _keep(self, delay_s: float, call: Callable[[], None]) -> None:
        self._loop.after(delay_s, call)

    def _fetch(self, entry: Entry, begin: Callable[[Image | StartRefused | OSError], None]) -> None:
        container = entry.intent.spec.container if entry.intent.spec else None
        if container is None or not container.image:
            begin(StartRefused("this node runs containers, and the order names no image"))
            return
        try:
            self._images.get(container.image, container.pull, entry, begin)
        except OSError as error:
            begin(error)
        except EngineRefused as error:
            begin(StartRefused(explain(container.image, str(error))))

    def _begin(
        self, entry: Entry, image: Image, tell: Callable[[int | StartRefused | OSError], None]
    ) -> None:
        try:
            record = self._beginning.begin(entry, image)
            handle = open_init(record)
            # One that has ended already is told by its end, not as one that could not begin.
            tell(handle if handle is not None else _readable())
        except NotBegun as error:
            if str(error) == NO_GPUS:
                self._watch.refuse_gpus()
            self.remove(entry)
            tell(StartRefused(str(error)))
        except StartRefused as error:
            tell(error)
        except OSError as error:
            if entry.is_forsaken():
                # Its removal came before what this has made.
                self.remove(entry)
            tell(error)
        except Exception as error:
            log.exception("process %s: a mistake of the worker's own", entry.key)
            tell(StartRefused(f"a mistake of the worker's own: {error}"))

    def _settle(self, entry: Entry, settled: Settled, backoff: Backoff) -> None:
        try:
            entry.save_verdict(self._find_end(entry))
        except (OSError, EngineRefused) as error:
            log.warning("process %s: how it ended is not known yet: %s", entry.key, error)
            again = partial(self._settle, entry, settled, backoff)
            self._later(backoff.delay_s(), partial(self._ending.do, again))
            return
        crash.point("after-verdict")
        self._loop.post(lambda: settled(None))

    def _find_end(self, entry: Entry) -> End:
        record = entry.record()
        found = self._wait(record) if record else None
        keeps = bool(self._engine.info().get("LiveRestoreEnabled"))
        self._scribes.finish(entry)
        return judge(found, entry.started_at(), engine_started_at(), keeps=keeps, now=time.time())

    def _wait(self, record: Record) -> Found | None:
        """Its end in the engine's words: those come a moment after the kernel's."""
        found = self._engine.get(record.container)
        if found and found.status == "running":
            self._engine.wait(record.container)
            found = self._engine.get(record.container)
        if found and found.status == "running":
            raise EngineAway("the Docker engine has not noticed the end of a container")
        return found


def open_init(record: Record) -> int | None:
    """A descriptor of a container's init, readable when it has ended; None if it has."""
    try:
        handle = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return None
    # The handle first, the look second: a reused id shows another start time.
    stat = read_stat(record.pid)
    if stat is None or stat.state == "Z" or stat.start_time != record.start_time:
        os.close(handle)
        return None
    return handle


def _readable() -> int:
    return os.eventfd(1, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
