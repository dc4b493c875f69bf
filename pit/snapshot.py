"""A project's exact state as something to send: a commit that the head can get, and a diff to it.

All that is not ignored belongs to it: staged, modified, untracked, binary. The user's index and
objects stay as they are, for git writes into a scratch folder.
"""

import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pit.project import Project, check_no_secret
from pit_protocol.problem import Problem
from pit_protocol.submission import Snapshot

MIB = 1024 * 1024
MAX_DIFF = 32 * MIB
MAX_CHANGED = 16 * MAX_DIFF  # bytes of changed files that are worth the try to diff them
NAMED_FILES = 5

_EXACT = ("-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none")
_PATCH = ("-p", "--binary", "--full-index", "--no-relative", "--submodule=short")
_PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/")


@dataclass(frozen=True)
class Parcel:
    """A snapshot and the files whose hashes it names; they live as long as the scratch folder."""

    snapshot: Snapshot
    bodies: tuple[Path, ...]


class Shot:
    """The work tree at one moment, as a tree object in a scratch folder."""

    def __init__(self, project: Project, scratch: Path) -> None:
        self.project = project
        self.commit = project.get_commit()
        self._scratch = scratch
        self._env = _scratch_env(project, scratch)
        _check_size(project, self._env)
        project.run("add", "-A", "--", ".", env=self._env)
        self.tree = project.line("write-tree", env=self._env)

    def has(self, path: str) -> bool:
        return bool(self.project.run("ls-tree", self.tree, "--", path, env=self._env))

    def from_remote(self) -> Parcel | None:
        """The shot as a diff to what the remote has; None if it has nothing of it."""
        remote = self.project.get_remote()
        if remote is None or self.commit is None:
            return None
        base = self.project.find_base(remote, self.commit)
        if base is None:
            return None
        check_no_secret(remote)
        return self._parcel(base, base, remote_name=remote.name, remote=remote.url)

    def with_pack(self) -> Parcel:
        """The shot with all its objects, for a head that cannot fetch them; history stays here."""
        if self.commit is None:
            return self._parcel(self.project.line("hash-object", "-t", "tree", "--stdin"), None)
        listing, pack = self._scratch / "objects.txt", self._scratch / "objects.pack"
        with listing.open("wb") as file:
            self.project.run("rev-list", "--objects", "--no-walk", self.commit, stdout=file)
        with listing.open("rb") as names, pack.open("wb") as file:
            self.project.run("pack-objects", "--stdout", "-q", stdin=names, stdout=file)
        return self._parcel(self.commit, self.commit, pack=pack)

    def _parcel(
        self,
        base: str,
        commit: str | None,
        *,
        remote: str | None = None,
        remote_name: str | None = None,
        pack: Path | None = None,
    ) -> Parcel:
        diff = self._diff(base)
        snapshot = Snapshot(
            tree=self.tree,
            commit=commit,
            remote=remote,
            remote_name=remote_name,
            branch=self.project.get_branch(),
            diff=digest(diff) if diff else None,
            diff_lines=self._count_lines(base) if diff else 0,
            pack=digest(pack) if pack else None,
        )
        return Parcel(snapshot, tuple(body for body in (diff, pack) if body))

    def _diff(self, base: str) -> Path | None:
        path = self._scratch / "changes.diff"
        with path.open("wb") as file:
            # The plumbing command, for `git diff` follows the user's taste in prefixes and colours.
            self.project.run(
                "diff-tree", *_EXACT, *_PATCH, *_PREFIXES, base, self.tree, env=self._env, stdout=file
            )
        size = path.stat().st_size
        if size > MAX_DIFF:
            changed = self.project.run(
                "diff-tree", *_EXACT, "--name-only", "-z", "--diff-filter=d", base, self.tree, env=self._env
            )
            raise _too_big(f"the diff has {size / MIB:.0f} MiB", _sizes(self.project.top, changed))
        return path if size else None

    def _count_lines(self, base: str) -> int:
        numbers = self.project.run("diff-tree", *_EXACT, "--numstat", base, self.tree, env=self._env)
        # A binary file has `-` in both columns.
        pairs = (line.split(b"\t", 2)[:2] for line in numbers.splitlines())
        return sum(int(number) for pair in pairs for number in pair if number.isdigit())


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _scratch_env(project: Project, scratch: Path) -> dict[str, str]:
    """An index and an object directory of our own on top of the user's."""
    index, objects = scratch / "index", scratch / "objects"
    objects.mkdir()
    user_index = project.git_path("index")
    if user_index.exists():
        # With its times: git takes a file that is younger than the index for changed, and one that
        # was written at the same moment for doubtful. A younger copy would hide such a change.
        shutil.copy2(user_index, index)
    alternates = [_quoted(project.git_path("objects").resolve())]
    if inherited := os.environ.get("GIT_ALTERNATE_OBJECT_DIRECTORIES"):
        alternates.append(inherited)
    return {
        "GIT_INDEX_FILE": str(index),
        "GIT_OBJECT_DIRECTORY": str(objects),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": os.pathsep.join(alternates),
    }


def _quoted(path: Path) -> str:
    # Unquoted, a colon in a path would end it.
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _check_size(project: Project, env: dict[str, str]) -> None:
    """Refuse a forgotten data set before git spends minutes to compress it."""
    changed = project.run("ls-files", "-z", "--others", "--modified", "--exclude-standard", env=env)
    sizes = _sizes(project.top, changed)
    total = sum(size for size, _ in sizes)
    if total > MAX_CHANGED:
        raise _too_big(f"changed and untracked files have {total / MIB:,.0f} MiB", sizes)


def _sizes(top: Path, names: bytes) -> list[tuple[int, str]]:
    """Sizes and names of files, the biggest first."""
    return sorted(_measured(top, {os.fsdecode(name) for name in names.split(b"\0") if name}), reverse=True)


def _measured(top: Path, names: Iterable[str]) -> Iterable[tuple[int, str]]:
    for name in names:
        try:
            yield (top / name).lstat().st_size, name
        except OSError:  # deleted: it has no size
            continue


def _too_big(what: str, sizes: Sequence[tuple[int, str]]) -> Problem:
    biggest = "\n".join(f"  {size / MIB:8,.1f} MiB  {name}" for size, name in sizes[:NAMED_FILES])
    return Problem(
        "diff_too_big",
        f"{what}, more than the {MAX_DIFF // MIB} MiB that may go along with a job",
        f"name what the job does not need in .gitignore, or commit and push it; the biggest are\n{biggest}",
    )
