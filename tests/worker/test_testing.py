"""The hooks that tests set by environment variables."""

import subprocess
import sys

import pytest

from pit_protocol.system.failpoints import CRASHED
from pit_worker import testing
from pit_worker.timing import Timing


def crash_at(value: str, *reached: str) -> int:
    """Reach these points in a process of its own; its exit code."""
    code = "import sys; from pit_protocol.system.failpoints import Failpoints; f = Failpoints(sys.argv[1])\n"
    code += "for label in sys.argv[2:]: f.reach(label)"
    return subprocess.run([sys.executable, "-c", code, value, *reached], check=False).returncode


def test_without_variables_nothing_changes():
    assert testing.read_timing({}) == Timing()
    testing.read_failpoints({}).reach("after-intent")


@pytest.mark.parametrize(
    ("value", "reached", "code"),
    [
        ("", ("here", "here"), 0),
        ("here", ("there", "here"), CRASHED),
        ("here", ("there",), 0),
        ("here:2", ("here",), 0),
        ("here:2", ("here", "there", "here"), CRASHED),
    ],
)
def test_a_failpoint_crashes_when_it_is_reached_often_enough(value: str, reached: tuple[str, ...], code: int):
    assert crash_at(value, *reached) == code


def test_a_speedup_shortens_its_own_intervals():
    timing = testing.read_timing({"PIT_WATCH_SPEEDUP": "10"})
    assert (timing.disk_check_s, timing.engine_timeout_s, timing.gpu_check_s) == (0.2, 1.0, 10.0)
    timing = testing.read_timing({"PIT_GPU_SPEEDUP": "10"})
    assert (timing.disk_check_s, timing.gpu_check_s, timing.gpu_release_s) == (2.0, 1.0, 3.0)
