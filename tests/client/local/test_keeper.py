"""The parent that restarts the worker of `pit up`."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pit.local import keeper
from pit_protocol.system.procfs import read_stat

# Notes each start, and ends with the codes given, one after another.
PROGRAM = 'echo $$ >>"$0"; set -- $(sed "$(wc -l <"$0")!d" "$0.codes"); exit $1'


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "FIRST_PAUSE_S", 0.0)


def kept(tmp_path: Path, *codes: int) -> tuple[int, int]:
    """How it ends, and after how many starts."""
    ledger = tmp_path / "ledger"
    (tmp_path / "ledger.codes").write_text("".join(f"{code}\n" for code in codes))
    code = keeper.Keeper(["/bin/sh", "-c", PROGRAM, str(ledger)]).run()
    return code, len(ledger.read_text().splitlines())


def test_a_crashed_program_is_started_again(tmp_path: Path) -> None:
    assert kept(tmp_path, 70, 70, 0) == (0, 3)


def test_a_program_that_needs_a_person_is_not_started_again(tmp_path: Path) -> None:
    assert kept(tmp_path, 70, 1, 0) == (1, 2)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 5), (signal.SIGKILL, -9)])
def test_what_ends_the_keeper_ends_the_program(tmp_path: Path, number: int, code: int) -> None:
    program = f"trap 'exit 5' TERM; echo $$ >{tmp_path}/pid.part; mv {tmp_path}/pid.part {tmp_path}/pid; "
    command = [
        sys.executable,
        "-m",
        "pit.local.keeper",
        "/bin/sh",
        "-c",
        f"{program} while :; do sleep 0.1; done",
    ]
    parent = subprocess.Popen(command)
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    pid = int((tmp_path / "pid").read_text())
    parent.send_signal(number)
    assert parent.wait(120) == code
    while (stat := read_stat(pid)) and stat.state not in "ZX":
        assert time.monotonic() < deadline
        time.sleep(0.01)
