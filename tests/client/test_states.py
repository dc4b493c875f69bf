"""In whatever state a project is, what arrives is what lies in the work tree, byte by byte."""

import hashlib
from pathlib import Path

import pytest

from pit.project import Project
from pit.snapshot import Shot
from tests.client.projects import git, receive
from tests.states import STATES, contents


def fingerprints(directory: Path) -> dict[str, str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("reachable", [True, False], ids=["reachable", "unreachable"])
@pytest.mark.parametrize("name", STATES)
def test_what_arrives_is_what_is_there(name: str, reachable: bool, checkout: Path, tmp_path: Path) -> None:
    top = STATES[name](checkout) or checkout
    before = fingerprints(top / ".git") if (top / ".git").is_dir() else {}
    shot = Shot(Project.find(top), tmp_path / "scratch")
    base = shot.base.commit if shot.base and reachable else None
    assert contents(receive(shot, tmp_path, base)) == contents(top)
    if before:
        assert fingerprints(top / ".git") == before, "the user's repository was touched"
    if shot.project.head:
        assert git(top, "rev-parse", "HEAD") == shot.project.head[0]
