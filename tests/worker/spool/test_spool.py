"""Entries of the spool are written atomically, and only one claim succeeds."""

import os
import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from pit_protocol.states import KilledBy
from pit_worker.loop import Loop
from pit_worker.process.inotify import Inotify
from pit_worker.runtime.fork_server import ForkServer
from pit_worker.settings import SettingError
from pit_worker.spool.entry import End, Intent, Stop
from pit_worker.spool.spool import Spool
from pit_worker.supervisor.launch import Launch
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
    loop = Loop()
    server = ForkServer(loop)
    crowd: dict[int, int] = {}  # process ids and descriptors

    def take(outcome: tuple[int, int] | OSError) -> None:
        assert not isinstance(outcome, OSError)
        crowd[outcome[0]] = outcome[1]
        if len(crowd) == 20:
            loop.leave(0)

    launch = Launch(
        directory=str(entry.path),
        script=str(entry.command),
        environment={"SRC_DIR": str(tmp_path)},
        variables={},
        keep=0,
        adopts_orphans=True,
    )
    for _ in range(20):
        server.launch(launch, None, take)
    assert loop.run() == 0
    for descriptor in crowd.values():
        assert select.select([descriptor], [], [], 60)[0]
        os.close(descriptor)
    assert entry.output.pread(0, 100) == b"ran\n"
    assert (entry.exit_code(), entry.has_empty_tree()) == (0, True)
    supervisor = entry.supervisor()
    assert supervisor and supervisor[0] in crowd
    server.close()
    loop.close()


def test_a_fork_server_that_was_killed_is_replaced(tmp_path: Path):
    loop = Loop()
    server = ForkServer(loop)
    outcomes: list[tuple[int, int] | OSError] = []
    launch = Launch(directory=str(tmp_path), script="", environment={}, variables={}, keep=0)

    def start() -> tuple[int, int] | OSError:
        expected = len(outcomes) + 1
        server.launch(launch, None, outcomes.append)
        while len(outcomes) < expected:
            loop._turn()
        return outcomes[-1]

    first = start()
    assert server._program
    server._program.kill()
    server._program.wait()
    lost, third = start(), start()
    assert isinstance(first, tuple) and isinstance(lost, OSError) and isinstance(third, tuple)
    os.close(first[1])
    os.close(third[1])
    server.close()
    loop.close()


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
