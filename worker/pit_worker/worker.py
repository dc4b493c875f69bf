"""The worker: hears orders, sees to its processes, and says what has become of them."""

import logging
import signal
import time
from dataclasses import replace
from pathlib import Path

from pit_protocol.beat import Hello, Order, Orders, Report, Resource, Usage, Welcome
from pit_protocol.beat import Runtime as RuntimeKind
from pit_worker import cgroup, crash, readonly
from pit_worker.attempt_place import ATTEMPTS
from pit_worker.backoff import Backoff
from pit_worker.beats import Speech, compose
from pit_worker.both import Both, is_container
from pit_worker.carrier import AtHand, Carrier
from pit_worker.disk import Disks
from pit_worker.docker_runtime import DockerRuntime
from pit_worker.entry import Key
from pit_worker.gpus import Watch
from pit_worker.inotify import Inotify
from pit_worker.inventory import read_boot_id, read_inventory
from pit_worker.lease import Lease
from pit_worker.loop import Loop, Timer
from pit_worker.processes import Processes
from pit_worker.remote import Remote
from pit_worker.runtime import LocalRuntime, Runtime
from pit_worker.settings import REMOTE, Settings
from pit_worker.spool import Spool
from pit_worker.voices import Voices

GATHER_S = 0.01  # what comes up within this time goes into one beat
MARK_S = 0.2  # between two looks at outputs that cannot be shipped now
STALLED_S = 0.5  # pause when the head took none of the output it was sent

log = logging.getLogger(__name__)


