"""What ails each GPU, look by look: what its driver says of it, and who is on it that should not be."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pit_protocol.beat import Trouble
from pit_worker.nvml import MAX_REASON, Ailing, Driver, User

MAX_NAMED = 3  # strangers that a reason names
# Errors after which a GPU is not to be trusted before a reset or a reboot, by NVIDIA's catalogue of Xids.
# Others are mostly the fault of the program that ran.
CRITICAL = {
    48: "memory error of two bits",
    64: "memory that could not be mapped anew",
    74: "error of NVLink",
    79: "fallen off the bus",
    94: "memory error, contained",
    95: "memory error, not contained",
    119: "its GSP does not answer",
    120: "error of its GSP",
    140: "memory error, not recovered",
}

log = logging.getLogger(__name__)


class Health:
    """Belongs to the thread that asks the driver."""

    def __init__(self, driver: Driver, units: Sequence[str]) -> None:
        self._driver = driver
        self._units = units
        self._strangers: dict[str, set[int]] = {}  # in the last look
        self._left: dict[str, set[int]] = {}  # of processes that have ended
        self._xids: dict[str, int] = {}  # the first critical one of each
        self._is_first = True
        self._told: dict[str, tuple[set[int], str]] = {}

    def look(self, owns: Callable[[int], bool]) -> tuple[Trouble, ...]:
        """All troubles there are; `owns` knows the process ids that may use a GPU."""
        try:
            self._driver.renew()
        except Ailing as ailing:
            return tuple(Trouble(unit, str(ailing)) for unit in self._units)
        self._hear()
        troubles = []
        for unit in self._units:
            reasons = [_render_xid(self._xids[unit])] if unit in self._xids else []
            try:
                users = self._driver.users(unit)
            except Ailing as ailing:
                reasons.append(str(ailing))
            else:
                left = self._left[unit] = self._left.get(unit, set()) & {user.pid for user in users}
                strangers = {user for user in users if user.pid in left or not owns(user.pid)}
                reasons.append(self._foreign(unit, strangers))
            if reason := "; ".join(filter(None, reasons)):
                troubles.append(Trouble(unit, reason[:MAX_REASON]))
        self._is_first = False
        return tuple(troubles)

    def list_left(self, units: Sequence[str]) -> dict[str, set[int]]:
        """Who computes on each of them, those who are its trouble already apart."""
        left = {}
        for unit in units:
            with suppress(Ailing):
                told, _ = self._told.get(unit, (set(), ""))
                if pids := {user.pid for user in self._driver.users(unit)} - told:
                    left[unit] = pids
        return left

    def find_ailment(self, units: Sequence[str]) -> str:
        """What its driver says of one of them that is not well; who is on it does not count."""
        for unit in units:
            try:
                self._driver.renew()
                self._hear()
                self._driver.users(unit)
            except Ailing as ailing:
                return f"its GPU {unit} {ailing}"
            if unit in self._xids:
                return f"its GPU {unit} {_render_xid(self._xids[unit])}"
        return ""

    def condemn(self, left: Mapping[str, set[int]]) -> None:
        """From the next look on these count as strangers, whosever they were."""
        for unit, pids in left.items():
            self._left[unit] = pids
            self._strangers.setdefault(unit, set()).update(pids)

    def _hear(self) -> None:
        for unit, xid in self._driver.hear():
            if xid in CRITICAL:
                self._xids.setdefault(unit, xid)
            else:
                log.info("GPU %s has reported Xid %d; it stays in use", unit, xid)

    def _foreign(self, unit: str, strangers: Collection[User]) -> str:
        """Why it is not ours to give; a process that just began or ended may pass for a stranger once.

        Not in the first look: a restart of the worker must not make a GPU look free for a while.
        """
        before, pids = self._strangers.get(unit, set()), {user.pid for user in strangers}
        self._strangers[unit] = pids
        lasting = pids if self._is_first else pids & before
        told, reason = self._told.get(unit, (set(), ""))
        if lasting != told:
            # Only then: their memory changes all the time, and would be news all the time.
            is_left = bool(lasting) and lasting <= self._left.get(unit, set())
            named = _render([user for user in strangers if user.pid in lasting])
            reason = named and f"is {'still ' if is_left else ''}used by {named}"
            self._told[unit] = lasting, reason
        return reason


def _render_xid(number: int) -> str:
    return f"has reported Xid {number} ({CRITICAL[number]})"


def _render(strangers: Sequence[User]) -> str:
    names = [_name(user) for user in sorted(strangers)[:MAX_NAMED]]
    more = len(strangers) - len(names)
    return f"{'; '.join(names)}{f'; and {more} more' if more else ''}"


def _name(user: User) -> str:
    words = f"pid {user.pid}"
    with suppress(OSError):
        name = Path(f"/proc/{user.pid}/comm").read_text(errors="replace").rstrip("\n")
        words += f" ({''.join(character if character.isprintable() else '?' for character in name)})"
    return words if user.memory_mib is None else f"{words}, {user.memory_mib:,} MiB"
