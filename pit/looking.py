"""What git itself says of a work tree, and what it does not; asked side by side, for it takes a while.

`git status` compares each file with the index as `git add` does. Where nothing converts (see
`exactness`), a file that it does not name is byte by byte the object that the index has of it.
"""

import os
import re
import stat
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from pit.project import Project
from pit.trouble import PASSED_OVER

ATTRIBUTES_FILE = b".gitattributes"
LISTED = ("ls-files", "-s", "-v", "-z")
TAGGED = ("ls-files", "-v", "-z")  # each path after its tag: enough for most questions, in half the time
# Submodules are looked at by us: what git has of them is a commit, not files.
_UNALTERED = ("--no-ahead-behind", "--no-renames", "--ignore-submodules=dirty")
_STATUS = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", *_UNALTERED)
_COMMIT = b"# branch.oid "
_FIELDS = {b"1": 8, b"u": 10}  # words before the path, by the kind of line
_FOLDER = re.compile(rb"[A-Za-z] ([^\0]*)/")
_LINK_MODE = b"\0\0\xe0\0"  # of a submodule, as it stands in an index


@dataclass(frozen=True)
class Status:
    commit: bytes  # HEAD when git looked
    is_clean: bool  # work tree, index and HEAD are one
    differing: tuple[bytes, ...]  # paths where the work tree is not as the index has it


class Look:
    """Questions that are asked already; who needs an answer waits for it."""

    def __init__(self, project: Project) -> None:
        # With attributes it could not be trusted.
        with_status = not (project.top / os.fsdecode(ATTRIBUTES_FILE)).exists()
        pool = ThreadPoolExecutor(2)
        self._status = pool.submit(_ask_status, project) if with_status else None
        self._tags = pool.submit(project.run, *TAGGED)
        pool.shutdown(wait=False)

    @property
    def tags(self) -> bytes:
        """The index, as of `ls-files -v -z`."""
        return self._tags.result()

    @property
    def status(self) -> Status | None:
        """None where it could not be trusted, for files may be converted."""
        return self._status.result() if self._status else None


def folders(tags: bytes) -> set[bytes]:
    """All directories with tracked files."""
    return {b"", *_FOLDER.findall(tags)}


def has_attributes_below(project: Project, tags: bytes) -> bool:
    """Whether there are attributes beside tracked files, though they need not be tracked themselves."""
    top = os.fsencode(project.top)
    return any(os.path.lexists(os.path.join(top, folder, ATTRIBUTES_FILE)) for folder in folders(tags))  # noqa: PTH118


def may_have_submodules(project: Project) -> bool:
    """A look at the bytes of the index, in which something else can seem to be one."""
    index = project.paths["index"]
    files = (index, *index.parent.glob("sharedindex.*"))
    return any(_LINK_MODE in file.read_bytes() for file in files if file.is_file())


def find_odd(top: bytes, places: Iterable[bytes]) -> list[bytes]:
    """What is no file, directory or link in these directories: git does not speak of it."""
    odd = []
    for folder in places:
        with suppress(OSError), os.scandir(os.path.join(top, folder)) as found:  # noqa: PTH118
            odd += [os.path.join(folder, entry.name) for entry in found if not _is_known(entry)]  # noqa: PTH118
    return odd


def _is_known(entry: os.DirEntry[bytes]) -> bool:
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False) or entry.is_symlink()


def is_odd(path: bytes) -> bool:
    try:
        mode = os.lstat(path).st_mode
    except OSError:  # not there at all
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


def folds_case(project: Project) -> bool:
    """Whether the disk takes `a` for `A`, whatever the repository says."""
    return (project.top / ".GIT").exists()


def _ask_status(project: Project) -> Status | None:
    # With a disk that tells `a` from `A`, a git that does not would lose one of them.
    cases = f"core.ignorecase={str(folds_case(project)).lower()}"
    said: list[str] = []
    printed = project.run("-c", cases, *_STATUS, warn=said.append)
    # What it could not read may be what pit ignores, or not: that is for who adds the files to say.
    return None if PASSED_OVER in "".join(said) else _parse(printed)


def _parse(printed: bytes) -> Status:
    words = printed.split(b"\0")
    commit = next(word.removeprefix(_COMMIT) for word in words if word.startswith(_COMMIT))
    lines = [word for word in words if word and not word.startswith(b"#")]
    return Status(commit, not lines, tuple(path for path in map(_differing, lines) if path))


def _differing(line: bytes) -> bytes:
    """The path of a line, if it tells that the file is not as in the index."""
    kind, _, rest = line.partition(b" ")
    if kind == b"?":
        return rest
    words = line.split(b" ", _FIELDS[kind])
    return words[-1] if kind == b"u" or words[1][1:] != b"." else b""
