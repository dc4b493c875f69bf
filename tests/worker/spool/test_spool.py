"""Entries of the spool are written atomically, and only one claim succeeds."""

import select
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pit_protocol.states import KilledBy
from pit_worker.process.inotify import Inotify
from pit_worker.runtime.base import output_writer
from pit_worker.runtime.local import SUPERVISE
from pit_worker.settings import SettingError
from pit_worker.spool.entry import End, Intent, Stop
from pit_worker.spool.spool import Spool
from tests.support.stubs.worker_head import a_spec

INTENT = Intent(1, 2, "test", "boot", "/data", a_spec("echo ran", hostfile="n1\n", KEY="value"))


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool")
    yield spool
    spool.close()


def test_what_was_added_is_found_again(spool: Spool):
    entry = spool.add(INTENT)
    entry.save_stop(Stop(5.0, KilledBy.USER))
    entry.save_end(End(6.0, exit_code=3))
    (found,) = spool.entries()
    assert found.intent == INTENT
    assert (found.stop(), found.end()) == (Stop(5.0, KilledBy.USER), End(6.0, exit_code=3))
    assert (found.command.read_text(), found.hostfile.read_text()) == ("echo ran", "n1\n")
    assert found.path.stat().st_mode & 0o777 == 0o700


def test_what_a_crash_left_half_written_is_removed(spool: Spool):
    (spool.add(INTENT).path / "intent").rename(spool.path / "1-2/intent.part")
    assert list(spool.entries()) == []
    assert not (spool.path / "1-2").exists()


def test_an_entry_that_cannot_be_read_is_left_alone(spool: Spool):
    (spool.add(INTENT).path / "intent").write_text('{"version": 99}')
    assert list(spool.entries()) == []
    assert (spool.path / "1-2").exists()


def test_a_spool_that_is_in_use_is_refused(spool: Spool):
    with pytest.raises(SettingError, match="another worker holds the spool"):
        Spool(spool.path)


def test_a_claim_is_given_once(spool: Spool):
    entry = spool.add(INTENT)
    assert [entry.claim(), entry.claim()] == [True, False]


def test_of_many_supervisors_one_runs_the_command(spool: Spool, tmp_path: Path):
    entry = spool.add(INTENT)
    arguments = ["/bin/sh", str(SUPERVISE), str(entry.path), str(entry.command), str(entry.variables)]
    arguments += ["", "", "1", *output_writer(entry), ""]  # no cgroup, no lease, no orphans
    crowd = [subprocess.Popen(arguments, env={"SRC_DIR": str(tmp_path)}) for _ in range(20)]
    assert {supervisor.wait() for supervisor in crowd} == {0}
    assert entry.output.pread(0, 100) == b"ran\n"
    assert entry.exit_code() == 0
    supervisor = entry.supervisor()
    assert supervisor and supervisor[0] in {supervisor.pid for supervisor in crowd}


def test_inotify_reports_a_file_that_grows(tmp_path: Path):
    file = tmp_path / "output"
    file.touch()
    inotify = Inotify()
    number = inotify.add(file)
    assert select.select([inotify.fd], [], [], 0)[0] == []
    file.write_text("more")
    assert select.select([inotify.fd], [], [], 5)[0] == [inotify.fd]
    inotify.drain()
    assert select.select([inotify.fd], [], [], 0)[0] == []
    inotify.remove(number)
    inotify.close()


@pytest.mark.threat("F23")
def test_each_hello_has_a_higher_number_also_after_a_restart(tmp_path: Path):
    first = Spool(tmp_path / "spool")
    name, count = first.count_hello()
    assert first.count_hello() == (name, count + 1)
    first.close()
    second = Spool(tmp_path / "spool")
    assert second.count_hello() == (name, count + 2)
    second.close()
    other = Spool(tmp_path / "other")
    assert other.count_hello()[0] != name
    other.close()
