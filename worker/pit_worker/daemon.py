"""The worker: takes orders from the head, runs processes, and reports on them."""

import logging
import signal
import threading
import time
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from pit_protocol.backoff import Backoff
from pit_protocol.messages.beat import Hello, Inventory, Order, Orders, Report, Resource, Usage, Welcome
from pit_protocol.messages.beat import Runtime as RuntimeKind
from pit_protocol.system.failpoints import Failpoints
from pit_worker.data import readonly_mount
from pit_worker.data.remote_staging import RemoteStaging
from pit_worker.data.staging import SharedFiles, Staging
from pit_worker.disk import DiskMonitor, measure_kib
from pit_worker.gpu.monitor import GpuMonitor
from pit_worker.health import Check, NodeHealth, check_data_root, check_spool
from pit_worker.inventory import read_boot_id, read_inventory
from pit_worker.link.beat import OutgoingBeat, compose
from pit_worker.link.threads import HeadLink
from pit_worker.loop import Loop, Timer
from pit_worker.process.context import Context
from pit_worker.process.inotify import Inotify
from pit_worker.process.measure import UseMonitor
from pit_worker.process.processes import Processes
from pit_worker.process.usage import UsageMeans
from pit_worker.runtime import accounts, containment
from pit_worker.runtime.base import Runtime
from pit_worker.runtime.docker.runtime import DockerRuntime
from pit_worker.runtime.local import LocalRuntime
from pit_worker.runtime.mixed import MixedRuntime, is_container
from pit_worker.sessions.sessions import Sessions
from pit_worker.settings import REMOTE, Settings
from pit_worker.spool.attempt_dir import ATTEMPTS
from pit_worker.spool.entry import Key
from pit_worker.spool.lease import Lease
from pit_worker.spool.spool import Spool
from pit_worker.timing import Timing
from pit_worker.venv.cache import VenvCache
from pit_worker.venv.eviction import EvictionTimer, evict

CRASH = 70  # exit code: start it again
GATHER_S = 0.01  # changes within this time go into one beat
MARK_S = 0.2  # between two checks of output while the head is away
STALLED_S = 0.5  # pause after the head took none of the output it was sent

log = logging.getLogger(__name__)


