"""What runs is what lies in the user's work tree, byte by byte, in whatever state the project is.

Each state is submitted by the real client to a real head, and some also with their remote away; all states
with and without remote are in tests/client/snapshot. The client runs in the test's own process: starting it
as a program is tested elsewhere, and takes longer than the rest.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click.testing
import pytest

from pit.cli import pit
from tests.project_states import STATES, contents
from tests.support.clusters.local import Cluster, Project, running
from tests.support.git_projects import git

# States of which the head gets all objects in different ways if it cannot reach the remote.
WHOLE = (
    "clean",
    "many_changes",
    "lfs_pointers_and_content",
    "unpushed",
    "shallow",
    "partial_clone",
    "submodule_dirty",
    "sha256_repository",
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    place = tmp_path_factory.mktemp("states")
    user = "[user]\nname = Anna\nemail = anna@example.org\n[init]\ndefaultBranch = main\n"
    (place / ".gitconfig").write_text(user)
    with running(Cluster(place, Project(place))) as cluster:
        yield cluster


@pytest.fixture
def checkout(lab: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one pushed commit, and its remote beside it."""
    for name in [name for name in os.environ if name.startswith(("GIT_", "PIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    for name, value in lab.env.items():
        monkeypatch.setenv(name, value)
    git(tmp_path, "init", "--bare", "-q", "remote.git")
    git(tmp_path, "clone", "-q", "remote.git", "project")
    top = tmp_path / "project"
    (top / ".compute").write_text("true\n")
    (top / "model.py").write_text("print('one')\nprint('two')\n")
    (top / "data.bin").write_bytes(bytes(range(256)))
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "first")
    git(top, "push", "-q", "-u", "origin", "HEAD:main")
    return top


def run_pit(*arguments: str) -> str:
    done = click.testing.CliRunner().invoke(pit, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    ("name", "reachable"),
    [(name, True) for name in STATES] + [(name, False) for name in WHOLE],
    ids=lambda value: value if isinstance(value, str) else "reachable" if value else "unreachable",
)
def test_what_runs_is_what_is_there(
    name: str, reachable: bool, lab: Cluster, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = STATES[name](checkout) or checkout
    if not reachable:
        (tmp_path / "remote.git").rename(tmp_path / "away.git")
    monkeypatch.chdir(top)
    job = json.loads(run_pit("run", name, "-d", "true", "-l", "--json").splitlines()[-1])
    assert job["outcome"] == "succeeded", run_pit("log", str(job["number"]))
    assert contents(lab.home / "head" / "data" / "jobs" / str(job["number"]) / "1" / "src") == contents(top)
    brought = tmp_path / "brought"
    run_pit("checkout", str(job["number"]), str(brought), "--plain")
    assert contents(brought) == contents(top)
