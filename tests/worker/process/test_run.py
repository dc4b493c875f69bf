"""A process runs, its output arrives, its end is reported."""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from pit_protocol.messages.beat import Order, OrderAction, Orders
from pit_protocol.states import KilledBy, ProcessState
from tests.support.stubs.worker_head import StubHead, a_spec
from tests.worker.conftest import EMPTY_SPOOL, Eventually, Workers, is_alive


@pytest.fixture(autouse=True)
def worker(workers: Workers) -> None:
    workers.start()


def test_exit_code_and_output_are_reported(head: StubHead, eventually: Eventually):
    head.run(1, "echo to stdout; echo to stderr >&2; exit 7")
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.signal, end.killed_by, end.reason) == (7, None, None, "")
    assert head.log(1) == "to stdout\nto stderr\n"
    assert end.started_at and end.ended_at and end.started_at <= end.ended_at + 0.1


def test_output_arrives_while_the_process_runs(head: StubHead, eventually: Eventually, data_root: Path):
    head.run(1, "echo first; until [ -e $JOB_DIR/go ]; do sleep 0.02; done; echo second")
    eventually(lambda: head.log(1) == "first\n")
    assert head.state(1) is ProcessState.RUNNING
    (data_root / "jobs/1/go").touch()
    eventually(lambda: head.end(1))
    assert head.log(1) == "first\nsecond\n"


def test_a_signal_is_distinguished_from_an_exit_code(head: StubHead, eventually: Eventually):
    head.run(1, "kill -SEGV $$")
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.signal) == (139, 11)


def test_the_projects_script_runs_without_a_command(head: StubHead, eventually: Eventually, data_root: Path):
    (data_root / "jobs/1/src/.compute").write_text("echo I am .compute in $PWD\n")
    head.run(1, None)
    eventually(lambda: head.end(1))
    assert head.log(1) == f"I am .compute in {data_root}/jobs/1/src\n"


def test_a_missing_script_is_named(head: StubHead, eventually: Eventually):
    head.run(1, None)
    end = eventually(lambda: head.end(1))
    assert end.killed_by is KilledBy.WORKER
    assert end.reason == "there is no .compute in the project, and no command was given"


def test_a_missing_directory_is_named(head: StubHead, eventually: Eventually, data_root: Path):
    (data_root / "jobs/1/src").rmdir()
    head.run(1, "true")
    end = eventually(lambda: head.end(1))
    assert end.killed_by is KilledBy.WORKER
    assert end.reason == f"SRC_DIR is not there: {data_root}/jobs/1/src"


def test_the_environment_has_what_was_ordered_and_nothing_of_the_workers(
    head: StubHead, eventually: Eventually, data_root: Path
):
    head.run(
        1, "cat $HOSTFILE; env -0 | sort -z | tr '\\0' '\\n'; cat /dev/stdin", hostfile="n1\nn2\n", RANK="0"
    )
    eventually(lambda: head.end(1))
    hosts, environment = head.log(1).split("\n", 2)[:2], dict(
        line.split("=", 1) for line in head.log(1).splitlines()[2:]
    )  # fmt: skip
    assert hosts == ["n1", "n2"]
    assert environment["HOME"] == environment["USER_DIR"] == f"{data_root}/home/ann"
    assert environment["RESULT_FILE"] == f"{data_root}/jobs/1/result"
    assert environment["RANK"] == "0"
    assert environment["PIT_COOKIE"] == f"{head.cluster}-1-1"
    given = {*a_spec("").paths, "RANK", "HOME", "PATH", "LANG", "PYTHONUNBUFFERED", "HOSTFILE", "PIT_COOKIE"}
    assert set(environment) - {"PWD", "OLDPWD", "SHLVL", "_"} == given


def test_an_unfinished_line_arrives_while_the_process_runs(
    head: StubHead, eventually: Eventually, tmp_path: Path
):
    head.run(1, f"python3 -c \"print('10%', end='')\"; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo")
    eventually(lambda: head.log(1) == "10%")
    (tmp_path / "go").touch()
    eventually(lambda: head.end(1))
    assert head.log(1) == "10%\n"


def test_what_python_prints_arrives_before_it_ends(head: StubHead, eventually: Eventually, tmp_path: Path):
    wait = f"while not os.path.exists('{tmp_path}/go'): time.sleep(0.05)"
    head.run(1, f'exec python3 -c "import os, time\nprint(1)\n{wait}"')
    eventually(lambda: head.log(1) == "1\n")
    (tmp_path / "go").touch()
    eventually(lambda: head.end(1))


