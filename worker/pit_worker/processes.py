"""All processes of this node: taken, started, stopped, ended, forgotten as the head orders."""

import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from pit_protocol.beat import Order, Welcome, Wish
from pit_protocol.states import KilledBy
from pit_worker import crash
from pit_worker.carrier import Carrier
from pit_worker.entry import End, Entry, Intent, Key, Stop
from pit_worker.environment import StartRefused
from pit_worker.inotify import Inotify
from pit_worker.loop import Loop
from pit_worker.process import Process
from pit_worker.runtime import Runtime
from pit_worker.spool import Spool
from pit_worker.vacating import Vacated

STARTS_AT_ONCE = 4  # per turn of the loop, so that a large order does not hold up the rest
HASTE = float(os.environ.get("PIT_WATCH_HASTE", "1"))  # a test lets the next go by faster
STUBBORN_S = 60.0 / HASTE  # after SIGKILL: what is there then ails its node
MOST_PAUSE_S = 15.0  # between two tries to start a process
LINGER_S = 0.05  # between the end of a command and looking for what it left
UNKNOWN = "the worker does not know this process"

log = logging.getLogger(__name__)


class Processes:
    """Keeps to two rules: on disk before done, and one key is started once at most."""

    def __init__(
        self,
        loop: Loop,
        spool: Spool,
        runtime: Runtime,
        inotify: Inotify,
        boot_id: str,
        changed: Callable[[], None],
        vacate: Callable[[Sequence[str], Vacated], None],
        carrier: Carrier,
    ) -> None:
        """`vacate` calls back when GPUs are idle, and may be given to others, with what ails one of them."""
        self._loop = loop
        self._spool = spool
        self._runtime = runtime
        self._inotify = inotify
        self._boot_id = boot_id
        self._changed = changed
        self._vacate = vacate
        self._carrier = carrier
        self._welcome: Welcome | None = None
        self._waiting: deque[Process] = deque()
        self._forgotten: set[Key] = set()
        self.known: dict[Key, Process] = {}

    @property
    def trouble(self) -> str:
        """Why no others should come: what holds its own beyond SIGKILL may hold theirs, too."""
        count = sum(process.is_stubborn and not process.end for process in self.known.values())
        if count > 1:
            return f"{count} processes that were killed do not end: they hang in the kernel, or are frozen"
        return "a process that was killed does not end: it hangs in the kernel, or is frozen" if count else ""

    def recover(self) -> None:
        """Take up what an earlier worker left: adopt what runs, end what does not."""
        for entry in self._spool.entries():
            process = Process(entry, started_at=entry.started_at(), stop=entry.stop(), end=entry.end())
            process.image = entry.image()
            self.known[process.key] = process
            if process.end is None:
                self._take_up(process)
            else:
                self._runtime.remove(entry)
        if self.known:
            log.info("took up %d processes from the spool", len(self.known))

    def welcome(self, welcome: Welcome) -> None:
        """From now on processes may start: the head has told where their files are."""
        self._welcome = welcome
        self._spool.note_data_root(welcome.data_root)
        self._carrier.welcome(welcome)
        self._runtime.clear(welcome.cluster)
        self._release()
        self._loop.after(0, self._start_some)

    def obey(self, order: Order) -> None:
        """Do what an order asks; a repeated one changes nothing."""
        process = self.known.get(Key(order.process, order.attempt))
        if process is None:
            if order.wish is not Wish.FORGET:
                self._take(order)
        elif order.wish is Wish.STOP:
            self._stop(process, order.killed_by)
        elif order.wish is Wish.FORGET and process.end:
            crash.point("before-forget")
            self._spool.remove(process.entry)
            self._forgotten.add(process.key)
            del self.known[process.key]

    def notice(self) -> None:
        """End what commands that are over have left behind, for it keeps their output open."""
        for process in self.known.values():
            if process.descriptor is None or process.is_over or not self._runtime.is_over(process.entry):
                continue
            process.is_over = True
            if process.stop is None:
                process.kill_at = time.monotonic()
                # Mostly there is nothing left, and it ends by itself in a moment.
                self._press_later(process, LINGER_S)

    def _take(self, order: Order) -> None:
        """Put an unknown process on record, to be started, or as a tombstone so that it never is."""
        key = Key(order.process, order.attempt)
        end = None
        if order.wish is Wish.STOP:
            end = End(time.time(), killed_by=order.killed_by, reason="never started")
        elif order.spec is None or key in self._forgotten:
            end = End(time.time(), killed_by=KilledBy.WORKER, reason=UNKNOWN)
        if self._welcome is None:
            return
        home = self._welcome
        root, spec = self._carrier.localise(order, home)
        intent = Intent(*key, home.cluster, self._boot_id, root, None if end else spec)
        try:
            entry = self._spool.add(intent, end)
        except (OSError, ValueError) as error:
            log.error("process %s: the spool cannot be written: %s", key, error)
            entry = Entry(self._spool.path / str(key), intent)
            reason = f"the worker cannot write to its spool: {error}"
            end = end or End(time.time(), killed_by=KilledBy.WORKER, reason=reason)
        crash.point("after-intent")
        process = self.known[key] = Process(entry, end=end)
        if end is None:
            self._enqueue(process)
        self._changed()

    def _take_up(self, process: Process) -> None:
        entry = process.entry
        if entry.intent.boot_id != self._boot_id:
            self._end_by_reboot(process)
        elif entry.intent.spec is None:
            self._finish(process, End(time.time(), killed_by=KilledBy.WORKER, reason=UNKNOWN))
        elif not entry.is_claimed():
            self._enqueue(process)
        elif (descriptor := self._runtime.adopt(entry)) is None:
            self._on_ended(process)
        else:
            self._attend(process, descriptor)
            if process.stop:
                self._press_from(process, process.stop.at)

    def _end_by_reboot(self, process: Process) -> None:
        if self._runtime.has_exited(process.entry):
            self._bring_home(process, process.end_by_itself())
        else:
            end = End(time.time(), killed_by=KilledBy.REBOOT, reason="the node was rebooted")
            self._bring_home(process, end)

    def _enqueue(self, process: Process) -> None:
        if not self._waiting and self._welcome:
            self._loop.after(0, self._start_some)
        self._waiting.append(process)

    def _start_some(self) -> None:
        for _ in range(min(STARTS_AT_ONCE, len(self._waiting))):
            process = self._waiting.popleft()
            if process.is_waiting:
                self._start(process)
        if self._waiting:
            self._loop.after(0, self._start_some)

    def _start(self, process: Process) -> None:
        if process.stop:
            self._stop_unstarted(process)
            return
        self._follow(process)
        self._carrier.fetch(process.entry, partial(self._on_fetched, process))

    def _on_fetched(self, process: Process, trouble: StartRefused | OSError | None) -> None:
        if trouble is not None:
            self._on_begun(process, trouble)
        elif process.is_waiting:
            self._runtime.start(process.entry, partial(self._on_begun, process))

    def _on_begun(self, process: Process, outcome: int | StartRefused | OSError) -> None:
        if not process.is_waiting:
            # Stopped meanwhile, or already taken up.
            if isinstance(outcome, int):
                os.close(outcome)
        elif isinstance(outcome, StartRefused):
            self._finish(process, End(time.time(), killed_by=KilledBy.WORKER, reason=str(outcome)))
        elif isinstance(outcome, OSError):
            # It may run or not; the claim makes another try harmless.
            log.error("process %s: not begun yet: %s; trying again", process.key, outcome)
            process.tries += 1
            # Its first part is for people, and the rest for whoever keeps the node.
            lack = str(outcome).partition(": ")[0]
            if lack != process.lack:
                process.entry.say(f"pit: not begun yet: {lack}; trying again")
            process.lack = lack
            self._loop.after(min(process.tries, MOST_PAUSE_S), partial(self._enqueue, process))
        else:
            crash.point("after-start")
            log.info("process %s started", process.key)
            process.started_at = process.entry.started_at() or time.time()
            self._attend(process, outcome)

    def _attend(self, process: Process, descriptor: int) -> None:
        process.descriptor = descriptor
        process.image = process.entry.image()
        self._loop.watch(descriptor, partial(self._on_ended, process))
        self._carrier.attend(process.entry, partial(self._stop, process, KilledBy.WORKER))
        self._follow(process)
        self._changed()

    def _follow(self, process: Process) -> None:
        if process.tail is None:
            try:
                process.tail = self._inotify.add(process.entry.path)
            except OSError as error:
                log.warning("process %s: its output is looked at seldom: %s", process.key, error)

    def _on_ended(self, process: Process) -> None:
        if process.descriptor is not None:
            self._loop.unwatch(process.descriptor)
            os.close(process.descriptor)
            process.descriptor = None
        process.is_settling = True
        self._runtime.settle(process.entry, partial(self._on_settled, process))

    def _on_settled(self, process: Process, descriptor: int | None) -> None:
        process.is_settling = False
        if descriptor is not None:
            self._attend(process, descriptor)
            return
        crash.point("after-exit")
        process.has_ended = True
        if process.stop is None:
            process.kill_at = time.monotonic()
        self._press(process)

    def curb(self, key: Key, reason: str) -> None:
        """End one that takes more than it may."""
        if process := self.known.get(key):
            self._stop(process, KilledBy.LIMIT, reason)

    def _stop(self, process: Process, killed_by: KilledBy | None, reason: str = "") -> None:
        if process.is_delivering and killed_by is KilledBy.USER:
            self._carrier.give_up(process.entry)
        is_over = process.end or process.is_settling or process.is_delivering
        if is_over or process.stop or self._runtime.has_exited(process.entry):
            return
        process.stop = Stop(time.time(), killed_by, reason)
        try:
            process.entry.save_stop(process.stop)
        except OSError as error:
            # Stopped all the same; only the next worker would not know on whose behalf.
            log.error("process %s: its stop cannot be written: %s", process.key, error)
        crash.point("after-stop")
        if process.is_waiting:
            self._stop_unstarted(process)
        else:
            self._press_from(process, process.stop.at)
        self._changed()

    def _stop_unstarted(self, process: Process) -> None:
        if process.entry.claim():
            killed_by = process.stop.killed_by if process.stop else None
            self._finish(process, End(time.time(), killed_by=killed_by, reason="stopped before it began"))
        else:
            self._take_up(process)

    def _press_from(self, process: Process, since: float) -> None:
        """Ask all of its tree to end; by force once the grace that began at `since` is over."""
        spec = process.entry.intent.spec
        grace_s = spec.grace_s if spec else 0.0
        rest_s = min(grace_s, since + grace_s - time.time())
        # In the past, where an earlier worker has tried already.
        process.kill_at = time.monotonic() + rest_s
        self._runtime.signal(process.entry, signal.SIGTERM)
        self._press_later(process, max(0.0, rest_s))

    def _press(self, process: Process) -> None:
        """See to it that nothing of a process is left; comes back by timer until that is so."""
        if process.end or process.is_vacating or process.is_delivering:
            return
        rest_s = (process.kill_at or 0.0) - time.monotonic()
        left = self._runtime.signal(process.entry, signal.SIGKILL if rest_s <= 0 else 0)
        if left == 0 and process.has_ended:
            spec = process.entry.intent.spec
            process.is_vacating = True
            units = spec.units if spec else ()
            self._vacate(units, lambda ailment: self._bring_home(process, self._read_end(process, ailment)))
            return
        process.presses += 1
        if left and rest_s <= -STUBBORN_S and not process.is_stubborn:
            process.is_stubborn = True
            job = process.entry.intent.spec.job if process.entry.intent.spec else "unknown"
            log.error("process %s of job %s: %d of its tree cannot be killed", process.key, job, left)
            self._changed()
        pace_s = min(0.005 * 2 ** min(process.presses, 8), 1.0)
        self._press_later(process, min(pace_s, rest_s) if rest_s > 0 else pace_s)

    def _press_later(self, process: Process, delay_s: float) -> None:
        if process.timer:
            process.timer.cancel()
        process.timer = self._loop.after(delay_s, partial(self._press, process))

    def _read_end(self, process: Process, ailment: str) -> End:
        # Whoever gets the claim now: the supervisor ended without, so its command never ran.
        if not process.entry.claim():
            end = process.end_by_itself()
            # A program says many things when its GPU has gone; this is why.
            is_failure = end.exit_code and not end.killed_by and not end.reason
            return replace(end, reason=ailment) if ailment and is_failure else end
        if process.stop:
            return End(time.time(), killed_by=process.stop.killed_by, reason="stopped before it began")
        return End(time.time(), killed_by=KilledBy.WORKER, reason="its supervisor could not start")

    def _bring_home(self, process: Process, end: End) -> None:
        """Finish it, once all it has written is on the head: who hears of the end may look for it."""
        process.is_delivering = True
        delivered, waiting = partial(self._on_delivered, process, end), partial(self._on_waiting, process)
        self._carrier.deliver(process.entry, delivered, waiting)
        if process.stop and process.stop.killed_by is KilledBy.USER:
            # Tried once, but not waited for: who stops a job wants its GPUs back.
            self._carrier.give_up(process.entry)

    def _on_waiting(self, process: Process, why: str) -> None:
        process.lack = f"what it has written is not on the head yet: {why}"
        process.entry.say(f"pit: {process.lack}; trying again", is_over=True)
        self._changed()

    def _on_delivered(self, process: Process, end: End, trouble: str) -> None:
        process.is_delivering = False
        if trouble:
            killed_by = end.killed_by or KilledBy.WORKER
            reason = "; ".join(filter(None, (end.reason, trouble)))
            end = replace(end, exit_code=None, signal=None, killed_by=killed_by, reason=reason)
        self._finish(process, end)

    def _release(self) -> None:
        self._carrier.release([p.entry for p in self.known.values() if p.end is None])

    def _finish(self, process: Process, end: End) -> None:
        process.end = end
        log.info("process %s ended: exit code %s %s", process.key, end.exit_code, end.reason)
        if process.timer:
            process.timer.cancel()
        if process.tail is not None:
            self._inotify.remove(process.tail)
        self._runtime.remove(process.entry)
        try:
            process.entry.save_end(end)
        except OSError as error:
            # The next worker will find it out anew from what the supervisor left.
            log.error("process %s: its end cannot be written: %s", process.key, error)
        self._release()
        self._changed()
