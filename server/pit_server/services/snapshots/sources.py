"""Collects a snapshot's objects from the user's store, a mirror, the remote, or an uploaded pack."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.messages.submission import Snapshot
from pit_protocol.problem import Problem
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.store.git import fetch, tree_check
from pit_server.store.git.command import HARMLESS, Git, GitFailed, discard_output
from pit_server.store.git.repository import Quarantine, Repository
from pit_server.store.git.tree_check import Bounds
from pit_server.store.remotes import remote
from pit_server.store.remotes.credential import Credential
from pit_server.store.remotes.reach import reach
from pit_server.store.remotes.remote import Remote

GIB = 1 << 30


@dataclass(frozen=True)
class Sources:
    """The head's repositories, and gathering snapshots in them."""

    data: DataRoot
    settings: Settings
    say: Callable[[str], None] = discard_output

    def store(self, user_id: int) -> Repository:
        return self.at(self.data.store(user_id))

    def mirror(self, place: Remote) -> Repository:
        return self.at(self.data.mirror(place.key))

    def gather(
        self,
        user_id: int,
        snapshot: Snapshot,
        pack: Path | None,
        credential: Credential | None,
        *,
        is_checked_out: bool = False,
    ) -> Repository:
        """Collect the whole snapshot in the user's store, or raise a Problem; no session may be open.

        Of a tree that is checked out already nobody reads the objects now: marks are enough.
        """
        store = self.store(user_id)
        store.create()
        trees, commits = named_in(snapshot)
        if is_checked_out and store.has_marks(trees=trees, commits=commits):
            return store
        if {*trees, *commits} <= store.marked(trees=trees, commits=commits):
            return store
        place = remote.parse(snapshot.remote) if snapshot.remote else None
        if snapshot.base:
            self._fetch_base(store, place, snapshot.base, credential)
        with store.lock(), Quarantine(store) as quarantine:
            if pack and pack.exists():
                _unpack(quarantine.git, pack, commits)
            try:
                self._check(quarantine.git, snapshot)
            except Problem:
                _drop_wrong_marks(store, snapshot)
                raise
            quarantine.keep()
            store.mark(trees=trees, commits=commits)
        return store

    def fetch_commit(self, user_id: int, place: Remote, commit: str, credential: Credential | None) -> None:
        """Make a commit of a remote available in the user's store, or raise a Problem."""
        self._fetch_base(self.store(user_id), place, commit, credential)

    def _fetch_base(
        self, store: Repository, place: Remote | None, base: str, credential: Credential | None
    ) -> None:
        """Make the base's objects available in the store."""
        if store.marked(commits=[base]):
            return
        if place is None:
            raise Problem("no_objects", f"commit {base[:12]} is not here, and no remote has it")
        mirror = self.mirror(place)
        if not mirror.marked(commits=[base]):
            with reach(place, self.settings, credential) as access:
                if credential:
                    with store.lock():
                        fetch.fetch(store, place, base, access)
                    return
                mirror.create()
                with mirror.lock():
                    fetch.fetch(mirror, place, base, access)
        store.add_alternate(mirror)

    def _check(self, git: Git, snapshot: Snapshot) -> None:
        bounds = Bounds(self.settings.max_tree_files, int(self.settings.max_tree_gib * GIB))
        trees, commits = named_in(snapshot)
        for what, kind, names in (("tree", "tree", trees), ("commit", "commit", commits)):
            for name in names:
                tree_check.check_whole(git, what, name)
                tree_check.check_kind(git, name, kind)
        for tree in trees:
            tree_check.check_size(git, tree, bounds)

    def at(self, path: Path) -> Repository:
        limit = int(self.settings.max_tree_gib * GIB)
        return Repository(Git(path, self.settings.prepare_timeout_s, self.say, max_file_bytes=limit))


def named_in(snapshot: Snapshot) -> tuple[list[str], list[str]]:
    """The trees and commits that have to be complete."""
    trees = [snapshot.tree, snapshot.committed] if snapshot.committed else [snapshot.tree]
    return list(dict.fromkeys(trees)), [snapshot.commit] if snapshot.commit else []


def _drop_wrong_marks(store: Repository, snapshot: Snapshot) -> None:
    """Remove marks of incomplete objects, such as after an admin deleted mirrors."""
    for kind, name in (
        ("trees", snapshot.committed),
        ("commits", snapshot.commit),
        ("commits", snapshot.base),
    ):
        if name and store.marked(**{kind: [name]}):
            try:
                tree_check.check_whole(store.git, kind, name)
            except Problem:
                store.unmark(**{kind: [name]})


def _unpack(git: Git, pack: Path, commits: list[str]) -> None:
    """Unpack a pack; one that is corrupt or has dangerous objects raises a Problem."""
    known = git.directory / "shallow"
    with tempfile.NamedTemporaryFile("w", prefix="pit-shallow-") as shallow:
        # Commits come without their history, and git must not look for it.
        shallow.write(
            (known.read_text() if known.exists() else "") + "".join(f"{each}\n" for each in commits)
        )
        shallow.flush()
        flaws = ",".join(f"{name}=ignore" for name in HARMLESS)
        try:
            git.run(
                "index-pack",
                "--stdin",
                "--fix-thin",
                f"--strict={flaws}",
                stdin=pack,
                env={"GIT_SHALLOW_FILE": shallow.name},
            )
        except GitFailed as error:
            raise Problem("bad_pack", f"the pack cannot be unpacked: {fetch.cause(error)}") from error
