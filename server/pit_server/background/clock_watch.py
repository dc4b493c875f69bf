"""Looks at the machine's clock often enough to notice a jump, also one while the machine was off."""

from pit_protocol.system.retention_clock import RetentionClock

EVERY_S = 3600.0


class ClockWatch:
    def __init__(self, clock: RetentionClock) -> None:
        self._clock = clock

    def __call__(self) -> float:
        self._clock.now()
        return EVERY_S
