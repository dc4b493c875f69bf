"""Where a snapshot's objects come from: the user's store, a mirror, the remote, or an uploaded pack."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.problem import Problem
from pit_protocol.submission import Snapshot
from pit_server.settings import Settings
from pit_server.store import checking, fetching, remote
from pit_server.store.checking import Bounds
from pit_server.store.credential import Credential
from pit_server.store.git import HARMLESS, Git, GitFailed, say_nothing
from pit_server.store.paths import DataRoot
from pit_server.store.reaching import reach
from pit_server.store.remote import Remote
from pit_server.store.repository import Intake, Repository

GIB = 1 << 30


@dataclass(frozen=True)
class Sources:
    """The repositories of a head, as one who asks or prepares sees them."""

    data: DataRoot
    settings: Settings
    say: Callable[[str], None] = say_nothing

    def store(self, user_id: int) -> Repository:
        return self.at(self.data.store(user_id))

    def mirror(self, place: Remote) -> Repository:
        return self.at(self.data.mirror(place.key))

    def gather(
        self, user_id: int, snapshot: Snapshot, pack: Path | None, credential: Credential | None
    ) -> Repository:
        """The store with all of the snapshot in it, or a Problem; no session may be open."""
        store = self.store(user_id)
        store.create()
        trees, commits = named_in(snapshot)
        if {*trees, *commits} <= store.marked(trees=trees, commits=commits):
            return store
        place = remote.parse(snapshot.remote) if snapshot.remote else None
        if snapshot.base:
            self._bring_base(store, place, snapshot.base, credential)
        with store.lock(), Intake(store) as intake:
            if pack and pack.exists():
                _unpack(intake.git, pack, commits)
            try:
                self._check(intake.git, snapshot)
            except Problem:
                _doubt(store, snapshot)
                raise
            intake.keep()
            store.mark(trees=trees, commits=commits)
        return store

    def _bring_base(
        self, store: Repository, place: Remote | None, base: str, credential: Credential | None
    ) -> None:
        """See to it that the base's objects can be seen from the store."""
        if store.marked(commits=[base]):
            return
        if place is None:
            raise Problem("no_objects", f"commit {base[:12]} is not here, and no remote has it")
        mirror = self.mirror(place)
        if not mirror.marked(commits=[base]):
            with reach(place, self.settings, credential) as access:
                if credential:
                    with store.lock():
                        fetching.fetch(store, place, base, access)
                    return
                mirror.create()
                with mirror.lock():
                    fetching.fetch(mirror, place, base, access)
        store.borrow(mirror)

    def _check(self, git: Git, snapshot: Snapshot) -> None:
        bounds = Bounds(self.settings.max_tree_files, int(self.settings.max_tree_gib * GIB))
        trees, commits = named_in(snapshot)
        for what, kind, names in (("tree", "tree", trees), ("commit", "commit", commits)):
            for name in names:
                checking.check_whole(git, what, name)
                checking.check_kind(git, name, kind)
        for tree in trees:
            checking.check_size(git, tree, bounds)

    def at(self, path: Path) -> Repository:
        limit = int(self.settings.max_tree_gib * GIB)
        return Repository(Git(path, self.settings.prepare_timeout_s, self.say, max_file_bytes=limit))


def named_in(snapshot: Snapshot) -> tuple[list[str], list[str]]:
    """The trees and commits that have to be here whole."""
    trees = [snapshot.tree, snapshot.committed] if snapshot.committed else [snapshot.tree]
    return list(dict.fromkeys(trees)), [snapshot.commit] if snapshot.commit else []


def _doubt(store: Repository, snapshot: Snapshot) -> None:
    """Forget marks that turn out to be wrong, such as after an admin deleted mirrors."""
    for kind, name in (
        ("trees", snapshot.committed),
        ("commits", snapshot.commit),
        ("commits", snapshot.base),
    ):
        if name and store.marked(**{kind: [name]}):
            try:
                checking.check_whole(store.git, kind, name)
            except Problem:
                store.unmark(**{kind: [name]})


def _unpack(git: Git, pack: Path, commits: list[str]) -> None:
    """Take in the objects of a pack; one that is broken, or has what git should not get, is refused."""
    known = git.directory / "shallow"
    with tempfile.NamedTemporaryFile("w", prefix="pit-shallow-") as shallow:
        # Commits come without their history: git must not look for it.
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
            raise Problem("bad_pack", f"the pack cannot be taken in: {fetching.cause(error)}") from error
