"""Two users on a node without the head's files: each job reaches only the files of its user."""

from pathlib import Path

import pytest

from tests.e2e.test_lab import lab, newcomer, root  # noqa: F401
from tests.support.clusters.lab import Lab, Person
from tests.support.clusters.local import eventually
from tests.support.mounts import REMOTE, need_mounts
from tests.support.requirements import need_system_rights


@pytest.fixture
def node(lab: Lab, root: Person) -> None:  # noqa: F811
    need_mounts()
    need_system_rights()
    lab.start_worker(lab.join(root.ok("add", "node:n0"), "n0"), PIT_WORKER_DATA_ROOT=REMOTE)
    eventually(lambda: root.json("show", "node:n0")["state"] == "online")


def test_jobs_of_two_users_on_a_remote_node_run_as_their_users(
    lab: Lab, root: Person, node: None  # noqa: F811
) -> None:  # fmt: skip
    anna = newcomer(lab, root, "anna")
    uid = anna.json("show", "me")["uid"]
    number = anna.run('id -u; touch "$USER_DIR/mine"; echo x >"$KEEP_DIR/kept"; cat "$USER_DIR/mine"')
    anna.ok("wait", str(number))
    assert f"] {uid}\n" in anna.ok("log", str(number))
    data = lab.place / "head/data"
    for place in (data / f"jobs/{number}/1/keep/kept", data / "home/anna/mine", data / f"jobs/{number}/1"):
        assert place.stat().st_uid == uid, place
    spied = root.run(f"ls -R {_places(lab)} /run/pit/home; id -u")
    root.ok("wait", str(spied))
    log = root.ok("log", str(spied))
    assert "mine" not in log and "kept" not in log and "Permission denied" in log
    assert "docker" not in root.ok("show", "nodes") and " process " in root.ok("show", "nodes")


def _places(lab: Lab) -> str:  # noqa: F811
    return " ".join(map(str, (lab.place / "head/data", Path(lab.place) / "spool-etc-n0")))
