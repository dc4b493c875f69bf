"""The time by which old data is deleted: a wall clock that jumps ahead must not delete everything at once.

The clock in a file follows the wall clock as long as that agrees with the time since boot, give or take a
day. After a jump it runs on as if there had been none, until the wall clock is right again, an admin
accepts it, or the machine has been up for the grace period. A machine that was off for days looks the same
as a jump; then data is deleted a few days later, and that is all.
"""

import json
import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pit_protocol.atomic_file import sync_directory, write_atomic
from pit_protocol.durations import DAY_S

JUMP_S = DAY_S
GRACE_DAYS = 3.0
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _State:
    trusted: float  # seconds since 1970
    boot: str
    tick: float  # seconds since that boot
    waited_s: float | None = None  # up time since the jump; None: there was none


class RetentionClock:
    """Stateless but for its file, so that `accept` works from another process. For one machine."""

    def __init__(
        self,
        file: Path,
        grace_days: float = GRACE_DAYS,
        *,
        wall: Callable[[], float] = time.time,
        tick: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
        boot: Callable[[], str] = lambda: BOOT_ID.read_text().strip(),
    ) -> None:
        self._file, self._grace_s = file, grace_days * DAY_S
        self._wall, self._tick, self._boot = wall, tick, boot

    def now(self) -> float:
        """The time to compare ages with; call it often, so that it knows for how long the machine was off."""
        before, after = self._step()
        if after.waited_s is not None and before.waited_s is None:
            log.warning("%s", self._explain(after))
        self._save(after)
        return after.trusted

    def describe(self) -> str:
        """Why old data is not deleted; empty if the clock is trusted."""
        after = self._step()[1]
        return self._explain(after) if after.waited_s is not None else ""

    def accept(self) -> None:
        """Trust the wall clock as it is."""
        self._save(_State(self._wall(), self._boot(), self._tick()))

    def _step(self) -> tuple[_State, _State]:
        """The state before, and now."""
        wall, tick, boot = self._wall(), self._tick(), self._boot()
        before = self._load() or _State(wall, boot, tick)
        passed_s = tick - before.tick if boot == before.boot else tick  # at least
        after = replace(before, trusted=before.trusted + passed_s, boot=boot, tick=tick)
        if wall - after.trusted <= JUMP_S:
            return before, replace(after, trusted=wall, waited_s=None)
        waited_s = 0.0 if before.waited_s is None else before.waited_s + passed_s
        if waited_s >= self._grace_s > 0:
            return before, replace(after, trusted=wall, waited_s=None)
        return before, replace(after, waited_s=waited_s)

    def _explain(self, state: _State) -> str:
        days = (self._wall() - state.trusted) / DAY_S
        left = (self._grace_s - (state.waited_s or 0.0)) / DAY_S
        wait = f"for {left:.1f} days" if self._grace_s else "until an admin accepts it"
        return f"the clock jumped {days:,.1f} days ahead: {wait}, ages are counted without these days"

    def _load(self) -> _State | None:
        try:
            return _State(**json.loads(self._file.read_text()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            log.warning("%s cannot be read: %s", self._file, error)
            return None

    def _save(self, state: _State) -> None:
        try:
            write_atomic(self._file, json.dumps(asdict(state)), sync=True)
            sync_directory(self._file.parent)
        except OSError as error:
            log.warning("%s cannot be written: %s", self._file, error)
