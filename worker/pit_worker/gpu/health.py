"""Faults of each GPU: what its driver reports, and processes on it that should not be there."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pit_protocol.messages.beat import Trouble
from pit_worker.gpu.nvml import MAX_REASON, Driver, GpuFault, User

MAX_NAMED = 3  # foreign processes that a reason names
# Errors after which a GPU must not be used before a reset or a reboot, by NVIDIA's catalogue of Xids.
# Others are mostly caused by the program that ran.
CRITICAL = {
    48: "double-bit memory error",
    64: "memory row could not be remapped",
    74: "NVLink error",
    79: "fallen off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "its GSP does not answer",
    120: "GSP error",
    140: "unrecovered memory error",
}

log = logging.getLogger(__name__)


class Health:
    """Belongs to the thread that calls the driver."""

    def __init__(self, driver: Driver, units: Sequence[str]) -> None:
        self._driver = driver
        self._units = units
        self._foreign: dict[str, set[int]] = {}  # in the last check
        self._left: dict[str, set[int]] = {}  # process ids left by processes that have ended
        self._xids: dict[str, int] = {}  # the first critical one of each
        self._is_first = True
        self._reported: dict[str, tuple[set[int], str]] = {}

    def check(self, owns: Callable[[int], bool]) -> tuple[Trouble, ...]:
        """All troubles there are; `owns` says whether a process id may use a GPU."""
        try:
            self._driver.reopen()
        except GpuFault as fault:
            return tuple(Trouble(unit, str(fault)) for unit in self._units)
        self._read_xids()
        troubles = []
        for unit in self._units:
            reasons = [_render_xid(self._xids[unit])] if unit in self._xids else []
            try:
                users = self._driver.users(unit)
            except GpuFault as fault:
                reasons.append(str(fault))
            else:
                left = self._left[unit] = self._left.get(unit, set()) & {user.pid for user in users}
                foreign = {user for user in users if user.pid in left or not owns(user.pid)}
                reasons.append(self._explain_foreign(unit, foreign))
            if reason := "; ".join(filter(None, reasons)):
                troubles.append(Trouble(unit, reason[:MAX_REASON]))
        self._is_first = False
        return tuple(troubles)

    def list_left(self, units: Sequence[str]) -> dict[str, set[int]]:
        """The processes on each of them, without those that are reported as its trouble already."""
        left = {}
        for unit in units:
            with suppress(GpuFault):
                reported, _ = self._reported.get(unit, (set(), ""))
                if pids := {user.pid for user in self._driver.users(unit)} - reported:
                    left[unit] = pids
        return left

    def find_fault(self, units: Sequence[str]) -> str:
        """The fault that the driver reports for one of them, whichever processes are on it; empty if none."""
        for unit in units:
            try:
                self._driver.reopen()
                self._read_xids()
                self._driver.users(unit)
            except GpuFault as fault:
                return f"its GPU {unit} {fault}"
            if unit in self._xids:
                return f"its GPU {unit} {_render_xid(self._xids[unit])}"
        return ""

    def mark_left(self, left: Mapping[str, set[int]]) -> None:
        """From the next check on these count as foreign, even if they were ours."""
        for unit, pids in left.items():
            self._left[unit] = pids
            self._foreign.setdefault(unit, set()).update(pids)

    def _read_xids(self) -> None:
        for unit, xid in self._driver.read_xids():
            if xid in CRITICAL:
                self._xids.setdefault(unit, xid)
            else:
                log.info("GPU %s has reported Xid %d; it stays in use", unit, xid)

    def _explain_foreign(self, unit: str, foreign: Collection[User]) -> str:
        """Why the GPU cannot be used; a process that just started or ended may look foreign in one check.

        Not in the first check: a restart of the worker must not make a GPU look free for a while.
        """
        before, pids = self._foreign.get(unit, set()), {user.pid for user in foreign}
        self._foreign[unit] = pids
        lasting = pids if self._is_first else pids & before
        reported, reason = self._reported.get(unit, (set(), ""))
        if lasting != reported:
            # Only then: their memory changes all the time, and each change would be reported.
            is_left = bool(lasting) and lasting <= self._left.get(unit, set())
            named = _render([user for user in foreign if user.pid in lasting])
            reason = named and f"is {'still ' if is_left else ''}used by {named}"
            self._reported[unit] = lasting, reason
        return reason


def _render_xid(number: int) -> str:
    return f"has reported Xid {number} ({CRITICAL[number]})"


def _render(foreign: Sequence[User]) -> str:
    names = [_name(user) for user in sorted(foreign)[:MAX_NAMED]]
    more = len(foreign) - len(names)
    return f"{'; '.join(names)}{f'; and {more} more' if more else ''}"


def _name(user: User) -> str:
    words = f"pid {user.pid}"
    with suppress(OSError):
        name = Path(f"/proc/{user.pid}/comm").read_text(errors="replace").rstrip("\n")
        words += f" ({''.join(character if character.isprintable() else '?' for character in name)})"
    return words if user.memory_mib is None else f"{words}, {user.memory_mib:,} MiB"