class Worker:
    """Owns all state, in the thread that calls `run`."""

    def __init__(self, settings: Settings, spool: Spool) -> None:
        self._settings = settings
        self._spool = spool
        self._boot_id = settings.boot_id or read_boot_id()
        self._lease = Lease(spool.path)
        self._loop = Loop()
        self._inotify = Inotify()
        self._is_tailing = False
        self._runtime = self._make_runtime()
        self._carrier = self._make_carrier()
        self._processes = Processes(
            self._loop,
            spool,
            self._runtime,
            self._inotify,
            self._boot_id,
            self._on_change,
            lambda units, then: self._gpus.vacate(units, then),
            self._carrier,
        )
        self._gpus = Watch(self._loop, self._processes.known, self._on_change)
        self._disks = Disks(
            self._loop,
            self._runtime,
            spool.path,
            settings.disk_reserve_mib,
            lambda: [process.entry for process in self._processes.known.values() if process.is_running],
            lambda excess: self._processes.curb(excess.key, excess.reason),
            self._on_change,
        )
        self._voices: Voices | None = None
        self._welcome: Welcome | None = None
        self._is_speaking = False
        self._has_news = False
        self._speak_timer: Timer | None = None
        self._speak_at = 0.0  # this and the next by the monotonic clock
        self._silent_until = 0.0
        self._backoff = Backoff()
        self.seen = -1  # the newest revision of orders; the listener reads it too

    def run(self) -> int:
        """Work until a signal or until overtaken; the exit code. What runs goes on running."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._loop.leave(0))
        self._tail()
        self._processes.recover()
        self._gpus.start(self._greet)
        code = self._loop.run()
        log.info("leaving; %d processes are for the next worker", len(self._processes.known))
        if not self._processes.known:
            self._runtime.leave()
        return code

    def on_welcome(self, welcome: Welcome) -> None:
        strangers = {p.entry.intent.cluster for p in self._processes.known.values()} - {welcome.cluster}
        if strangers:
            log.error(
                "the spool %s holds processes of cluster %s, not of %s",
                self._spool.path, strangers.pop(), welcome.cluster,
            )  # fmt: skip
            self._loop.leave(1)
            return
        self._welcome = welcome
        if self._settings.data_root != REMOTE:
            # In this thread, which starts the processes.
            readonly.protect(Path(self._settings.data_root or welcome.data_root) / "shared")
        self._processes.welcome(welcome)
        self._disks.start()
        self._speak_regularly()

    def on_heard(self, orders: Orders) -> None:
        if self._is_news(orders):
            for order in orders.orders:
                self._processes.obey(order)
                # Of output only a spoken beat's answer is up to date; but a first word is welcome.
                self._note_log_size(order, is_current=False)

    def on_answered(self, speech: Speech, orders: Orders) -> None:
        self._is_speaking = False
        self._backoff.reset()
        self._gpus.means.confirm(self._processes.known)
        if speech.tells_end:
            crash.point("after-end-report")
        before = {key: process.output.shipped for key, process in self._processes.known.items()}
        for key, shipped in speech.shipped.items():
            if process := self._processes.known.get(key):
                process.output.shipped = shipped
        if self._is_news(orders):
            for order in orders.orders:
                self._processes.obey(order)
                self._note_log_size(order, is_current=True)
        self._go_on(speech, before)

    def on_unanswered(self) -> None:
        self._is_speaking = False
        self._gpus.means.restore()
        self._has_news = True
        delay_s = self._backoff.delay_s()
        self._silent_until = time.monotonic() + delay_s
        self._speak_in(delay_s)
        self._tail()

    def _greet(self, resources: tuple[Resource, ...]) -> None:
        told = self._settings
        inventory = read_inventory(resources)
        hello = Hello(self._boot_id, inventory, told.address, told.runtime, told.overlay)
        self._voices = voices = Voices(self._settings, self._loop, self, hello, self._lease)
        if self._processes.known:
            voices.start()  # the head waits for word of them, whatever can be run now
        else:
            self._runtime.await_ready(voices.start)

    def _make_runtime(self) -> Runtime:
        is_docker = self._settings.runtime is RuntimeKind.DOCKER
        found = {is_container(entry) for entry in self._spool.entries() if entry.intent.spec}
        if (not is_docker) not in found:
            return self._make_docker() if is_docker else self._make_local()
        log.info("some processes here belong to the other runtime, and are seen to their end by it")
        docker, local = self._make_docker(), self._make_local()
        return Both(docker if is_docker else local, docker, local)

    def _make_docker(self) -> Runtime:
        log.info("processes run in containers of the Docker engine")
        return DockerRuntime(self._loop, self._settings, self._on_change)

    def _make_local(self) -> Runtime:
        own = cgroup.find_own() if self._settings.cgroups else None
        log.info("processes are held together by %s", f"cgroups below {own}" if own else "their environment")
        return LocalRuntime(self._settings.search_path, own)

    def _make_carrier(self) -> Carrier:
        is_remote = self._settings.data_root == REMOTE
        if is_remote:
            log.info("the head's files are not here: jobs' directories are copied, users' are mounted")
        elif not (self._spool.path / ATTEMPTS).is_dir():
            return AtHand(self._settings.data_root)
        # Also where they are by now, for what still has to be brought.
        return Remote(self._loop, self._settings, self._on_change)

    def _is_news(self, orders: Orders) -> bool:
        if orders.revision < self.seen:
            return False
        self.seen = orders.revision
        return True

    def _note_log_size(self, order: Order, *, is_current: bool) -> None:
        process = self._processes.known.get(Key(order.process, order.attempt))
        if process and (is_current or process.output.shipped is None):
            process.output.shipped = order.log_size

    def _go_on(self, speech: Speech, before: dict[Key, int | None]) -> None:
        """After an answer: speak on at once, later, or not before there is news."""
        for report in speech.reports:
            process = self._processes.known.get(Key(report.process, report.attempt))
            if process and process.output.shipped is None:
                # The head was told of it and said nothing: it has nothing.
                process.output.shipped = 0
        lacking = [p for p in self._processes.known.values() if (p.output.shipped or 0) < p.output.size()]
        # What was sent and not taken will not be taken a moment later either.
        stalled = [
            p
            for p in lacking
            if p.key in speech.shipped and p.output.shipped == before.get(p.key) != speech.shipped[p.key]
        ]
        if self._has_news or speech.keeps_end or len(stalled) < len(lacking):
            self._on_change()
        elif stalled:
            self._speak_in(STALLED_S)
        else:
            self._tail()

    def _on_change(self) -> None:
        self._has_news = True
        self._speak_in(GATHER_S)

    def _speak_regularly(self) -> None:
        """In full and without news too, so that the head can answer for what it does not know."""
        if self._welcome:
            self._on_change()
            self._loop.after(self._welcome.hold_s, self._speak_regularly)

    def _speak_in(self, delay_s: float) -> None:
        """Speak after a while, unless that is settled already; a failing head is given its pause."""
        at = max(time.monotonic() + delay_s, self._silent_until)
        if self._welcome is None or self._is_speaking or (self._speak_timer and self._speak_at <= at):
            return
        if self._speak_timer:
            self._speak_timer.cancel()
        self._speak_at = at
        self._speak_timer = self._loop.after(at - time.monotonic(), self._speak)

    def _speak(self) -> None:
        self._speak_timer = None
        if self._welcome is None or self._voices is None:
            return
        # Until the answer is here a growing output is no news: it goes with the next beat anyway.
        self._tail_no_more()
        self._has_news = False
        self._processes.notice()
        speech = compose(self._processes.known.values(), usage=self._usage)
        if speech.tells_end:
            crash.point("before-end-report")
        self._is_speaking = True
        troubles = self._gpus.tell(self._runtime.gpu_trouble)
        beat = speech.to_beat(self._welcome.epoch, self._boot_id, max(self.seen, 0), troubles)
        beat = replace(beat, trouble=self._trouble())
        self._voices.say(beat, speech)

    def _trouble(self) -> str | None:
        """Why the node takes no new processes; None before all has been looked at."""
        found = (
            self._runtime.trouble,
            self._disks.trouble,
            self._processes.trouble,
            self._carrier.trouble,
        )
        return None if None in found else "; ".join(filter(None, found))

    def _usage(self, report: Report) -> Usage | None:
        return self._gpus.means.tell(report, time.monotonic())

    def _tail(self) -> None:
        if not self._is_tailing:
            self._is_tailing = True
            self._loop.watch(self._inotify.fd, self._on_grown)

    def _tail_no_more(self) -> None:
        if self._is_tailing:
            self._is_tailing = False
            self._loop.unwatch(self._inotify.fd)

    def _on_grown(self) -> None:
        self._inotify.drain()
        self._tail_no_more()
        now = time.time()
        for process in self._processes.known.values():
            process.output.mark(now)
        self._on_change()
        if self._silent_until > time.monotonic():
            # The head is away: what comes meanwhile shall still be told with its own time.
            self._loop.after(MARK_S, self._tail)