@pytest.mark.threat("S16")
def test_the_shared_directory_is_read_only_even_for_root(
    head: StubHead, eventually: Eventually, data_root: Path
):
    (data_root / "shared/data").write_text("readable")
    head.run(1, "cat $SHARED_DIR/data; touch $SHARED_DIR/x; touch $USER_DIR/y")
    end = eventually(lambda: head.end(1))
    assert "readable" in head.log(1)
    assert "Read-only file system" in head.log(1)
    assert end.exit_code == 0
    (data_root / "shared/the-node-itself-may").touch()


@pytest.mark.threat("F18")
def test_a_large_output_arrives_whole_though_chunks_are_lost(head: StubHead, eventually: Eventually):
    head.drops_chunks = 3
    head.run(1, "seq 1 1000000")
    eventually(lambda: head.end(1))
    assert head.log(1) == "".join(f"{i}\n" for i in range(1, 1000001))


def test_nothing_is_lost_though_a_script_reopens_dev_stderr(head: StubHead, eventually: Eventually):
    head.run(1, "for i in 1 2 3; do echo out $i; echo error $i >/dev/stderr; done; kill 0; echo not reached")
    eventually(lambda: head.end(1))
    told = "".join(f"out {i}\nerror {i}\n" for i in (1, 2, 3))
    assert head.log(1).startswith(told)


def test_what_a_process_leaves_running_is_killed_before_its_end(
    head: StubHead, eventually: Eventually, data_root: Path
):
    head.run(1, "setsid sh -c 'trap \"\" TERM; echo $$ >$JOB_DIR/pid; sleep 1000' & "
                "until [ -s $JOB_DIR/pid ]; do sleep 0.01; done")  # fmt: skip
    end = eventually(lambda: head.end(1))
    assert end.exit_code == 0
    assert not is_alive((data_root / "jobs/1/pid").read_text())


def test_repeated_and_old_orders_start_nothing(head: StubHead, eventually: Eventually, data_root: Path):
    order = Order(1, 1, OrderAction.RUN, spec=a_spec("echo ran >>$JOB_DIR/ledger"))
    head.order(order)
    eventually(lambda: head.end(1))
    # Both the repeated order of this revision and the one of an old revision come after `forget`.
    head.answers = [
        Orders(head.revision, (order,)),
        Orders(0, (order, Order(2, 1, OrderAction.RUN, spec=a_spec("echo old >>$JOB_DIR/ledger")))),
    ]
    head.run(3, "true")
    eventually(lambda: head.end(3) and not head.answers)
    assert (data_root / "jobs/1/ledger").read_text() == "ran\n"
    assert head.state(2) is None


def test_a_forgotten_process_leaves_no_trace(head: StubHead, eventually: Eventually, workers: Workers):
    head.run(1, "true")
    eventually(lambda: head.end(1))
    eventually(lambda: {path.name for path in workers.spool.iterdir()} == EMPTY_SPOOL)


def test_a_process_the_worker_never_had_is_reported_as_ended(head: StubHead, eventually: Eventually):
    head.order(Order(5, 1, OrderAction.RUN))
    end = eventually(lambda: head.end(5))
    assert (end.killed_by, end.reason) == (KilledBy.WORKER, "the worker does not know this process")


def test_a_users_variables_reach_only_the_command(head: StubHead, eventually: Eventually, data_root: Path):
    """Neither supervisor nor output writer nor watchdog has them, and they are in no process's arguments."""
    given = {
        "TOKEN": "S3CRET 'ā' \"$HOME\"\n`id` \\",  # ā has a byte that shells use for themselves
        "PATH": "/usr/bin:/bin:/opt/own",
        "LD_PRELOAD": "/S3CRET/none.so",
        "SRC_DIRS": "x",
        "told": "1",
        "code": "9",
        "stat": "x",
    }
    spec = replace(
        a_spec("env -u _ -0 >$JOB_DIR/env; until [ -e $JOB_DIR/go ]; do sleep 0.02; done"), variables=given
    )
    head.order(Order(1, 1, OrderAction.RUN, spec=replace(spec, lease_s=60.0)))
    found = data_root / "jobs/1/env"
    eventually(lambda: found.exists() and found.read_bytes().endswith(b"\0"))
    environment = dict(line.split("=", 1) for line in found.read_text().split("\0")[:-1])
    assert {name: environment.get(name) for name in given} == given
    mine = [each for each in processes() if f"{head.cluster}-1-1".encode() in each.environ]
    assert mine and all(b"fork_server.py" not in each.command for each in mine)
    told = [each.command for each in mine if b"S3CRET" in each.environ]
    assert told and told == [each.command for each in mine]  # nothing but the command has its environment
    assert not [each.command for each in mine if b"S3CRET" in each.command]
    (data_root / "jobs/1/go").touch()
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.reason) == (0, "")


class Seen(NamedTuple):
    environ: bytes
    command: bytes


def processes() -> list[Seen]:
    """All that run now; one that ends in between is left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found.append(Seen((path / "environ").read_bytes(), (path / "cmdline").read_bytes()))
    return found