class Worker:
    """Owns all state, in the thread that calls `run`."""

    def __init__(self, settings: Settings, spool: Spool, failpoints: Failpoints, timing: Timing) -> None:
        self._settings = settings
        self._failpoints = failpoints
        self._timing = timing
        self._spool = spool
        self._boot_id = settings.boot_id or read_boot_id()
        self._lease = Lease(spool.path)
        self._loop = Loop()
        self._inotify = Inotify()
        self._watches_output = False
        self._venvs = VenvCache.of(settings)
        self._runtime = self._make_runtime()
        self._staging = self._make_staging()
        self._health = self._make_health()
        context = Context(
            self._loop,
            self._runtime,
            self._staging,
            self._inotify,
            self._boot_id,
            self._on_change,
            lambda units, then: self._gpus.release(units, then),
            self._health,
            failpoints,
            timing,
        )
        self._processes = Processes(context, spool)
        self._usage_means = UsageMeans(timing.use_report_s)
        self._gpus = GpuMonitor(self._loop, self._processes.known, self._usage_means, self._on_change, timing)
        self._use = UseMonitor(self._loop, self._runtime, self._processes.known, self._usage_means, timing)
        self._disks = self._make_disks()
        self._eviction = self._make_eviction()
        self._sessions = Sessions(settings, self._runtime, self._processes.known)
        self._link: HeadLink | None = None
        self._welcome: Welcome | None = None
        self._report_s: float | None = None  # how often to send a full beat; None: as welcomed
        self._is_sending = False
        self._has_changes = False
        self._send_timer: Timer | None = None
        self._send_at = 0.0  # this and the next by the monotonic clock
        self._paused_until = 0.0
        self._backoff = Backoff()
        self.seen = -1  # the newest revision of orders; the receiving thread reads it too

    def run(self) -> int:
        """Work until a signal, or until another worker takes over; the exit code. Processes keep running."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._on_signal())
        threading.excepthook = self._on_thread_failed
        self._watch_output()
        self._processes.recover()
        self._gpus.start(self._say_hello)
        code = self._loop.run()
        self._processes.leave()
        log.info("exiting; %d processes are left to the next worker", len(self._processes.known))
        if not self._processes.known:
            self._runtime.shut_down()
        return code

    def _on_signal(self) -> None:
        """The worker is asked to exit; called between any two instructions of the loop."""
        self._loop.leave(0)

    def _read_inventory(self, resources: tuple[Resource, ...]) -> Inventory:
        return read_inventory(resources)

    def on_welcome(self, welcome: Welcome) -> None:
        foreign = {p.entry.intent.cluster for p in self._processes.known.values()} - {welcome.cluster}
        if foreign:
            log.error(
                "the spool %s holds processes of cluster %s, not of %s",
                self._spool.path, foreign.pop(), welcome.cluster,
            )  # fmt: skip
            self._loop.leave(1)
            return
        is_first, self._welcome = self._welcome is None, welcome
        self.seen = -1  # revisions of an earlier session mean nothing in this one
        if self._settings.data_root != REMOTE:
            # In this thread, which starts the processes.
            readonly_mount.protect(Path(self._settings.data_root or welcome.data_root) / "shared")
        self._processes.welcome(welcome)
        self._on_change()
        if is_first:
            self._disks.start()
            self._use.start()
            self._health.check()
            self._eviction.start()
            self._send_regularly()

    def on_orders(self, orders: Orders) -> None:
        self._report_s = orders.report_s
        self._sessions.obey(orders.sessions)
        if self._is_current(orders):
            for order in orders.orders:
                self._processes.obey(order)
                # Only the answer to a sent beat is up to date on output, but the first value is needed.
                self._note_shipped(order, is_current=False)

    def on_answer(self, sent: OutgoingBeat, orders: Orders) -> None:
        self._is_sending = False
        self._backoff.reset()
        self._sessions.obey(orders.sessions)
        self._usage_means.confirm(self._processes.known)
        if sent.reports_end:
            self._failpoints.reach("after-end-report")
        before = {key: process.output.shipped for key, process in self._processes.known.items()}
        for key, shipped in sent.shipped.items():
            if process := self._processes.known.get(key):
                process.output.shipped = shipped
        if self._is_current(orders):
            for order in orders.orders:
                self._processes.obey(order)
                self._note_shipped(order, is_current=True)
        self._after_answer(sent, before)

    def on_no_answer(self) -> None:
        self._is_sending = False
        self._usage_means.restore()
        self._has_changes = True
        delay_s = self._backoff.delay_s()
        self._paused_until = time.monotonic() + delay_s
        self._send_in(delay_s)
        self._watch_output()

    def _on_thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        """Exit: without one of its threads a worker would live on, deaf or mute."""
        name = failure.thread.name if failure.thread else "unknown"
        cause = (failure.exc_type, failure.exc_value or failure.exc_type(), failure.exc_traceback)
        log.critical("internal worker error: thread %s ended; exiting", name, exc_info=cause)
        self._loop.leave(CRASH)

    def _say_hello(self, resources: tuple[Resource, ...]) -> None:
        settings = self._settings
        inventory = self._read_inventory(resources)
        hello = Hello(
            self._boot_id,
            inventory,
            settings.address,
            settings.runtime,
            settings.overlay,
            not accounts.why_shared(settings),
            accounts.own_name(),
            # Known from the first moment on; that all is well, only after the first checks.
            (settings.runtime is RuntimeKind.PROCESS and self._disks.check_spool()) or None,
        )
        self._link = link = HeadLink(settings, self._loop, self, hello, self._lease, self._spool.count_hello)
        if self._processes.known:
            link.start()  # the head waits for reports of them, even if nothing new can run now
        else:
            self._runtime.await_ready(link.start)

    def _make_runtime(self) -> Runtime:
        is_docker = self._settings.runtime is RuntimeKind.DOCKER
        found = {is_container(entry) for entry in self._spool.entries() if entry.intent.spec}
        if (not is_docker) not in found:
            return self._make_docker() if is_docker else self._make_local()
        log.info("some processes here were started by the other runtime, which runs until they have ended")
        docker, local = self._make_docker(), self._make_local()
        return MixedRuntime(docker if is_docker else local, docker, local)

    def _make_docker(self) -> Runtime:
        log.info("processes run in containers of the Docker engine")
        return DockerRuntime(
            self._loop, self._settings, self._venvs, self._on_change, self._failpoints, self._timing
        )

    def _make_local(self) -> Runtime:
        contained = containment.choose(
            cgroups=self._settings.cgroups, pid_namespaces=self._settings.pid_namespaces
        )
        separates = not accounts.why_shared(self._settings)
        return LocalRuntime(
            self._loop, self._settings.search_path, contained, self._venvs, runs_as_users=separates
        )

    def _make_health(self) -> NodeHealth:
        checks: dict[str, Check] = {
            "the spool": partial(check_spool, self._spool.path),
            "the runtime": self._runtime.check,
        }
        if self._settings.data_root != REMOTE:
            checks["the data root"] = self._check_data_root
        return NodeHealth(self._loop, checks, self._settings.max_start_faults, self._on_change, self._timing)

    def _check_data_root(self) -> str:
        root = self._settings.data_root or (self._welcome.data_root if self._welcome else "")
        return check_data_root(Path(root)) if root else ""

    def _make_disks(self) -> DiskMonitor:
        return DiskMonitor(
            self._loop,
            self._runtime,
            self._spool.path,
            self._settings.disk_reserve_mib,
            self._settings.disk_end_mib,
            lambda: [process.entry for process in self._processes.known.values() if process.is_live],
            lambda excess: self._processes.stop_over_limit(excess.key, excess.reason),
            self._on_change,
            self._timing,
        )

    def _make_eviction(self) -> EvictionTimer:
        return EvictionTimer(
            self._loop,
            self._venvs,
            partial(evict, self._venvs.folder, self._settings.venv_cache_gib, measure_kib),
            lambda: [process.entry for process in self._processes.known.values()],
            self._processes.stop_over_limit,
            self._timing,
        )

    def _make_staging(self) -> Staging:
        is_remote = self._settings.data_root == REMOTE
        if is_remote:
            log.info("no access to the head's files: jobs' directories are copied, users' are mounted")
        elif not (self._spool.path / ATTEMPTS).is_dir():
            return SharedFiles(self._settings.data_root)
        # Also after a change of that setting, until everything is staged out.
        return RemoteStaging(self._loop, self._settings, self._on_change, self._failpoints)

    def _is_current(self, orders: Orders) -> bool:
        if orders.revision < self.seen:
            return False
        self.seen = orders.revision
        return True

    def _note_shipped(self, order: Order, *, is_current: bool) -> None:
        process = self._processes.known.get(Key(order.process, order.attempt))
        if process and (is_current or process.output.shipped is None):
            process.output.shipped = order.log_size

    def _after_answer(self, sent: OutgoingBeat, before: dict[Key, int | None]) -> None:
        """Send the next beat at once, later, or only when something changes."""
        for report in sent.reports:
            process = self._processes.known.get(Key(report.process, report.attempt))
            if process and process.output.shipped is None:
                # The head got a report of it and did not say what it has: it has nothing.
                process.output.shipped = 0
        behind = [p for p in self._processes.known.values() if (p.output.shipped or 0) < p.output.size()]
        # What the head did not take it will not take a moment later either.
        stalled = [
            p
            for p in behind
            if p.key in sent.shipped and p.output.shipped == before.get(p.key) != sent.shipped[p.key]
        ]
        if self._has_changes or sent.withholds_end or len(stalled) < len(behind):
            self._on_change()
        elif stalled:
            self._send_in(STALLED_S)
        else:
            self._watch_output()

    def _on_change(self) -> None:
        self._has_changes = True
        self._send_in(GATHER_S)

    def _send_regularly(self) -> None:
        """Send a full beat even without changes, so that the head can correct what it has wrong."""
        if self._welcome:
            self._on_change()
            self._loop.after(self._report_s or self._welcome.hold_s, self._send_regularly)

    def _send_in(self, delay_s: float) -> None:
        """Send a beat then, unless one is due sooner; not before the pause after a failure is over."""
        at = max(time.monotonic() + delay_s, self._paused_until)
        if self._welcome is None or self._is_sending or (self._send_timer and self._send_at <= at):
            return
        if self._send_timer:
            self._send_timer.cancel()
        self._send_at = at
        self._send_timer = self._loop.after(at - time.monotonic(), self._send)

    def _send(self) -> None:
        self._send_timer = None
        if self._welcome is None or self._link is None:
            return
        # Output that grows before the answer comes goes with the next beat anyway.
        self._unwatch_output()
        self._has_changes = False
        self._processes.end_leftovers()
        sent = compose(self._processes.known.values(), usage=self._usage)
        if sent.reports_end:
            self._failpoints.reach("before-end-report")
        self._is_sending = True
        troubles = self._gpus.report(self._runtime.gpu_trouble)
        beat = sent.to_beat(self._welcome.epoch, self._boot_id, max(self.seen, 0), troubles)
        beat = replace(beat, trouble=self._trouble())
        self._link.send(beat, sent)

    def _trouble(self) -> str | None:
        """Why the node takes no new processes; None before everything has been checked."""
        found = (
            self._runtime.trouble,
            self._disks.trouble,
            self._processes.trouble,
            self._staging.trouble,
            self._health.trouble,
        )
        return None if None in found else "; ".join(filter(None, found))

    def _usage(self, report: Report) -> Usage | None:
        return self._usage_means.take(report, time.monotonic())

    def _watch_output(self) -> None:
        if not self._watches_output:
            self._watches_output = True
            self._loop.watch(self._inotify.fd, self._on_output)

    def _unwatch_output(self) -> None:
        if self._watches_output:
            self._watches_output = False
            self._loop.unwatch(self._inotify.fd)

    def _on_output(self) -> None:
        self._inotify.drain()
        self._unwatch_output()
        now = time.time()
        for process in self._processes.known.values():
            process.output.mark(now)
        self._on_change()
        if self._paused_until > time.monotonic():
            # The head is away: what is written meanwhile must still get the right timestamp.
            self._loop.after(MARK_S, self._watch_output)
