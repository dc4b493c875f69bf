"""States of commits, branches and remotes."""

from pathlib import Path

from tests.project_states.base import commit, push, state
from tests.support.git_projects import git


def diverge(top: Path) -> None:
    git(top, "checkout", "-q", "-b", "other")
    (top / "model.py").write_text("theirs\n")
    commit(top)
    git(top, "checkout", "-q", "main")
    (top / "model.py").write_text("ours\n")
    commit(top)


def expect_failure(top: Path, *arguments: str) -> None:
    try:
        git(top, *arguments)
    except Exception:
        return
    raise AssertionError(f"git {arguments[0]} should have failed")


@state
def conflict(top: Path) -> None:
    diverge(top)
    expect_failure(top, "merge", "-q", "other")
    assert "<<<<" in (top / "model.py").read_text()


@state
def rebase(top: Path) -> None:
    diverge(top)
    expect_failure(top, "rebase", "-q", "other")


@state
def unpushed(top: Path) -> None:
    for number in range(3):
        (top / "model.py").write_text(f"commit {number}\n")
        commit(top)
    (top / "data.bin").write_bytes(b"and not committed")


@state
def without_upstream(top: Path) -> None:
    git(top, "checkout", "-q", "-b", "topic", "--no-track")
    (top / "model.py").write_text("topic\n")
    commit(top)


@state
def detached(top: Path) -> None:
    unpushed(top)
    git(top, "stash", "-q")
    git(top, "checkout", "-q", "HEAD~1")


@state
def without_remote(top: Path) -> None:
    git(top, "remote", "remove", "origin")
    (top / "model.py").write_text("alone\n")


@state
def several_remotes(top: Path) -> None:
    git(top, "remote", "add", "another", "https://git.invalid/another.git")
    git(top, "config", "branch.main.remote", "another")
    (top / "model.py").write_text("several\n")


@state
def orphan(top: Path) -> None:
    git(top, "checkout", "-q", "--orphan", "fresh")


@state
def without_commits(top: Path) -> Path:
    fresh = top.parent / "fresh"
    fresh.mkdir()
    git(fresh, "init", "-q")
    (fresh / "model.py").write_text("first\n")
    return fresh


@state
def shallow(top: Path) -> Path:
    unpushed(top)
    commit(top)
    push(top)
    git(top.parent, "clone", "-q", "--depth=1", f"file://{top.parent}/remote.git", "shallow")
    (top.parent / "shallow" / "model.py").write_text("shallow\n")
    return top.parent / "shallow"


@state
def worktree(top: Path) -> Path:
    git(top, "worktree", "add", "-q", "-b", "side", "../side")
    (top.parent / "side" / "model.py").write_text("side\n")
    return top.parent / "side"


@state
def sha256_repository(top: Path) -> Path:
    fresh = top.parent / "sha256"
    fresh.mkdir()
    git(fresh, "init", "-q", "--object-format=sha256")
    for name in ("model.py", "tracked.log", ".env"):
        (fresh / name).write_text("first\n")
    commit(fresh)
    (fresh / ".gitignore").write_text("*.log\n")
    (fresh / ".git/info/exclude").write_text("/ignored*\n")
    for name in ("model.py", "tracked.log", "ignored here"):
        (fresh / name).write_text("second\n")
    return fresh


@state
def conflict_with_a_deleted_file(top: Path) -> None:
    git(top, "checkout", "-q", "-b", "other")
    git(top, "rm", "-q", "model.py")
    commit(top)
    git(top, "checkout", "-q", "main")
    (top / "model.py").write_text("ours\n")
    commit(top)
    expect_failure(top, "merge", "-q", "other")
    (top / "model.py").unlink()


@state
def replaced_commit(top: Path) -> None:
    """`git replace` shows another commit instead of HEAD."""
    (top / "model.py").write_text("second\n")
    commit(top)
    push(top)
    git(top, "replace", "HEAD", "HEAD~1")
    git(top, "reset", "-q", "--hard")
    assert (top / "model.py").read_text() != "second\n"


@state
def partial_clone(top: Path) -> Path:
    """A clone without the objects of files that are not checked out."""
    for name in ("near", "far"):
        (top / name).mkdir()
        (top / name / "file").write_text(name)
    commit(top)
    push(top)
    for key in ("allowFilter", "allowAnySHA1InWant"):
        git(top.parent / "remote.git", "config", f"uploadpack.{key}", "true")
    remote = f"file://{top.parent}/remote.git"
    git(top.parent, "clone", "-q", "--filter=blob:none", "--sparse", remote, "partial")
    git(top.parent / "partial", "sparse-checkout", "set", "near")
    (top.parent / "partial" / "near" / "file").write_text("changed")
    return top.parent / "partial"
