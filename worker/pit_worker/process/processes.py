"""All processes of this node: what is known of them, orders from the head, recovery after a restart."""

import logging
import time
from functools import partial

from pit_protocol.messages.beat import Order, OrderAction, Welcome
from pit_protocol.states import KilledBy
from pit_worker.process import stack_dump
from pit_worker.process.context import Context
from pit_worker.process.end import Finisher
from pit_worker.process.process import Process
from pit_worker.process.start import UNKNOWN, Starter
from pit_worker.process.states import State
from pit_worker.process.stop import Stopper
from pit_worker.process.time_limit import TimeKeeper
from pit_worker.spool.entry import End, Entry, Intent, Key
from pit_worker.spool.spool import Spool
from pit_worker.thread_pool import ThreadPool

log = logging.getLogger(__name__)


class Processes:
    """Keeps two rules: on disk before it is done, and one key is started at most once."""

    def __init__(self, context: Context, spool: Spool) -> None:
        self._context = context
        self._spool = spool
        self._welcome: Welcome | None = None
        self._forgotten: set[Key] = set()
        self.known: dict[Key, Process] = {}
        self._dumps = ThreadPool("dump", 2)
        self._time = TimeKeeper(context, lambda process, why: self.stop(process, KilledBy.TIME, why))
        self._stopper = Stopper(context, lambda process: self._finisher.release_gpus(process))
        self._finisher = Finisher(
            context,
            self._stopper,
            lambda process, descriptor: self._starter.watch(process, descriptor),
            self._release_data,
        )
        self._starter = Starter(
            context,
            self._stopper,
            self._finisher,
            self._time.watch,
            lambda process: self.stop(process, KilledBy.WORKER),
        )

    @property
    def trouble(self) -> str:
        """Why the node should take no new processes: what keeps its own from dying may keep others, too."""
        count = sum(p.escalation.is_unkillable and p.state is not State.ENDED for p in self.known.values())
        if count > 1:
            return f"{count} processes that were killed do not end: they hang in the kernel, or are frozen"
        return "a process that was killed does not end: it hangs in the kernel, or is frozen" if count else ""

    def recover(self) -> None:
        """Resume what an earlier worker left: adopt what runs, end what does not."""
        for entry in self._spool.entries():
            process = Process(entry, started_at=entry.started_at(), stop=entry.stop(), end=entry.end())
            process.image, process.clock = entry.image(), entry.clock()
            self.known[process.key] = process
            if process.state is State.ENDED:
                self._context.runtime.remove(entry)
            else:
                self._starter.resume(process)
        if self.known:
            log.info("recovered %d processes from the spool", len(self.known))

    def welcome(self, welcome: Welcome) -> None:
        """A session with the head has begun: from now on processes may start."""
        self._welcome = welcome
        self._spool.save_data_root(welcome.data_root)
        self._context.staging.welcome(welcome)
        self._context.runtime.remove_orphans(welcome.cluster)
        self._release_data()
        self._starter.open()

    def obey(self, order: Order) -> None:
        """Do what an order asks; a repeated order changes nothing."""
        process = self.known.get(Key(order.process, order.attempt))
        if process is None:
            if order.action is not OrderAction.FORGET:
                self._take(order)
        elif order.action is OrderAction.RUN:
            self._time.set(process, order.time, order.ran_s)
        elif order.action is OrderAction.STOP:
            self.stop(process, order.killed_by)
        elif order.action is OrderAction.FORGET and process.state is State.ENDED:
            self._context.failpoints.reach("before-forget")
            self._spool.remove(process.entry)
            self._forgotten.add(process.key)
            del self.known[process.key]

    def stop(self, process: Process, killed_by: KilledBy | None, reason: str = "") -> None:
        """Stop a process, wherever it is in its life; one that is being stopped already goes on as it was."""
        if process.state is State.STAGING_OUT and killed_by is KilledBy.USER:
            self._context.staging.give_up(process.entry)
        stop = self._stopper.request(process, killed_by, reason)
        if stop is None:
            return
        if process.is_waiting:
            self._starter.cancel(process)
        elif killed_by is KilledBy.STALL:
            self._dumps.submit(partial(self._dump_stacks, process))
        else:
            self._stopper.terminate(process, stop.at)
        self._context.changed()

    def _dump_stacks(self, process: Process) -> None:
        """Show in its output where a process hangs, then stop it; run in a thread."""
        try:
            stack_dump.write(self._context.runtime, process.entry)
        finally:
            self._context.loop.post(partial(self._stopper.terminate, process, time.time()))

    def stop_over_limit(self, key: Key, reason: str) -> None:
        """Stop a process that uses more than it may."""
        if process := self.known.get(key):
            self.stop(process, KilledBy.LIMIT, reason)

    def end_leftovers(self) -> None:
        """Find processes whose command has ended, and end what their commands have left behind."""
        for process in self.known.values():
            if process.state is State.RUNNING and self._context.runtime.command_has_ended(process.entry):
                self._stopper.end_leftovers(process)

    def leave(self) -> None:
        """The worker exits in good order: what it was starting has not crashed it."""
        for process in self.known.values():
            if process.is_waiting:
                process.entry.forget_tries()

    def _take(self, order: Order) -> None:
        """Record an unknown process, to be started, or as a tombstone so that it never is."""
        if self._welcome is None:
            return
        key = Key(order.process, order.attempt)
        end = None
        if order.action is OrderAction.STOP:
            end = End(time.time(), killed_by=order.killed_by, reason="never started")
        elif order.spec is None or key in self._forgotten:
            end = End(time.time(), killed_by=KilledBy.WORKER, reason=UNKNOWN)
        root, spec = self._context.staging.localise(order, self._welcome)
        intent = Intent(
            *key, self._welcome.cluster, self._context.boot_id, root, spec if end is None else None
        )
        try:
            entry = self._spool.add(intent, end)
        except (OSError, ValueError) as error:
            log.error("process %s: the spool cannot be written: %s", key, error)
            entry = Entry(self._spool.path / str(key), intent)
            reason = f"the worker cannot write to its spool: {error}"
            if end is None:
                end = End(time.time(), killed_by=KilledBy.WORKER, reason=reason, node_fault=True)
                self._context.health.note_fault(order.spec.job if order.spec else 0, reason)
        self._context.failpoints.reach("after-intent")
        process = self.known[key] = Process(entry, end=end)
        if end is None:
            self._time.set(process, order.time, order.ran_s)
            self._starter.enqueue(process)
        self._context.changed()

    def _release_data(self) -> None:
        live = [process.entry for process in self.known.values() if process.state is not State.ENDED]
        self._context.staging.release(live)
