"""Processes in Docker containers.

The order of steps makes a start safe: a container is created and started, its init is recorded, its mounts
are checked; then its output writer takes the claim and opens the pipe, and only then does the command
start. Whatever dies in between, the next worker does the remaining steps, and none twice.
"""

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from pit_protocol.backoff import Backoff
from pit_protocol.messages.beat import PRIVATE
from pit_protocol.problem import Problem
from pit_protocol.sessions.frames import Start
from pit_protocol.system.failpoints import Failpoints
from pit_protocol.system.procfs import read_stat
from pit_worker.loop import Loop
from pit_worker.network_ranges import parse_allowed, parse_pools
from pit_worker.runtime import cgroup, handled_signal
from pit_worker.runtime.base import NOT_THERE, ExitCollected, Started, find_job_dir
from pit_worker.runtime.binds import targets
from pit_worker.runtime.docker import container_cgroup
from pit_worker.runtime.docker.container_exec import ContainerCommand
from pit_worker.runtime.docker.engine import ContainerInfo, Engine, EngineAway, EngineRefused, Image
from pit_worker.runtime.docker.engine_watch import EngineWatch
from pit_worker.runtime.docker.exit_status import engine_started_at, interpret
from pit_worker.runtime.docker.images import Images, refusal
from pit_worker.runtime.docker.network.firewall import Firewall
from pit_worker.runtime.docker.network.networks import Networks
from pit_worker.runtime.docker.output_writer import OutputWriters
from pit_worker.runtime.docker.spec import container_name, is_own, network_name
from pit_worker.runtime.docker.start import NO_GPUS, ContainerStart, NotStarted
from pit_worker.runtime.inside import command_pid
from pit_worker.runtime.inside.command_pid import Entrance
from pit_worker.runtime.inside.local_command import Inside
from pit_worker.settings import Settings
from pit_worker.spool.entry import End, Entry, Record
from pit_worker.spool.environment import NodeFault, StartRefused
from pit_worker.thread_pool import ThreadPool
from pit_worker.timing import Timing
from pit_worker.venv.cache import VenvCache

AT_ONCE = 8  # containers that are started, and that are ended, at the same time
RETRY_S, RETRY_MOST_S = 0.5, 15.0  # between two tries while the engine does not answer

log = logging.getLogger(__name__)


