"""Decayed use in virtual time, as `services/scheduling/fair_share.py` finds it in the database."""

from collections import defaultdict
from math import inf, log

from pit_protocol.durations import DAY_S
from pit_server.scheduler.order import Usage
from pit_server.scheduler.plan import FULL_PASS_S
from pit_server.settings import Settings


class Shares:
    def __init__(self, settings: Settings) -> None:
        self._half_life_s = settings.half_life_days * DAY_S
        self._used: defaultdict[tuple[str, str], float] = defaultdict(float)  # by user and group, at `_at`
        self._rates: dict[int, tuple[tuple[str, str], float]] = {}  # of running jobs: weighted resources
        self._at = 0.0
        self._usage = Usage()
        self._renewed_at = -inf

    def start(self, number: int, user: str, group: str, rate: float, now: float) -> None:
        self._go_on(now)
        self._rates[number] = (user, group), rate

    def end(self, number: int, now: float) -> None:
        self._go_on(now)
        del self._rates[number]

    def usage(self, now: float) -> Usage:
        """What users and groups have used, as old as the scheduler lets it become."""
        if now - self._renewed_at >= FULL_PASS_S:
            self._go_on(now)
            users: defaultdict[str, float] = defaultdict(float)
            groups: defaultdict[str, float] = defaultdict(float)
            for (user, group), used in self._used.items():
                users[user] += used
                groups[group] += used
            self._usage, self._renewed_at = Usage(users, groups), now
        return self._usage

    def _go_on(self, now: float) -> None:
        """What was used decays, and what runs is added with its own decay."""
        if now <= self._at:
            return
        left = 0.5 ** ((now - self._at) / self._half_life_s)
        for key in self._used:
            self._used[key] *= left
        added_s = self._half_life_s / log(2) * (1 - left)
        for key, rate in self._rates.values():
            self._used[key] += rate * added_s
        self._at = now
