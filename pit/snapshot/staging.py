"""Bring the index of a scratch repository up to date with the work tree."""

import os
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from pit.snapshot.conversions import Adjustments, adjust_index, has_attributes, is_unconverted
from pit.snapshot.git_status import (
    LIST_ENTRIES,
    PendingStatus,
    Status,
    find_special_files,
    has_attributes_below,
    is_special_file,
    may_have_submodules,
    tracked_directories,
    tracked_paths,
)
from pit.snapshot.plain_directory import PlainDirectory
from pit.snapshot.read_errors import WorktreeChanged, explain_add_error, raise_if_unreadable
from pit.snapshot.repository import Repository
from pit.snapshot.scratch_repo import ScratchRepo
from pit_protocol.problem import Problem

MAX_ATTEMPTS = 5  # while files change in the work tree
MAX_NAMED = 100  # paths to add by name; with more, it is faster to let git scan the whole work tree


@dataclass
class Staged:
    """What is known of the scratch index once it matches the work tree."""

    tags: bytes = b""  # the tracked files, as `ls-files -v` prints them
    adjustments: Adjustments = field(default_factory=Adjustments)
    nested: tuple[bytes, ...] = ()  # nested repositories without commits, which git does not add
    is_clean: bool = False  # the work tree equals HEAD, so the scratch index was not needed
    may_have_submodules: bool = False


def stage(
    repo: Repository, scratch: ScratchRepo, embed: Container[str], pending: PendingStatus | None
) -> Staged:
    """Add the work tree to the scratch index; start over if a file changes meanwhile."""
    for attempt in range(MAX_ATTEMPTS):
        try:
            if isinstance(repo, PlainDirectory):
                return Staged(repo.tags, nested=_add_plain_directory(repo, scratch))
            return _stage(repo, scratch, embed, pending or PendingStatus(repo), by_name=attempt == 0)
        except WorktreeChanged:
            if attempt == MAX_ATTEMPTS - 1:
                raise
            pending = None
    raise AssertionError("unreachable")


def _stage(
    repo: Repository, scratch: ScratchRepo, embed: Container[str], pending: PendingStatus, *, by_name: bool
) -> Staged:
    """Rely on `git status` where nothing is converted; otherwise compare each file."""
    tags, submodules = pending.tags, may_have_submodules(repo)
    trusted = is_unconverted(repo, tags) and not has_attributes(repo) and b"!" not in scratch.ignored
    status = pending.status if trusted and not has_attributes_below(repo, tags) else None
    if status and status.is_clean and _is_of_head(status, repo) and not submodules:
        return Staged(tags, is_clean=True)
    staged = Staged(tags, may_have_submodules=submodules)
    scratch.copy_user_index()
    if status is None:
        staged.adjustments = adjust_index(repo, scratch, repo.run(*LIST_ENTRIES), embed)
    special = _tracked_special_files(repo, tags, status)
    scratch.remove_entries(list(special))
    paths: Sequence[bytes] = (b".",)
    # By name only on the first attempt, and without patterns of our own: git refuses to add an ignored
    # path, or one that is gone.
    if by_name and status and len(status.differing) <= MAX_NAMED and not scratch.ignored:
        paths = [path for path in status.differing if path not in special]
    staged.nested = _add(scratch, paths)
    return staged


def _tracked_special_files(repo: Repository, tags: bytes, status: Status | None) -> set[bytes]:
    """Tracked paths that are now a pipe, socket or device; `git add` fails on them."""
    top = os.fsencode(repo.top)
    if status is None:
        return set(find_special_files(top, tracked_directories(tags))) & tracked_paths(tags)
    return {path for path in status.differing if is_special_file(os.path.join(top, path))}  # noqa: PTH118


def _is_of_head(status: Status, repo: Repository) -> bool:
    """Whether the status belongs to the HEAD that was read: nobody committed in between."""
    return status.commit == (repo.head[0].encode() if repo.head else b"(initial)")


def _add_plain_directory(directory: PlainDirectory, scratch: ScratchRepo) -> tuple[bytes, ...]:
    nested = _add(scratch)
    top = os.fsencode(directory.top)
    existing = [name for name in directory.forced if os.path.lexists(os.path.join(top, name))]  # noqa: PTH118
    _add(scratch, existing, "--force")
    return nested


def _add(scratch: ScratchRepo, paths: Sequence[bytes] = (b".",), *options: str) -> tuple[bytes, ...]:
    """Add what differs; return the nested repositories that git does not add."""
    if not paths:
        return ()
    command = ("--literal-pathspecs", "add", "-A", *options, "--pathspec-from-file=-", "--pathspec-file-nul")
    try:
        scratch.run(*command, stdin=b"\0".join(paths), warn=raise_if_unreadable)
    except Problem as problem:
        if "does not have a commit checked out" not in problem.message + problem.hint:
            raise explain_add_error(problem) from problem
    else:
        return ()
    # Git refuses to add a nested repository that has no commits.
    others = scratch.run("ls-files", "--others", "--exclude-standard", "-z").split(b"\0")
    nested = tuple(name[:-1] for name in others if name.endswith(b"/"))
    scratch.ignore(nested)
    return (*nested, *_add(scratch))
