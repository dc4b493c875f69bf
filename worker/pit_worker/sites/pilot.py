"""The pilot: the worker in an allocation of a site. It joins, runs what the head orders, and leaves in time.

It never leaves the allocation's cgroup, and ends when it is told to, when it has nothing to do, or when the
head is away for too long: it stops its processes, delivers what they wrote, reports, and leaves.
"""

import logging
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pit_protocol.atomic_file import write_atomic
from pit_protocol.backoff import Backoff
from pit_protocol.messages.beat import Inventory, Orders, Resource, Runtime
from pit_protocol.states import KilledBy
from pit_protocol.system.failpoints import Failpoints
from pit_worker.admin import join
from pit_worker.daemon import Worker
from pit_worker.link.beat import OutgoingBeat
from pit_worker.settings import NotNow, RunAs, SettingError, Settings
from pit_worker.sites.allocation import Allocation
from pit_worker.sites.pilot_settings import PilotSettings
from pit_worker.spool.attempt_dir import ATTEMPTS
from pit_worker.spool.spool import Spool
from pit_worker.timing import Timing

JOIN_S = 100.0  # how long a head that does not answer is asked
FIRST_S = 300.0  # without a process after joining, the head does not want it
IDLE_S = 2.0  # without a process after the last one
NO_HEAD_S = 600.0  # without an answer of the head
EARLY_S = 65.0  # Slurm may give notice so much earlier than asked
LOOK_S = 0.25
SPOOL = "spool"
NOTICE_S = 1.0  # a site signals processes and pilot one by one: which came first says nothing

log = logging.getLogger(__name__)


def run(folder: Path, chosen: PilotSettings, environ: Mapping[str, str] = os.environ) -> int:
    """Join and work; the exit code."""
    allocation = Allocation.of(environ)
    place = Path(tempfile.mkdtemp(prefix=f"pit-{folder.name}.{allocation.index}-"))
    try:
        settings = _join(chosen, allocation, place)
        code = Pilot(settings, chosen, allocation).run()
    finally:
        (place / join.TOKEN_FILE).unlink(missing_ok=True)
        # Data that could not be delivered stays, as its job's reason says.
        if not any((place / SPOOL / ATTEMPTS).glob("*")):
            shutil.rmtree(place, ignore_errors=True)
    return code


def _join(chosen: PilotSettings, allocation: Allocation, place: Path) -> Settings:
    """Use up this pilot's join code; the worker's settings."""
    if allocation.index >= len(chosen.codes):
        raise SettingError(f"there is no join code for pilot {allocation.index}")
    token_file, ca_file = place / join.TOKEN_FILE, place / join.CA_FILE
    if chosen.certificate:
        write_atomic(ca_file, chosen.certificate, mode=0o644)
    answer = _patiently(
        lambda: join.ask(chosen.url, chosen.codes[allocation.index], chosen.certificate, allocation.host)
    )
    write_atomic(token_file, answer["token"] + "\n", mode=0o600)
    return Settings(
        url=chosen.url,
        token_file=token_file,
        spool=place / SPOOL,
        address=join.own_address(),
        ca_file=str(ca_file) if chosen.certificate else "",
        search_path=chosen.search_path,
        data_root=chosen.data_root,
        runtime=Runtime.PROCESS,
        run_as=RunAs.WORKER,
        cgroups=False,  # the allocation's own is left alone
    )


def _patiently(call: Callable[[], dict[str, str]]) -> dict[str, str]:
    backoff, deadline = Backoff(), time.monotonic() + JOIN_S
    while True:
        try:
            return call()
        except NotNow as error:
            if time.monotonic() > deadline:
                raise
            log.warning("%s; trying again", error)
            time.sleep(backoff.delay_s())


class Pilot(Worker):
    def __init__(self, settings: Settings, chosen: PilotSettings, allocation: Allocation) -> None:
        super().__init__(settings, Spool(settings.spool), Failpoints(""), Timing())
        self._allocation = allocation
        self._site = chosen.site
        self._keep_s = chosen.keep_s
        self._has_worked = False
        self._busy_at = self._heard_at = time.monotonic()
        self._notice_at = time.monotonic() + chosen.time_s - chosen.notice_s - EARLY_S
        self._end_reason = ""
        self._loop.after(LOOK_S, self._look)

    def on_orders(self, orders: Orders) -> None:
        self._heard_at = time.monotonic()
        super().on_orders(orders)

    def on_answer(self, sent: OutgoingBeat, orders: Orders) -> None:
        self._heard_at = time.monotonic()
        super().on_answer(sent, orders)

    def _read_inventory(self, resources: tuple[Resource, ...]) -> Inventory:
        return self._allocation.inventory(super()._read_inventory(resources))

    def _on_signal(self) -> None:
        self._loop.post(lambda: self._begin_end(self._why_signalled()))

    def _why_signalled(self) -> str:
        what = f"{self._site} ended its allocation {self._allocation.id}"
        return f"{what}: its time is over" if time.monotonic() > self._notice_at else what

    def _begin_end(self, reason: str) -> None:
        """Stop everything; `_look` leaves once the head knows how it ended."""
        if self._end_reason:
            return
        log.info("leaving: %s", reason)
        self._end_reason = reason
        for process in list(self._processes.known.values()):
            self._processes.stop(process, KilledBy.NODE, reason)
        self._on_change()

    def _send(self) -> None:
        """Say of processes that the site's own signal ended what ended them."""
        for process in self._processes.known.values():
            end = process.end
            if end is None or end.signal != signal.SIGTERM or end.killed_by:
                continue
            if self._end_reason:
                process.end = replace(end, killed_by=KilledBy.NODE, reason=self._end_reason)
            elif time.time() - end.ended_at < NOTICE_S:
                self._send_timer = None
                self._send_in(LOOK_S)
                return
        super()._send()

    def _look(self) -> None:
        now = time.monotonic()
        if self._processes.known:
            self._has_worked, self._busy_at = True, now
        patience_s = self._keep_s + IDLE_S if self._has_worked else FIRST_S + self._keep_s
        if not self._processes.known and (self._end_reason or now - self._busy_at > patience_s):
            log.info("leaving: %s", self._end_reason or "nothing to do")
            self._loop.leave(0)
            return
        if now - self._heard_at > NO_HEAD_S:
            if self._end_reason:
                self._loop.leave(1)
                return
            self._begin_end(f"no answer from the head for {NO_HEAD_S:g} s")
        self._loop.after(LOOK_S, self._look)
