"""A process runs in a container: its output arrives, its end is reported, nothing of it stays."""

import os
import uuid
from pathlib import Path

import docker
import pytest

from pit_protocol.states import KilledBy, ProcessState
from tests.docker.conftest import ANN, Containers, add_image, make_tree
from tests.support.stubs.worker_head import StubHead
from tests.worker.conftest import Eventually


def test_exit_code_and_output_are_reported(head: StubHead, containers: Containers, eventually: Eventually):
    containers.run(1, "echo to stdout; echo to stderr >&2; echo again >/dev/stderr; exit 7")
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.signal, end.killed_by, end.reason, end.oom) == (7, None, None, "", False)
    assert head.log(1) == "to stdout\nto stderr\nagain\n"
    assert end.started_at and end.ended_at and end.started_at <= end.ended_at
    assert end.image.startswith("sha256:")
    eventually(lambda: containers.left() == [])


def test_a_signal_is_distinguished_from_an_exit_code(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "kill -SEGV $$")
    end = eventually(lambda: head.end(1))
    assert (end.exit_code, end.signal) == (139, 11)


def test_the_projects_script_runs_in_its_directory(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    (own_root / "jobs/1/src/.compute").write_text("echo I am .compute in $PWD\n")
    containers.run(1, None)
    eventually(lambda: head.end(1))
    assert head.log(1) == "I am .compute in /pit/job/src\n"


def test_a_missing_script_or_directory_is_named(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    containers.run(1, None)
    end = eventually(lambda: head.end(1))
    assert end.reason == "there is no .compute in the project, and no command was given"
    (own_root / "home/ann").rmdir()
    containers.run(2, "true")
    end = eventually(lambda: head.end(2))
    assert (end.killed_by, end.reason) == (KilledBy.WORKER, f"USER_DIR is not there: {own_root}/home/ann")


def test_the_environment_names_the_paths_inside(
    head: StubHead, containers: Containers, eventually: Eventually
):
    containers.run(1, "cat $HOSTFILE; env | sort; cat", hostfile="n1 slots=2\n", env={"RANK": "3"})
    eventually(lambda: head.end(1))
    hosts, *lines = head.log(1).splitlines()
    assert hosts == "n1 slots=2"
    found = dict(line.split("=", 1) for line in lines)
    assert {name: found[name] for name in found if name.endswith(("_DIR", "FILE")) or name == "HOME"} == {
        "HOME": "/pit/home",
        "USER_DIR": "/pit/home",
        "JOB_DIR": "/pit/job",
        "SRC_DIR": "/pit/job/src",
        "KEEP_DIR": "/pit/job/keep",
        "RESULT_FILE": "/pit/job/result",
        "SHARED_DIR": "/pit/shared",
        "HOSTFILE": "/pit/hostfile",
    }
    assert (found["RANK"], found["NVIDIA_VISIBLE_DEVICES"], found["PWD"]) == ("3", "void", "/pit/job/src")


def test_files_belong_to_the_user_inside_and_on_disk(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    lab = own_root / "groups/lab"
    lab.mkdir(parents=True)
    os.chown(lab, 0, 300_001)
    lab.chmod(0o2770)
    write = "for f in $HOME/file $LAB_GROUP_DIR/file $RESULT_FILE $KEEP_DIR/it; do echo mine >$f; done"
    paths = {**containers.spec("").paths, "LAB_GROUP_DIR": "groups/lab"}
    containers.run(1, f"id -u; id -g; id -G; {write}; ls -d $LAB_GROUP_DIR", paths=paths)
    assert eventually(lambda: head.end(1)).exit_code == 0
    assert head.log(1) == "200001\n200001\n200001 300001\n/pit/groups/lab\n"
    assert {name: (own_root / name).stat().st_uid for name in ("home/ann/file", "jobs/1/result")} == {
        "home/ann/file": ANN.uid,
        "jobs/1/result": ANN.uid,
    }
    assert (lab / "file").stat().st_gid == 300_001
    assert (lab / "file").stat().st_mode & 0o777 == 0o664, "other members may write it"
    assert (own_root / "jobs/1/keep/it").read_text() == "mine\n"


def test_bash_runs_the_command_where_the_image_has_one(
    head: StubHead,
    containers: Containers,
    eventually: Eventually,
    engine: docker.DockerClient,
    tmp_path: Path,
):
    name = f"pit-test-{uuid.uuid4().hex[:8]}:bash"
    add_image(engine, make_tree(tmp_path / "bash", "/bin/bash"), name)
    try:
        containers.run(1, "words=(a b); echo ${words[1]} ${BASH_VERSION:+bash}", image=name)
        eventually(lambda: head.end(1))
        assert head.log(1) == "b bash\n"
        eventually(lambda: containers.left() == [])
    finally:
        engine.images.remove(name, force=True)


def test_it_is_starting_until_its_container_runs(
    head: StubHead, containers: Containers, eventually: Eventually, own_root: Path
):
    containers.run(1, "until [ -e $JOB_DIR/go ]; do sleep 0.05; done")
    eventually(lambda: head.state(1) is ProcessState.RUNNING)
    states = [report.state for beat in head.spoken for report in beat.reports]
    assert states[0] is ProcessState.STARTING
    (own_root / "jobs/1/go").touch()
    eventually(lambda: head.end(1))


@pytest.mark.threat("F31")
def test_a_flood_of_output_arrives_whole(head: StubHead, containers: Containers, eventually: Eventually):
    containers.run(1, "yes 0123456789abcdef | head -c 20971520; echo; echo end")
    eventually(lambda: head.end(1))
    log = bytes(head.logs[head.key(1)])
    assert len(log) == 20_971_520 + 5
    assert log[:34] == b"0123456789abcdef\n" * 2
    assert log.endswith(b"\nend\n")


def test_several_start_at_the_same_time(head: StubHead, containers: Containers, eventually: Eventually):
    for process in range(1, 5):
        containers.run(process, "true", name=f"p{process}")
    for process in range(1, 5):
        assert eventually(lambda process=process: head.end(process)).exit_code == 0
    eventually(lambda: containers.left() == [])


def test_an_image_without_a_shell_is_a_sentence(
    engine: docker.DockerClient,
    head: StubHead,
    containers: Containers,
    eventually: Eventually,
    tmp_path: Path,
):
    tree = tmp_path / "bare"
    (tree / "etc").mkdir(parents=True)
    (tree / "etc/empty").touch()
    name = f"pit-bare-{uuid.uuid4().hex[:8]}:1"
    add_image(engine, tree, name)
    try:
        containers.run(1, "true", image=name)
        end = eventually(lambda: head.end(1))
        assert end.reason == f"the image {name} has no /bin/sh, which runs commands"
        eventually(lambda: containers.left() == [])
    finally:
        engine.images.remove(name, force=True)


def test_a_node_without_its_engine_is_not_offered(
    head: StubHead, containers: Containers, eventually: Eventually, tmp_path: Path
):
    eventually(lambda: head.hellos)
    other = containers.start(tmp_path / "other", DOCKER_HOST="unix:///nonexistent/docker.sock")
    eventually(lambda: "this node takes no processes" in containers.log())
    containers.kill(other)
    assert len(head.hellos) == 1  # the first worker's own
