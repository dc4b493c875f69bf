"""What a container cannot do: beyond its limits, its directories, its user."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from pit_protocol.messages.beat import Account
from pit_protocol.states import KilledBy
from tests.docker.conftest import ANN, Containers, add_image
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually


@pytest.fixture
def hostile(engine: docker.DockerClient, tree: Path) -> Iterator[str]:
    name = f"pit-test-{uuid.uuid4().hex[:8]}:hostile"
    add_image(engine, tree, name, [
        'ENTRYPOINT ["/bin/echo", "evil"]', 'CMD ["more"]', "USER 0", "WORKDIR /proc/self/fd/8",
        "HEALTHCHECK CMD echo sick", "VOLUME /pit/job", "ENV LD_PRELOAD=/evil.so", "ENV LANG=C",
        "ENV NVIDIA_VISIBLE_DEVICES=all", "ENV NVIDIA_REQUIRE_CUDA=cuda>=99", "ENV HOME=/evil",
    ])  # fmt: skip
    yield name
    engine.images.remove(name, force=True)


@pytest.mark.threat("S37")
def test_an_images_own_options_have_no_effect(
    head: StubHead, containers: Containers, eventually: Eventually, hostile: str, own_root: Path
):
    containers.run(1, "id -u; echo $PWD $HOME; env | grep -e LD_ -e NVIDIA -e LANG; touch $JOB_DIR/on-disk; "
                   "until [ -e $JOB_DIR/go ]; do sleep 0.05; done", image=hostile)  # fmt: skip
    eventually(lambda: (own_root / "jobs/1/on-disk").exists())
    assert "Health" not in containers.inspect(1)["State"]
    (own_root / "jobs/1/go").touch()
    eventually(lambda: head.end(1))
    assert head.log(1).splitlines()[:2] == ["200001", "/pit/job/src /pit/home"]
    assert sorted(head.log(1).splitlines()[2:]) == ["LANG=C", "NVIDIA_VISIBLE_DEVICES=void"]
    eventually(lambda: containers.left() == [])


@pytest.mark.threat("S37", "S39")
def test_a_user_cannot_ask_the_driver_for_other_gpus(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "echo $NVIDIA_VISIBLE_DEVICES", env={"NVIDIA_VISIBLE_DEVICES": "all"})
    eventually(lambda: head.end(1))
    assert head.log(1) == "void\n"


@pytest.mark.threat("S38", "S44")
def test_no_capabilities_and_no_new_privileges(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "grep -e ^Cap -e NoNewPrivs -e Seccomp: /proc/self/status; mknod /tmp/x b 7 0; "
                   "unshare -r true && echo namespace; echo over", account=None)  # fmt: skip
    eventually(lambda: head.end(1))
    status = dict(line.split(":\t") for line in head.log(1).splitlines() if ":\t" in line)
    assert {status[name] for name in status if name.startswith("Cap")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert "mknod: /tmp/x: Operation not permitted" in head.log(1)
    assert "namespace\n" not in head.log(1)


@pytest.mark.threat("S16")
def test_shared_data_is_read_only_even_for_root_and_what_is_mounted_below_too(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    (own_root / "shared/set").mkdir()
    docker_sees = os.system(f"mount -t tmpfs -o mode=1777 none {own_root}/shared/set")
    if docker_sees:
        pytest.skip("no right to mount")
    try:
        (own_root / "shared/set/data").write_text("readable\n")
        containers.run(1, "cat $SHARED_DIR/set/data; touch $SHARED_DIR/x; touch $SHARED_DIR/set/x; echo over",
                       account=None)  # fmt: skip
        eventually(lambda: head.end(1))
        assert head.log(1).startswith("readable\n")
        assert head.log(1).count("Read-only file system") == 2
        eventually(lambda: containers.left() == [])
    finally:
        os.system(f"umount {own_root}/shared/set")


@pytest.mark.threat("S52")
def test_a_root_that_became_a_link_is_refused(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    (own_root / "home/ann").rename(own_root / "home/old")
    (own_root / "home/ann").symlink_to("/etc")
    containers.run(1, "ls $HOME")
    end = eventually(lambda: head.end(1))
    assert end.killed_by is KilledBy.WORKER
    assert end.reason == f"USER_DIR is not a directory, or leads through a link: {own_root}/home/ann"


def test_command_and_hostfile_cannot_be_written(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "for f in command hostfile; do chmod 777 /pit/$f; echo x >/pit/$f; done; ls /pit")
    eventually(lambda: head.end(1))
    assert head.log(1).count("Read-only file system") == 4
    assert head.log(1).splitlines()[-6:] == ["command", "home", "hostfile", "job", "output", "shared"]


@pytest.mark.parametrize("account", [ANN, None], ids=["user", "root"])
def test_reading_all_files_does_not_block_on_the_output_pipe(
    head: StubHead, containers: Containers, eventually: Eventually, account: Account | None
):
    containers.run(1, "grep -r secret /pit; echo over; echo again >/dev/stderr", account=account)
    eventually(lambda: head.end(1))
    assert head.log(1).endswith("over\nagain\n")


@pytest.mark.threat("S41")
def test_a_fork_bomb_stays_inside(head: StubHead, containers: Containers, eventually: Eventually):
    containers.run(1, "bomb() { bomb | bomb & }; bomb; sleep 0.5; echo alive", pids=40)
    beats = len(head.spoken)
    end = eventually(lambda: head.end(1))
    assert "fork" in head.log(1)
    assert end.exit_code is not None
    assert len(head.spoken) > beats


@pytest.mark.threat("S42", "F35")
def test_running_out_of_memory_ends_the_command_and_is_reported(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "exec tail -c 100000000 /dev/zero", memory_mib=16)
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.signal, end.oom, end.killed_by) == (137, 9, True, None)


@pytest.mark.threat("S42", "F35")
def test_a_child_out_of_memory_does_not_change_the_exit_code(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "tail -c 100000000 /dev/zero; echo $?; exit 0", memory_mib=16)
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.oom) == (0, True)
    assert "137" in head.log(1)


@pytest.mark.threat("S43")
def test_limits_are_those_of_the_request(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    containers.run(1, "until [ -e $JOB_DIR/go ]; do sleep 0.05; done",
                   cpus=0.5, memory_mib=64, shm_mib=8, pids=50)  # fmt: skip
    eventually(lambda: head.state(1) == "running")
    host = containers.inspect(1)["HostConfig"]
    mib = 1024 * 1024
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"]) == (500_000_000, 64 * mib, 64 * mib)
    assert (host["ShmSize"], host["PidsLimit"], host["Init"]) == (8 * mib, 50, True)
    assert (host["Privileged"], host["PidMode"], host["LogConfig"]["Type"]) == (False, "", "none")
    (own_root / "jobs/1/go").touch()
    eventually(lambda: head.end(1))


def test_a_process_without_its_share_of_a_core_takes_longer(
    head: StubHead, containers: Containers, eventually: Eventually
):
    # Often: on a busy machine it may not get its share at once, and nobody has to slow it down.
    work = """
        for round in $(seq 100); do
            i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done
            stat=$(cat /sys/fs/cgroup/cpu/cpu.stat 2>/dev/null || cat /sys/fs/cgroup/cpu.stat)
            case $stat in *"nr_throttled 0"*) ;; *) break ;; esac
        done
        echo "$stat"
    """
    containers.run(1, work, cpus=0.2)
    eventually(lambda: head.end(1))
    stat = dict(line.split() for line in head.log(1).splitlines())
    assert int(stat["nr_throttled"]) > 0
