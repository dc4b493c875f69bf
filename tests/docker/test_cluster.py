"""The whole system: a head, a node that runs containers, and users with the installed `pit`."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from tests.docker.conftest import add_image, make_tree
from tests.support.clusters.lab import PASSWORD, Lab, Person
from tests.support.clusters.local import PIT, eventually
from tests.support.mounts import BOUND, REMOTE, need_mounts
from tests.support.requirements import lack

# The other one may not have started yet; and the first one stays until both are done.
PING = """
eval other=\\$HOST_GROUP0_PROCESS$((1 - PROCESS_INDEX))
until ping -c1 -W1 "$other"; do sleep 0.1; done
touch "$JOB_DIR/done$RANK"
until [ -e "$JOB_DIR/done0" ] && [ -e "$JOB_DIR/done1" ]; do sleep 0.05; done
"""


def first_admin(lab: Lab) -> Person:
    root = Person(lab, "root")
    root.ok("connect", lab.url, "--pin", lab.pin())
    terminal = root.at_terminal("login", "--user", "root")
    terminal.answer("Setup code", lab.setup_code())
    root.register(terminal)
    assert terminal.end() == 0, terminal.shown
    return root


def user(root: Person, name: str) -> Person:
    person = Person(root.lab, name)
    root.ok("add", f"user:{name}", f"full_name={name}", "password=-", input=PASSWORD + "\n")
    (person.home / ".pitconnect.txt").write_text(root.ok("show", "connect"))
    terminal = person.at_terminal("login", "--user", name)
    terminal.answer("Password:", PASSWORD)
    assert terminal.end() == 0, terminal.shown
    return person


def node(lab: Lab, root: Person, **settings: str) -> None:
    config = lab.join(root.ok("add", "node:n0"), "n0")
    lab.start_worker(config, PIT_WORKER_RUNTIME="docker", **settings)
    eventually(lambda: root.json("show", "node:n0")["state"] == "online")


@contextmanager
def a_lab(place: Path, image: str, engine: docker.DockerClient) -> Iterator[Lab]:
    """One that leaves no containers and no mounts behind."""
    lab = Lab(place, PIT_HEAD_IMAGE=image, PIT_HEAD_PULL="never")
    lab.start_head()
    yield lab
    eventually(lambda: not _containers(engine, lab))
    eventually(lambda: str(place) not in Path("/proc/self/mountinfo").read_text())
    lab.close()


def _containers(engine: docker.DockerClient, lab: Lab) -> list[str]:
    """Those of this lab's workers; other tests may use the engine at the same time."""
    found = engine.api.containers(all=True, filters={"label": "pit.spool"})
    return [each["Id"] for each in found if each["Labels"]["pit.spool"].startswith(f"{lab.place}/")]


@pytest.fixture(scope="module", params=[BOUND, REMOTE])
def boss(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    image: str,
    engine: docker.DockerClient,
) -> Iterator[Person]:
    """The admin of a lab with one node, for all tests that leave it as it was."""
    if request.param == REMOTE:
        need_mounts()
    with a_lab(tmp_path_factory.mktemp("lab"), image, engine) as lab:
        root = first_admin(lab)
        node(lab, root, PIT_WORKER_DATA_ROOT=REMOTE if request.param == REMOTE else "")
        yield root


@pytest.fixture(scope="module")
def anna(boss: Person) -> Person:
    return user(boss, "anna")


IN_ONE = pytest.mark.parametrize("boss", [BOUND], indirect=True)


def test_processes_in_containers_meet_and_leave_files_of_their_user(boss: Person, anna: Person) -> None:
    root, lab = boss, boss.lab
    root.ok("add", "group:students")
    root.ok("add-group", "user:anna", "students")
    command = """
        if [ "$PROCESS_INDEX" = 0 ]; then echo hello | nc -l -p "$MASTER_PORT"; else
        until nc "$HOST_GROUP0_PROCESS0" "$MASTER_PORT"; do sleep 0.1; done; fi
        nslookup "$HOST_GROUP0_PROCESS1" >/dev/null && echo "knows the other"
        id -u; echo x >"$USER_DIR/mine"; echo y >"$STUDENTS_GROUP_DIR/ours"; echo z >"$KEEP_DIR/kept$RANK"
        touch "$SHARED_DIR/no" 2>&1 | head -1; ls /pit/groups
    """
    log = anna.ok("run", "First light", "2:[]", "-l", "-d", command)
    number = str(anna.json("show", "jobs")["jobs"][0]["number"])
    assert "[worker 1] hello" in log
    assert log.count("knows the other") == 2
    assert log.count("Read-only file system") == 2
    uid = anna.json("show", "me")["uid"]
    assert f"[worker 0] {uid}" in log
    data = lab.place / "head" / "data"
    assert (data / "home/anna/mine").stat().st_uid == uid
    gid = root.json("show", "group:students")["gid"]
    assert (data / "groups/students/ours").stat().st_gid == gid
    record = anna.json("show", number)
    assert {process["image"] for process in record["processes"]} != {None}
    carried = anna.ok(
        "run", "again", "[]", "-l", "-c", number, "-d", 'cat "$KEEP_DIR"/kept*; ls -ln "$KEEP_DIR"'
    )
    assert carried.count("[worker 0] z") == 2 and str(uid) in carried


