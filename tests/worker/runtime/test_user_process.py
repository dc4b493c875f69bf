"""A worker that is root runs each process as its user, who reaches nothing of other users."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from pit_protocol.messages.beat import Account, Order, OrderAction
from pit_worker.runtime import accounts
from pit_worker.settings import RunAs, Settings
from tests.support.requirements import need_system_rights
from tests.support.stubs.worker_head import StubHead, a_spec
from tests.worker.conftest import Eventually, Workers

ANN, BOB = Account(200_001, 200_001, (300_001,)), Account(200_002, 200_002)
Run = Callable[..., None]


@pytest.fixture(autouse=True)
def worker(workers: Workers, data_root: Path) -> None:
    need_system_rights()
    for account, job, home in ((ANN, 1, "ann"), (BOB, 2, "bob")):
        for name in (f"jobs/{job}/src", f"jobs/{job}/keep", f"home/{home}"):
            (data_root / name).mkdir(parents=True, exist_ok=True)
        for place in (data_root / f"jobs/{job}", data_root / f"home/{home}"):
            for path in (place, *place.rglob("*")):
                os.chown(path, account.uid, account.gid)
            place.chmod(0o700)
    group = data_root / "groups/lab"
    group.mkdir(parents=True)
    os.chown(group, 0, 300_001)
    group.chmod(0o2770)
    for place in (data_root, data_root / "jobs", data_root / "home", data_root / "groups"):
        place.chmod(0o700)
    workers.start()


@pytest.fixture
def run(head: StubHead) -> Run:
    def order(process: int, command: str | None, account: Account = ANN, **more: object) -> None:
        spec = a_spec(command)
        job, home = (1, "ann") if account == ANN else (2, "bob")
        paths = {name: path.replace("jobs/1", f"jobs/{job}") for name, path in spec.paths.items()}
        paths["USER_DIR"] = f"home/{home}"
        if account == ANN:
            paths["LAB_GROUP_DIR"] = "groups/lab"
        spec = replace(spec, paths=paths, account=account, **more)
        head.order(Order(process, 1, OrderAction.RUN, spec=spec))

    return order


@pytest.mark.threat("S44")
def test_a_process_has_its_users_uid_gid_and_groups_and_no_other_rights(
    head: StubHead, run: Run, eventually: Eventually
):
    run(1, "id -u; id -G; umask; grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status | cut -f2")
    eventually(lambda: head.end(1))
    zero = "0" * 16
    assert head.log(1).split() == ["200001", "200001", "300001", "0007", zero, zero, "1"]


def test_its_files_belong_to_the_user_and_those_of_a_group_to_the_group(
    head: StubHead, run: Run, eventually: Eventually, data_root: Path
):
    run(1, "touch $KEEP_DIR/a $USER_DIR/b $LAB_GROUP_DIR/c; echo 7 >$RESULT_FILE; cd; pwd")
    assert eventually(lambda: head.end(1)).exit_code == 0, head.log(1)
    for name in ("jobs/1/keep/a", "jobs/1/result", "home/ann/b"):
        found = (data_root / name).stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (200_001, 200_001, 0o660), name
    assert (data_root / "groups/lab/c").stat().st_gid == 300_001
    assert head.log(1) == "/run/pit/home\n"


def test_the_script_of_the_project_the_hostfile_and_the_variables_reach_it(
    head: StubHead, run: Run, eventually: Eventually, data_root: Path
):
    (data_root / "jobs/1/src/.compute").write_text('echo "$PWD $LR"; cat $HOSTFILE; echo out >/dev/stdout\n')
    run(1, None, variables={"LR": "0.1"}, hostfile="n0 slots=1\n")
    eventually(lambda: head.end(1))
    assert head.log(1) == "/run/pit/job/src 0.1\nn0 slots=1\nout\n"


def test_shared_data_cannot_be_changed(head: StubHead, run: Run, eventually: Eventually, data_root: Path):
    (data_root / "shared").chmod(0o777)
    run(1, "touch $SHARED_DIR/x")
    eventually(lambda: head.end(1))
    assert "Read-only file system" in head.log(1)


@pytest.mark.threat("S50")
def test_one_user_cannot_read_the_files_environment_and_output_of_another(
    head: StubHead, run: Run, eventually: Eventually, data_root: Path, workers: Workers
):
    (data_root / "jobs/1/keep/private").write_text("ann's own\n")
    secret = "s3cret-of-ann"
    run(1, 'echo "pid $$"; exec sleep 1000', variables={"TOKEN": secret})
    eventually(lambda: "pid" in head.log(1))
    pid = head.log(1).split()[1]
    assert secret in Path(f"/proc/{pid}/environ").read_text()
    places = [data_root / "jobs/1/keep/private", data_root / "home/ann", workers.spool / "1-1/output"]
    tries = [f"cat {places[0]}", f"ls {places[1]}", f"cat {places[2]}", f"cat /proc/{pid}/environ"]
    tries += [f"ls /proc/{pid}/root/run/pit/job", f"cat /proc/{pid}/cmdline", f"kill {pid}"]
    tries += [f"cat {workers.spool}/1-1/variables", "cat /run/pit/job/../../1/keep/private"]
    run(2, "\n".join(f"{one} && echo 'DONE: {one}'" for one in tries) + "\nls /run/pit; true", BOB)
    eventually(lambda: head.end(2))
    assert "DONE" not in head.log(2) and secret not in head.log(2)
    assert head.log(2).splitlines()[-5:] == ["command", "home", "hostfile", "job", "shared"]
    head.stop(1)
    assert eventually(lambda: head.end(1)).signal == 15


def test_a_link_in_the_place_of_its_directory_leads_nowhere(
    head: StubHead, run: Run, eventually: Eventually, data_root: Path
):
    (data_root / "jobs/1/src").rmdir()
    (data_root / "jobs/1/src").symlink_to(data_root / "jobs/2/src")
    run(1, "pwd")
    assert eventually(lambda: head.end(1)).exit_code == 126
    assert "/run/pit" not in head.log(1).splitlines()


@pytest.mark.threat("F09")
def test_a_killed_worker_leaves_it_running_and_the_next_one_adopts_it(
    head: StubHead, run: Run, eventually: Eventually, workers: Workers, data_root: Path
):
    run(1, "echo on; until [ -e $KEEP_DIR/go ]; do sleep 0.02; done; exit 4")
    eventually(lambda: head.log(1) == "on\n")
    for running in workers._running:
        workers.kill(running)
    workers.start()
    eventually(lambda: len(head.hellos) > 1)
    (data_root / "jobs/1/keep/go").touch()
    assert eventually(lambda: head.end(1)).exit_code == 4


def test_the_worker_reports_whether_it_keeps_users_apart(head: StubHead, eventually: Eventually):
    hello = eventually(lambda: head.hellos)[0]
    assert (hello.separates_users, hello.account) == (True, "root")


def test_with_run_as_worker_all_processes_share_its_account(workers: Workers):
    settings = Settings(workers.head.url, workers.token_file, workers.spool)
    assert accounts.describe(settings) == "each job runs as its user's own account"
    shared = Settings(workers.head.url, workers.token_file, workers.spool, run_as=RunAs.WORKER)
    assert accounts.describe(shared) == "jobs of all users run as root, because run_as is worker"
