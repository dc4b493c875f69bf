"""Every state that a work tree can be in, each made in a project with one pushed commit."""

import os
from collections.abc import Callable
from pathlib import Path

from tests.client.projects import git

State = Callable[
    [Path], Path | None
]  # makes the state; another directory than the project's, if the work tree is there
STATES: dict[str, State] = {}


def state(make: State) -> State:
    STATES[make.__name__] = make
    return make


def commit(top: Path, text: str = "more") -> None:
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", text)


def push(top: Path) -> None:
    git(top, "push", "-q", "origin", "HEAD")


def again(top: Path) -> None:
    """Let git write all tracked files anew, by the attributes that hold now."""
    for name in git(top, "ls-files", "-z").split("\0"):
        if name:
            (top / name).unlink(missing_ok=True)
    git(top, "checkout", "-q", "--", ".")


@state
def clean(top: Path) -> None:
    assert git(top, "status", "--porcelain") == ""


@state
def staged(top: Path) -> None:
    (top / "model.py").write_text("staged\n")
    git(top, "add", "model.py")


@state
def unstaged(top: Path) -> None:
    (top / "model.py").write_text("unstaged\n")


@state
def staged_then_changed(top: Path) -> None:
    staged(top)
    (top / "model.py").write_text("staged, then changed\n")


@state
def untracked(top: Path) -> None:
    (top / "new dir" / "deeper").mkdir(parents=True)
    (top / "new dir" / "deeper" / "new.py").write_text("new\n")
    (top / ".gitignore").write_text("ignored*\n")
    (top / "ignored.txt").write_text("ignored\n")


@state
def deleted(top: Path) -> None:
    (top / "model.py").unlink()
    git(top, "rm", "-q", "--cached", "data.bin")


@state
def renamed(top: Path) -> None:
    git(top, "mv", "model.py", "renamed.py")
    (top / "data.bin").rename(top / "moved.bin")


@state
def binary(top: Path) -> None:
    (top / "data.bin").write_bytes(os.urandom(70_000))
    (top / "new.bin").write_bytes(bytes(range(256)) * 3)


@state
def odd_names(top: Path) -> None:
    for name in (
        b"caf\xe9.txt",
        b"new\nline",
        b'quo"te',
        b"tab\there",
        b" blank ",
        "\U0001f40d.py".encode(),
        b"back\\slash",
        b"-dash",
    ):
        Path(os.fsdecode(os.fsencode(top) + b"/" + name)).write_bytes(name)
    (top / "model.py").write_bytes(b"print('caf\xe9')\r\n\0no newline at the end")


@state
def line_ends(top: Path) -> None:
    (top / ".gitattributes").write_text(
        "*.bat text eol=crlf\n*.txt text=auto\n*.enc text working-tree-encoding=UTF-16\n"
    )
    (top / "run.bat").write_text("echo\npause\n")
    (top / "mixed.txt").write_bytes(b"one\r\ntwo\n")
    (top / "wide.enc").write_bytes("wide\n".encode("utf-16"))
    commit(top)
    push(top)
    again(top)
    (top / "mixed.txt").write_bytes(b"one\r\ntwo\n")
    (top / "all.txt").write_bytes(b"crlf\r\n")


@state
def attributes_only_below(top: Path) -> None:
    (top / "sub").mkdir()
    (top / "sub" / ".gitattributes").write_text("* text eol=crlf\n")
    (top / "sub" / "file").write_text("one\ntwo\n")
    commit(top)
    again(top)
    assert (top / "sub" / "file").read_bytes() == b"one\r\ntwo\r\n"


@state
def autocrlf(top: Path) -> None:
    git(top, "config", "core.autocrlf", "true")
    again(top)
    assert (top / "model.py").read_bytes().count(b"\r\n") == 2


@state
def autocrlf_input(top: Path) -> None:
    git(top, "config", "core.autocrlf", "input")
    (top / "model.py").write_bytes(b"print('one')\r\nprint('two')\r\n")
    git(top, "add", "model.py")


@state
def identified(top: Path) -> None:
    (top / ".gitattributes").write_text("*.py ident\n")
    (top / "model.py").write_text("# $Id$\n")
    commit(top)
    again(top)
    assert "$Id: " in (top / "model.py").read_text()


@state
def filtered(top: Path) -> None:
    git(top, "config", "filter.rot.clean", "tr a-z n-za-m")
    git(top, "config", "filter.rot.smudge", "tr a-z n-za-m")
    (top / ".gitattributes").write_text("*.rot filter=rot\n")
    (top / "text.rot").write_text("hello\n")
    commit(top)
    again(top)
    assert (top / "text.rot").read_text() == "hello\n"


@state
def executable(top: Path) -> None:
    (top / ".compute").chmod(0o755)
    (top / "tool").write_text("#!/bin/sh\n")
    (top / "tool").chmod(0o755)


@state
def links(top: Path) -> None:
    (top / "link").symlink_to("model.py")
    (top / "broken").symlink_to("nowhere/at/all")
    (top / "outside").symlink_to("/etc/passwd")
    (top / "folder").symlink_to(".")


