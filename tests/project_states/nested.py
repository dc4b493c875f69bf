"""States of submodules and nested repositories."""

import shutil
from pathlib import Path

from tests.project_states.base import commit, push, state
from tests.support.git_projects import git


def library(top: Path) -> Path:
    """Another project with its own remote."""
    source = top.parent / "library"
    source.mkdir()
    git(source, "init", "-q")
    (source / "lib.py").write_text("lib 1\n")
    commit(source)
    git(source.parent, "clone", "-q", "--bare", "library", "library.git")
    return source.parent / "library.git"


@state
def submodule(top: Path) -> None:
    git(top, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library(top)), "lib")
    commit(top)
    push(top)


@state
def submodule_moved(top: Path) -> None:
    submodule(top)
    (top / "lib" / "lib.py").write_text("lib 2\n")
    commit(top / "lib")


@state
def submodule_dirty(top: Path) -> None:
    submodule_moved(top)
    (top / "lib" / "lib.py").write_text("dirty\n")
    (top / "lib" / "untracked").write_text("untracked\n")
    (top / "model.py").write_text("dirty outside, too\n")


@state
def submodule_not_checked_out(top: Path) -> Path:
    submodule(top)
    git(top.parent, "clone", "-q", "remote.git", "without")
    return top.parent / "without"


@state
def submodule_within_submodule(top: Path) -> None:
    submodule(top)
    inner = inner_library(top)
    git(top / "lib", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "inner")
    (top / "lib" / "inner" / "deep.py").write_text("deep and dirty\n")


def inner_library(top: Path) -> Path:
    source = top.parent / "within"
    source.mkdir()
    git(source, "init", "-q")
    (source / "deep.py").write_text("deep\n")
    commit(source)
    return source


@state
def nested_repository(top: Path) -> None:
    nested = top / "nested"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "file").write_text("nested\n")
    commit(nested)
    (nested / "more").write_text("not committed\n")


@state
def nested_without_commits(top: Path) -> None:
    nested = top / "nes*ted"
    nested.mkdir()
    git(nested, "init", "-q")
    (nested / "file").write_text("nested\n")


@state
def nested_around_tracked_files(top: Path) -> None:
    """A repository in a directory with files that the outer one tracks."""
    (top / "lib").mkdir()
    (top / "lib" / "known").write_text("known to both\n")
    commit(top)
    git(top / "lib", "init", "-q")
    (top / "lib" / "new").write_text("new\n")


@state
def submodule_replaced_by_file(top: Path) -> None:
    submodule(top)
    shutil.rmtree(top / "lib")
    (top / "lib").write_text("a file now\n")


@state
def nested_sha256_repository(top: Path) -> None:
    nested = top / "nested"
    nested.mkdir()
    git(nested, "init", "-q", "--object-format=sha256")
    (nested / "file").write_text("nested\n")
    commit(nested)
    (nested / "more").write_text("not committed\n")
