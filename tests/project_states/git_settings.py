"""States in which git sees other files or other bytes than are on disk."""

import hashlib
import os
from pathlib import Path

from tests.project_states.base import checkout_again, commit, push, state
from tests.support.git_projects import git


@state
def line_endings(top: Path) -> None:
    (top / ".gitattributes").write_text(
        "*.bat text eol=crlf\n*.txt text=auto\n*.enc text working-tree-encoding=UTF-16\n"
    )
    (top / "run.bat").write_text("echo\npause\n")
    (top / "mixed.txt").write_bytes(b"one\r\ntwo\n")
    (top / "wide.enc").write_bytes("wide\n".encode("utf-16"))
    commit(top)
    push(top)
    checkout_again(top)
    (top / "mixed.txt").write_bytes(b"one\r\ntwo\n")
    (top / "all.txt").write_bytes(b"crlf\r\n")


@state
def attributes_only_below(top: Path) -> None:
    (top / "sub").mkdir()
    (top / "sub" / ".gitattributes").write_text("* text eol=crlf\n")
    (top / "sub" / "file").write_text("one\ntwo\n")
    commit(top)
    checkout_again(top)
    assert (top / "sub" / "file").read_bytes() == b"one\r\ntwo\r\n"


@state
def autocrlf(top: Path) -> None:
    git(top, "config", "core.autocrlf", "true")
    checkout_again(top)
    assert (top / "model.py").read_bytes().count(b"\r\n") == 2


@state
def autocrlf_input(top: Path) -> None:
    git(top, "config", "core.autocrlf", "input")
    (top / "model.py").write_bytes(b"print('one')\r\nprint('two')\r\n")
    git(top, "add", "model.py")


@state
def ident_keyword(top: Path) -> None:
    (top / ".gitattributes").write_text("*.py ident\n")
    (top / "model.py").write_text("# $Id$\n")
    commit(top)
    checkout_again(top)
    assert "$Id: " in (top / "model.py").read_text()


@state
def filtered(top: Path) -> None:
    git(top, "config", "filter.rot.clean", "tr a-z n-za-m")
    git(top, "config", "filter.rot.smudge", "tr a-z n-za-m")
    (top / ".gitattributes").write_text("*.rot filter=rot\n")
    (top / "text.rot").write_text("hello\n")
    commit(top)
    checkout_again(top)
    assert (top / "text.rot").read_text() == "hello\n"


def lfs_pointer(content: bytes) -> bytes:
    oid = hashlib.sha256(content).hexdigest()
    return b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
        oid.encode(),
        len(content),
    )


def commit_lfs_pointers(top: Path) -> None:
    (top / ".gitattributes").write_text("*.lfs filter=lfs diff=lfs merge=lfs -text\n")
    for name in ("one", "two"):
        (top / f"{name}.lfs").write_bytes(lfs_pointer(name.encode() * 1000))
    commit(top)


@state
def lfs_pointers_without_content(top: Path) -> None:
    """As a clone with GIT_LFS_SKIP_SMUDGE has them; the remote does not have the content either."""
    commit_lfs_pointers(top)
    git(top, "push", "-q", "--no-verify", "origin", "HEAD")  # a hook of git-lfs would look for the content


@state
def lfs_pointers_and_content(top: Path) -> None:
    """One of two LFS files was downloaded, and a new pointer is not committed."""
    lfs_pointers_without_content(top)
    (top / "one.lfs").write_bytes(b"one" * 1000)
    (top / "new.lfs").write_bytes(lfs_pointer(b"new"))


@state
def lfs_pointers_in_a_submodule(top: Path) -> None:
    git(top.parent, "init", "-q", "library")
    library = top.parent / "library"
    commit_lfs_pointers(library)
    add = ("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "library")
    git(top, *add, env={"GIT_LFS_SKIP_SMUDGE": "1"})
    commit(top)
    (top / "library" / "one.lfs").write_bytes(b"one" * 1000)


@state
def hidden_changes(top: Path) -> None:
    git(top, "update-index", "--assume-unchanged", "model.py")
    git(top, "update-index", "--skip-worktree", "data.bin")
    (top / "model.py").write_text("changed behind git's back\n")
    (top / "data.bin").write_bytes(b"this too")


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
def sparse_with_extra_files(top: Path) -> None:
    """Files in a directory that is outside of the sparse checkout."""
    sparse(top)
    (top / "far").mkdir()
    (top / "far" / "file").write_text("there again\n")
    (top / "far" / "new").write_text("new\n")


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
def filemode_off(top: Path) -> None:
    git(top, "config", "core.filemode", "false")
    git(top, "config", "core.ignorecase", "true")
    (top / "model.py").write_text("changed\n")


@state
def case_only_rename(top: Path) -> None:
    git(top, "config", "core.ignorecase", "true")
    (top / "model.py").rename(top / "Model.py")
    (top / "DATA.BIN").write_text("another file than data.bin\n")


@state
def broken_fsmonitor(top: Path) -> None:
    """A file system monitor that reports no change."""
    monitor = top / ".git" / "monitor"
    monitor.write_text("#!/bin/sh\nprintf 'token\\0'\n")
    monitor.chmod(0o755)
    git(top, "config", "core.fsmonitor", str(monitor))
    git(top, "update-index", "--fsmonitor")
    git(top, "status")
    (top / "model.py").write_text("not reported\n")
    assert git(top, "status", "--porcelain") == ""


@state
def stale_untracked_cache(top: Path) -> None:
    """A new file in a directory whose cached times are unchanged."""
    git(top, "config", "core.trustctime", "false")
    git(top, "config", "core.untrackedCache", "true")
    (top / "new").mkdir()
    (top / "new" / "one").write_text("one\n")
    (top / "six").write_text("two\n")
    os.utime(top / "new", ns=(0, 0))
    os.utime(top, ns=(0, 0))
    git(top, "update-index", "--force-untracked-cache")
    for _ in range(2):
        git(top, "status")
    # Not a file more: on some file systems that changes the size of the directory, which git would notice.
    (top / "six").rename(top / "two")
    os.utime(top, ns=(0, 0))
    assert "two" not in git(top, "status", "--porcelain")