@state
def empty_files(top: Path) -> None:
    (top / "empty").write_bytes(b"")
    (top / "model.py").write_bytes(b"")


@state
def other_kinds(top: Path) -> None:
    for name in ("a", "b"):
        (top / name).write_text(name)
    (top / "dir").mkdir()
    (top / "dir" / "file").write_text("file")
    (top / "link").symlink_to("a")
    commit(top)
    (top / "a").unlink()
    (top / "a").mkdir()
    (top / "a" / "inside").write_text("now a directory")
    (top / "b").unlink()
    (top / "b").symlink_to("a/inside")
    (top / "dir" / "file").unlink()
    (top / "dir").rmdir()
    (top / "dir").write_text("now a file")
    (top / "link").unlink()
    (top / "link").write_text("now a file")


@state
def intended(top: Path) -> None:
    (top / "later.py").write_text("later\n")
    git(top, "add", "-N", "later.py")


@state
def hidden_changes(top: Path) -> None:
    git(top, "update-index", "--assume-unchanged", "model.py")
    git(top, "update-index", "--skip-worktree", "data.bin")
    (top / "model.py").write_text("changed behind git's back\n")
    (top / "data.bin").write_bytes(b"this too")


def diverge(top: Path) -> None:
    git(top, "checkout", "-q", "-b", "other")
    (top / "model.py").write_text("theirs\n")
    commit(top)
    git(top, "checkout", "-q", "main")
    (top / "model.py").write_text("ours\n")
    commit(top)


def fails(top: Path, *arguments: str) -> None:
    try:
        git(top, *arguments)
    except Exception:
        return
    raise AssertionError(f"git {arguments[0]} should have stopped")


@state
def conflict(top: Path) -> None:
    diverge(top)
    fails(top, "merge", "-q", "other")
    assert "<<<<" in (top / "model.py").read_text()


@state
def rebase(top: Path) -> None:
    diverge(top)
    fails(top, "rebase", "-q", "other")


@state
def sparse(top: Path) -> None:
    for name in ("near", "far"):
        (top / name).mkdir()
        (top / name / "file").write_text(name)
    commit(top)
    push(top)
    git(top, "sparse-checkout", "set", "near")
    assert not (top / "far").exists()


@state
def sparse_index(top: Path) -> None:
    sparse(top)
    git(top, "sparse-checkout", "init", "--cone", "--sparse-index")
    (top / "near" / "file").write_text("changed")


@state
def split_index(top: Path) -> None:
    git(top, "update-index", "--split-index")
    (top / "model.py").write_text("split\n")


@state
def without_modes(top: Path) -> None:
    git(top, "config", "core.filemode", "false")
    git(top, "config", "core.ignorecase", "true")
    (top / "model.py").write_text("changed\n")


@state
def case_alone(top: Path) -> None:
    git(top, "config", "core.ignorecase", "true")
    (top / "model.py").rename(top / "Model.py")
    (top / "DATA.BIN").write_text("another file than data.bin\n")


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
def sha256_names(top: Path) -> Path:
    fresh = top.parent / "sha256"
    fresh.mkdir()
    git(fresh, "init", "-q", "--object-format=sha256")
    (fresh / "model.py").write_text("first\n")
    commit(fresh)
    (fresh / "model.py").write_text("second\n")
    return fresh


def library(top: Path) -> Path:
    """Another project with a remote of its own."""
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
def submodule_not_there(top: Path) -> Path:
    submodule(top)
    git(top.parent, "clone", "-q", "remote.git", "without")
    return top.parent / "without"


@state
def submodule_within_submodule(top: Path) -> None:
    submodule(top)
    inner = library_within(top)
    git(top / "lib", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "inner")
    (top / "lib" / "inner" / "deep.py").write_text("deep and dirty\n")


def library_within(top: Path) -> Path:
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
def same_moment(top: Path) -> None:
    """A change that leaves size and time as the index has them."""
    model, index = top / "model.py", top / ".git/index"
    moment = model.stat().st_mtime_ns - 100 * 10**9
    os.utime(model, ns=(moment, moment))
    git(top, "add", "model.py")
    os.utime(index, ns=(moment, moment))
    text = model.read_text()
    with model.open("r+") as file:
        file.write(text.replace("o", "0"))
    os.utime(model, ns=(moment, moment))


def contents(directory: Path) -> dict[bytes, tuple[str, bytes]]:
    """All files below a directory with kind and bytes; but not git's own, nor those called `ignored…`."""
    found: dict[bytes, tuple[str, bytes]] = {}
    for folder, folders, files in os.walk(os.fsencode(directory)):
        if b".git" in folders:
            folders.remove(b".git")
        for name in [*files, *(name for name in folders if os.path.islink(os.path.join(folder, name)))]:
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, os.fsencode(directory))
            if name.startswith(b"ignored") or name == b".git":
                continue
            if os.path.islink(path):
                found[relative] = ("link", os.readlink(path))
            else:
                mode = "executable" if os.stat(path).st_mode & 0o100 else "file"
                found[relative] = (mode, Path(os.fsdecode(path)).read_bytes())
    return found
