"""What git reports about a work tree, and the special files that git does not report.

`git status` compares each file with the index in the same way as `git add`. Where nothing is converted
(see `conversions`), a file that it does not list equals, byte for byte, its object in the index.
"""

import os
import re
import stat
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from pit.snapshot.read_errors import SKIPPED_DIRECTORY
from pit.snapshot.repository import Repository

ATTRIBUTES_FILE = b".gitattributes"
LIST_ENTRIES = ("ls-files", "-s", "-v", "-z")
LIST_TAGS = ("ls-files", "-v", "-z")  # each path after its tag: enough in most cases, in half the time
# Submodules are captured by pit itself: git records a commit of them, not files.
_UNALTERED = ("--no-ahead-behind", "--no-renames", "--ignore-submodules=dirty")
_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", *_UNALTERED)
_COMMIT = b"# branch.oid "
_FIELDS = {b"1": 8, b"u": 10}  # words before the path, by the kind of line
_DIRECTORY = re.compile(rb"[A-Za-z] ([^\0]*)/")
_SUBMODULE_MODE = b"\0\0\xe0\0"  # as it is stored in an index


@dataclass(frozen=True)
class Status:
    commit: bytes  # HEAD when `git status` ran
    is_clean: bool  # work tree, index and HEAD are equal
    differing: tuple[bytes, ...]  # paths where the work tree differs from the index


class PendingStatus:
    """Git commands that run in the background; the properties wait for their output."""

    def __init__(self, repo: Repository) -> None:
        # With attributes, git status could not be trusted.
        with_status = not (repo.top / os.fsdecode(ATTRIBUTES_FILE)).exists()
        pool = ThreadPoolExecutor(2)
        self._status = pool.submit(_run_status, repo) if with_status else None
        self._tags = pool.submit(repo.run, *LIST_TAGS)
        pool.shutdown(wait=False)

    @property
    def tags(self) -> bytes:
        """The index, as `ls-files -v -z` prints it."""
        return self._tags.result()

    @property
    def status(self) -> Status | None:
        """None where git status cannot be trusted because files may be converted."""
        return self._status.result() if self._status else None


def tracked_paths(tags: bytes) -> set[bytes]:
    return {line[2:] for line in tags.split(b"\0")}


def tracked_directories(tags: bytes) -> set[bytes]:
    """All directories with tracked files."""
    return {b"", *_DIRECTORY.findall(tags)}


def has_attributes_below(repo: Repository, tags: bytes) -> bool:
    """Whether a .gitattributes file, tracked or not, is in a directory with tracked files."""
    top = os.fsencode(repo.top)
    return any(
        os.path.lexists(os.path.join(top, directory, ATTRIBUTES_FILE))  # noqa: PTH118
        for directory in tracked_directories(tags)
    )


def may_have_submodules(repo: Repository) -> bool:
    """Search the bytes of the index for a submodule's mode; other data can look the same."""
    index = repo.paths["index"]
    files = (index, *index.parent.glob("sharedindex.*"))
    return any(_SUBMODULE_MODE in file.read_bytes() for file in files if file.is_file())


def find_special_files(top: bytes, directories: Iterable[bytes]) -> list[bytes]:
    """Pipes, sockets and devices in these directories; git does not list them."""
    special = []
    for directory in directories:
        with suppress(OSError), os.scandir(os.path.join(top, directory)) as found:  # noqa: PTH118
            special += [os.path.join(directory, entry.name) for entry in found if not _is_regular(entry)]  # noqa: PTH118
    return special


def _is_regular(entry: os.DirEntry[bytes]) -> bool:
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False) or entry.is_symlink()


def is_special_file(path: bytes) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:  # it does not exist
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


def ignores_case(repo: Repository) -> bool:
    """Whether the file system treats `a` and `A` as one name, whatever `core.ignorecase` says."""
    return (repo.top / ".GIT").exists()


def _run_status(repo: Repository) -> Status | None:
    # On a file system that distinguishes `a` and `A`, `core.ignorecase=true` would lose one of them.
    case = f"core.ignorecase={str(ignores_case(repo)).lower()}"
    warnings: list[str] = []
    printed = repo.run("-c", case, *_STATUS, warn=warnings.append)
    # A directory that git could not read may be one that .pitignore names; `git add` finds out.
    return None if SKIPPED_DIRECTORY in "".join(warnings) else _parse(printed)


def _parse(printed: bytes) -> Status:
    words = printed.split(b"\0")
    commit = next(word.removeprefix(_COMMIT) for word in words if word.startswith(_COMMIT))
    lines = [word for word in words if word and not word.startswith(b"#")]
    return Status(commit, not lines, tuple(path for path in map(_differing_path, lines) if path))


def _differing_path(line: bytes) -> bytes:
    """The path in a line of `git status` if the file differs from the index, else empty."""
    kind, _, rest = line.partition(b" ")
    if kind == b"?":
        return rest
    words = line.split(b" ", _FIELDS[kind])
    return words[-1] if kind == b"u" or words[1][1:] != b"." else b""
