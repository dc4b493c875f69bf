"""The time by which old data is deleted does not follow a wall clock that jumps ahead."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pit_protocol.durations import DAY_S
from pit_protocol.system.retention_clock import RetentionClock

BEGIN = 1_790_000_000.0
YEAR_S = 365 * DAY_S


@dataclass
class Machine:
    file: Path
    wall: float = BEGIN
    tick: float = 1000.0
    boot: str = "first"
    clock: RetentionClock = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start the program again."""
        self.clock = RetentionClock(
            self.file, 3.0, wall=lambda: self.wall, tick=lambda: self.tick, boot=lambda: self.boot
        )

    def run(self, days: float, *, observe: bool = True) -> None:
        self.wall += days * DAY_S
        self.tick += days * DAY_S
        if observe:
            self.clock.now()

    def reboot(self, days_off: float = 0.0) -> None:
        self.wall += days_off * DAY_S
        self.boot, self.tick = self.boot + "+", 5.0
        self.start()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path / "clock")
    assert machine.clock.now() == BEGIN
    return machine


def test_it_follows_a_clock_that_runs_and_one_that_is_set_by_less_than_a_day(machine: Machine) -> None:
    machine.run(400, observe=False)  # however long nobody looked
    assert machine.clock.now() == machine.wall
    machine.wall += 0.9 * DAY_S
    assert machine.clock.now() == machine.wall
    machine.wall -= YEAR_S
    assert machine.clock.now() == machine.wall
    assert machine.clock.describe() == ""


def test_after_a_jump_it_runs_on_without_it_and_says_so(machine: Machine) -> None:
    machine.wall += YEAR_S
    machine.clock.now()
    machine.run(2)
    assert machine.clock.now() == BEGIN + 2 * DAY_S
    assert machine.clock.describe().startswith("the clock jumped 365.0 days ahead: for 1.0 days")
    machine.start()  # a restart does not help
    assert machine.clock.now() == BEGIN + 2 * DAY_S


def test_a_clock_that_is_corrected_is_followed_again_at_once(machine: Machine) -> None:
    machine.wall += YEAR_S
    machine.run(1)
    machine.wall -= YEAR_S
    assert (machine.clock.now(), machine.clock.describe()) == (BEGIN + DAY_S, "")


def test_the_grace_period_counts_up_time_from_when_the_jump_was_seen(machine: Machine) -> None:
    machine.wall += YEAR_S
    machine.clock.now()
    machine.run(1.5)
    machine.reboot()
    machine.run(1.4)
    assert machine.clock.now() < machine.wall - DAY_S
    machine.run(0.2)
    assert (machine.clock.now(), machine.clock.describe()) == (machine.wall, "")


def test_an_admin_can_accept_the_clock_from_another_process(machine: Machine) -> None:
    machine.wall += YEAR_S
    machine.run(0.1)
    RetentionClock(machine.file, wall=lambda: machine.wall, tick=lambda: 0.0, boot=lambda: "first").accept()
    assert (machine.clock.now(), machine.clock.describe()) == (machine.wall, "")


def test_a_short_reboot_is_no_jump_and_a_long_one_waits(machine: Machine) -> None:
    machine.reboot(days_off=0.5)
    assert machine.clock.now() == machine.wall
    machine.reboot(days_off=30)
    assert machine.clock.now() == machine.wall - 30 * DAY_S + machine.tick


def test_a_broken_file_is_no_obstacle(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    machine.file.write_text("{")
    assert machine.clock.now() == machine.wall
    assert "cannot be read" in caplog.text
