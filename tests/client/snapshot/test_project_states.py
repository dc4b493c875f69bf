"""In every project state the head receives the work tree byte for byte."""

import hashlib
from pathlib import Path

import pytest

from pit.snapshot.capture import WorktreeSnapshot
from pit.snapshot.repository import Repository
from tests.project_states import STATES, contents
from tests.support.git_projects import git, receive


def fingerprints(directory: Path) -> dict[str, str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("reachable", [True, False], ids=["reachable", "unreachable"])
@pytest.mark.parametrize("name", STATES)
def test_the_received_files_equal_the_work_tree(
    name: str, reachable: bool, checkout: Path, tmp_path: Path
) -> None:
    top = STATES[name](checkout) or checkout
    before = fingerprints(top / ".git") if (top / ".git").is_dir() else {}
    worktree = WorktreeSnapshot(Repository.find(top), tmp_path / "scratch")
    base = worktree.base.commit if worktree.base and reachable else None
    assert contents(receive(worktree, tmp_path, base)) == contents(top)
    if before:
        assert fingerprints(top / ".git") == before, "the user's repository was changed"
    if worktree.repo.head:
        assert git(top, "rev-parse", "HEAD") == worktree.repo.head[0]
