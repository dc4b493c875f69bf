"""States of files: changed, added, deleted, of other kinds."""

import os
from pathlib import Path

from tests.project_states.base import commit, state
from tests.support.git_projects import git


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
def changed_kinds(top: Path) -> None:
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
def intent_to_add(top: Path) -> None:
    (top / "later.py").write_text("later\n")
    git(top, "add", "-N", "later.py")


@state
def same_size_and_time(top: Path) -> None:
    """A change with the same size and time as in the index."""
    model, index = top / "model.py", top / ".git/index"
    moment = model.stat().st_mtime_ns - 100 * 10**9
    os.utime(model, ns=(moment, moment))
    git(top, "add", "model.py")
    os.utime(index, ns=(moment, moment))
    text = model.read_text()
    with model.open("r+") as file:
        file.write(text.replace("o", "0"))
    os.utime(model, ns=(moment, moment))


@state
def touched(top: Path) -> None:
    """Only the times differ from the index."""
    for name in ("model.py", "data.bin"):
        os.utime(top / name, ns=(0, 0))


@state
def removed(top: Path) -> None:
    git(top, "rm", "-q", "model.py")
    (top / "data.bin").unlink()


@state
def many_changes(top: Path) -> None:
    """More changes than pit adds by name."""
    for number in range(150):
        (top / f"*{number}").write_text(f"{number}\n")
    git(top, "add", "*1*")
    (top / "*11").unlink()
    (top / "model.py").write_text("changed\n")