@IN_ONE
def test_processes_ping_each_other_by_name(boss: Person, tmp_path: Path, engine: docker.DockerClient) -> None:
    if not Path("/bin/ping").exists():
        lack("no iputils-ping to make an image of")
    name = f"{tmp_path.name.replace('_', '-')}:ping".lower()
    add_image(engine, make_tree(tmp_path / "tree", "/bin/bash", "/bin/ping"), name)
    try:
        log = boss.ok("run", "ping", "2:[]", "-l", "--image", name, "-d", PING)
        for rank in (0, 1):
            assert f"[worker {rank}] PING group0-process{1 - rank} " in log
            assert f"[worker {rank}] 1 packets transmitted, 1 received, 0% packet loss" in log
    finally:
        eventually(lambda: engine.images.remove(name, force=True) or True)


def test_another_users_files_are_not_visible(boss: Person, anna: Person) -> None:
    berta = user(boss, "berta")
    anna.ok("run", "secret", "[]", "-l", "-d", 'echo secret >"$USER_DIR/s"; echo secret >"$KEEP_DIR/s"')
    log = berta.pit(
        "run",
        "thief",
        "[]",
        "-l",
        "-d",
        "cat /pit/home/s; ls /pit /pit/job; grep -r secret /pit/job /pit/home /pit/shared; true",
    ).out
    assert "secret\n" not in log.replace("job 2", "")
    assert "[worker 0] shared" in log


@IN_ONE
def test_a_missing_image_fails_the_job_with_a_sentence(boss: Person) -> None:
    result = boss.pit("run", "x", "[]", "-l", "--image", "nowhere/none:1", "-d", "true")
    assert result.code == 3
    assert "nowhere/none:1" in result.out


@IN_ONE
def test_a_session_is_in_the_container_and_for_those_who_may(boss: Person, anna: Person) -> None:
    eva = user(boss, "eva")
    boss.ok("add", "group:lab")
    for person in (anna, eva):
        boss.ok("add-group", f"user:{person.name}", "lab")
    serve = "echo in the container > page; busybox httpd -p 127.0.0.1:8000 -h ."
    number = str(anna.run(f"{serve}; echo ready; sleep 1000", "[]", "-e", "COLOUR=blue"))
    eventually(lambda: "ready" in anna.ok("log", number, "--no-follow", "--raw"))
    script = "id -u; pwd; echo $COLOUR; cat; exit 7"
    inside = anna.pit("exec", number, "--", "sh", "-c", script, input="from stdin\n")
    uid, directory, *rest = inside.out.splitlines()
    assert directory == "/pit/job/src"
    assert rest == ["blue", "from stdin"]
    assert inside.code == 7
    assert uid == boss.ok("exec", number, "--", "id", "-u").strip()  # admins enter as the process's user
    assert _page(anna, number, 8000) == "in the container\n"
    assert f"there is no job {number}" in eva.refused("exec", number, "--", "true")
    assert f"there is no job {number}" in eva.refused("forward", number, "0:8000")
    anna.ok("add-group", f"job:{number}", "lab")
    assert "only owners and admins may" in eva.refused("exec", number, "--", "true")
    anna.ok("set", f"job:{number}", "exec=group")
    session = subprocess.Popen(
        [PIT, "exec", number, "--", "sh", "-c", "echo inside; sleep 1000"],
        cwd=eva.project.path,
        env=eva.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert session.stdout
    assert session.stdout.readline() == "inside\n"
    anna.ok("set", f"job:{number}", "exec=owner")
    _, error = session.communicate(timeout=60)  # at once, not after 1000 seconds
    assert "only owners and admins may" in error
    assert session.returncode == 1
    anna.ok("stop", number)
    anna.pit("wait", number)


def _page(person: Person, number: str, port: int) -> str:
    """What listens on the loopback of the container, which the node's own loopback is not."""
    with subprocess.Popen(
        [PIT, "forward", number, f"0:{port}", "--json"],
        cwd=person.project.path,
        env=person.env,
        stdout=subprocess.PIPE,
        text=True,
    ) as forward:
        assert forward.stdout
        try:
            url = json.loads(forward.stdout.readline())["url"]
            with urllib.request.urlopen(f"{url}/page", timeout=60) as answer:
                return str(answer.read().decode())
        finally:
            forward.terminate()