class DockerRuntime:
    """Containers of the engine on this machine. Only its threads call the engine, never the loop."""

    def __init__(
        self,
        loop: Loop,
        settings: Settings,
        venvs: VenvCache,
        changed: Callable[[], None],
        failpoints: Failpoints,
        timing: Timing,
    ) -> None:
        self._loop = loop
        self._failpoints = failpoints
        self._watch = EngineWatch(loop, changed, timing)
        self._spool = spool = settings.spool
        self._engine = Engine()
        self._images = Images(self._engine, spool, settings.image_cache_gib)
        allowed = parse_allowed(settings.network_allow)
        self._firewall = Firewall(spool, allowed, has_overlay=bool(settings.overlay))
        self._networks = Networks(self._engine, spool, parse_pools(settings.network_pool), self._firewall)
        self._output_writers = OutputWriters()
        self._container_start = ContainerStart(
            self._engine, self._networks, self._output_writers, venvs, failpoints
        )
        self._starting = ThreadPool("start", AT_ONCE)
        self._ending = ThreadPool("end", AT_ONCE)
        self._removing = ThreadPool("remove", 2)
        self._disks: list[Path] = []

    @property
    def trouble(self) -> str | None:
        trouble = self._watch.trouble
        return trouble if trouble is None else "; ".join(filter(None, (trouble, self._networks.trouble)))

    @property
    def gpu_trouble(self) -> str | None:
        return self._watch.gpu_trouble

    def check(self) -> str:
        return ""

    def await_ready(self, ready: Callable[[], None]) -> None:
        def ask() -> None:
            backoff, logged = Backoff(RETRY_S, RETRY_MOST_S), ""
            while True:
                try:
                    self._engine.version()
                except OSError as error:
                    if str(error) != logged:
                        log.error("%s; until it does, this node takes no processes", error)
                    logged = str(error)
                    time.sleep(backoff.delay_s())
                else:
                    self._loop.post(ready)
                    return

        self._ending.submit(ask)

    def start(self, entry: Entry, started: Started) -> None:
        def report(outcome: int | StartRefused | OSError) -> None:
            self._loop.post(partial(started, outcome))

        def with_image(outcome: Image | StartRefused | OSError) -> None:
            # As a task of its own: many processes may have waited for one image.
            if isinstance(outcome, Image):
                self._starting.submit(partial(self._start_container, entry, outcome, report))
            else:
                report(outcome)

        self._starting.submit(partial(self._get_image, entry, with_image))

    def adopt(self, entry: Entry) -> int | None:
        spec, record = entry.intent.spec, entry.record()
        if spec and spec.container and spec.container.network == PRIVATE:
            self._networks.add_user(network_name(entry, spec), entry.key)
        return open_init(record) if record else None

    def collect_exit(self, entry: Entry, collected: ExitCollected) -> None:
        if self.has_exit_status(entry):
            collected(None)
        else:
            backoff = Backoff(RETRY_S, RETRY_MOST_S)
            self._ending.submit(partial(self._collect_exit, entry, collected, backoff))

    def signal(self, entry: Entry, number: int) -> int:
        record = entry.record()
        if record is None:
            return 0
        if number == signal.SIGKILL and (handle := open_init(record)) is not None:
            # The kernel kills everything inside along with the init, forks under way included.
            try:
                signal.pidfd_send_signal(handle, number)
            except ProcessLookupError:
                return 0
            finally:
                os.close(handle)
        return container_cgroup.send(Path(record.cgroup), record.pid, number)

    def warn(self, entry: Entry, number: int) -> int:
        return handled_signal.send(partial(self.list_pids, entry), number)

    def find_cgroup(self, entry: Entry) -> Path | None:
        record = entry.record()
        return Path(record.cgroup) if record else None

    def list_pids(self, entry: Entry) -> set[int]:
        """Those inside the container, without its init."""
        record = entry.record()
        return cgroup.members(Path(record.cgroup)) - {record.pid} if record else set()

    def command_has_ended(self, entry: Entry) -> bool:  # noqa: ARG002
        """Never before the container ends: what the command leaves behind ends with it."""
        return False

    def has_exit_status(self, entry: Entry) -> bool:
        return entry.container_exit() is not None

    def remove(self, entry: Entry) -> None:
        self._output_writers.reap(entry)
        spec = entry.intent.spec
        private = spec and spec.container and spec.container.network == PRIVATE
        network = network_name(entry, spec) if spec and private else ""

        def remove() -> None:
            self._failpoints.reach("before-remove")
            found = self._engine.get(container_name(entry))
            if found and is_own(found, entry):
                self._engine.remove(found.id)
            if network:
                self._networks.release(network, entry.key)

        if spec and spec.container:
            self._retry(remove)

    def remove_orphans(self, cluster: str) -> None:
        self._watch.start()
        own = {"pit.cluster": cluster, "pit.spool": str(self._spool)}

        def clear() -> None:
            self._firewall.install()
            for name, labels in self._engine.list_(own):
                key = f"{labels.get('pit.process')}-{labels.get('pit.attempt')}"
                if not (self._spool / key).exists():
                    log.info("removing the orphaned container %s", name)
                    self._engine.remove(name)
            self._networks.remove_unused(own)

        self._retry(clear)

    def list_disks(self) -> list[Path]:
        if not self._disks:
            with suppress(EngineAway, EngineRefused):
                self._disks = [Path(self._engine.info()["DockerRootDir"])]
        return self._disks

    def list_written_dirs(self, entry: Entry) -> list[Path]:
        record = entry.record()
        found = self._engine.get(record.container) if record else None
        inside = filter(None, (found.upper, *found.volumes)) if found else ()
        return [*find_job_dir(entry), *map(Path, inside)]

    def hold(self, entry: Entry) -> Entrance:
        record = entry.record()
        handle = open_init(record) if record else None
        if record is None or handle is None:
            raise NOT_THERE
        try:
            found = command_pid.hold(command_pid.find_in_container(record.pid))
        finally:
            os.close(handle)
        if found is None:
            raise NOT_THERE
        return found

    def enter(self, entry: Entry, start: Start, session: str) -> tuple[Inside, Entrance]:
        record, spec, entrance = entry.record(), entry.intent.spec, self.hold(entry)
        env = command_pid.read_environment(entrance.pid)
        try:
            if record is None or spec is None:
                raise NOT_THERE
            directory = str(targets(spec)["SRC_DIR"])
            command = ContainerCommand(self._engine, record.container, env, directory, start, session)
        except (EngineAway, EngineRefused) as error:
            os.close(entrance.descriptor)
            raise Problem("engine", f"the Docker engine did not start it: {error}") from error
        return command, entrance

    def shut_down(self) -> None:
        self._firewall.remove()

    def _retry(self, task: Callable[[], None]) -> None:
        """Run a task in a thread, and again later if the engine does not answer or refuses."""
        backoff = Backoff(RETRY_S, RETRY_MOST_S)

        def attempt() -> None:
            try:
                task()
            except (EngineAway, EngineRefused) as error:
                log.warning("%s; trying again", error)
                self._after(backoff.delay_s(), partial(self._removing.submit, attempt))

        self._removing.submit(attempt)

    def _after(self, delay_s: float, call: Callable[[], None]) -> None:
        # Only the loop's thread may set its timers.
        self._loop.post(lambda: self._set_timer(delay_s, call))

    def _set_timer(self, delay_s: float, call: Callable[[], None]) -> None:
        self._loop.after(delay_s, call)

    def _get_image(self, entry: Entry, with_image: Callable[[Image | StartRefused | OSError], None]) -> None:
        container = entry.intent.spec.container if entry.intent.spec else None
        if container is None or not container.image:
            with_image(StartRefused("this node runs containers, but the order names no image"))
            return
        try:
            self._images.get(container.image, container.pull, entry, with_image)
        except OSError as error:
            with_image(error)
        except EngineRefused as error:
            with_image(refusal(container.image, str(error)))

    def _start_container(
        self, entry: Entry, image: Image, report: Callable[[int | StartRefused | OSError], None]
    ) -> None:
        try:
            record = self._container_start.run(entry, image)
            handle = open_init(record)
            # One that has ended already is reported as ended, not as one that could not start.
            report(handle if handle is not None else _readable())
        except NotStarted as error:
            if str(error) == NO_GPUS:
                self._watch.refuse_gpus()
            self.remove(entry)
            report(error.why)
        except StartRefused as error:
            report(error)
        except OSError as error:
            if entry.was_cancelled():
                # It was removed before this created the container.
                self.remove(entry)
            report(error)
        except Exception as error:
            log.exception("process %s: internal worker error", entry.key)
            report(NodeFault(f"internal worker error: {error}"))

    def _collect_exit(self, entry: Entry, collected: ExitCollected, backoff: Backoff) -> None:
        try:
            entry.save_container_exit(self._find_end(entry))
        except (OSError, EngineRefused) as error:
            log.warning("process %s: its exit status is not known yet: %s", entry.key, error)
            again = partial(self._collect_exit, entry, collected, backoff)
            self._after(backoff.delay_s(), partial(self._ending.submit, again))
            return
        self._failpoints.reach("after-exit-status")
        self._loop.post(lambda: collected(None))

    def _find_end(self, entry: Entry) -> End:
        record = entry.record()
        found = self._wait(record) if record else None
        self._output_writers.finish(entry)
        return interpret(
            found,
            entry.started_at(),
            engine_started_at(),
            live_restore=lambda: bool(self._engine.info().get("LiveRestoreEnabled")),
            now=time.time(),
        )

    def _wait(self, record: Record) -> ContainerInfo | None:
        """The ended container; the engine notices the end a moment after the kernel."""
        found = self._engine.get(record.container)
        if found and found.status == "running":
            self._engine.wait(record.container)
            found = self._engine.get(record.container)
        if found and found.status == "running":
            raise EngineAway("the Docker engine has not noticed the end of a container")
        return found


def open_init(record: Record) -> int | None:
    """A descriptor of a container's init, readable when it has ended; None if it has already."""
    try:
        handle = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return None
    # First open, then read: a reused process id has another start time.
    stat = read_stat(record.pid)
    if stat is None or stat.has_ended or stat.start_time != record.start_time:
        os.close(handle)
        return None
    return handle


def _readable() -> int:
    return os.eventfd(1, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
