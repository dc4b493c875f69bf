"""Git LFS files: fetched from the cache or the remote, and put in the place of their pointers."""

import hashlib
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pit_protocol.problem import Problem
from pit_server import cancellation
from pit_server.cancellation import Cancelled
from pit_server.services.files.free_space import require_free_space
from pit_server.settings import Settings
from pit_server.store.data_root import DataRoot
from pit_server.store.git.lfs_pointers import Pointer
from pit_server.store.remotes.credential import Credential
from pit_server.store.remotes.lfs_client import LfsServer, path_in
from pit_server.store.remotes.reach import check_protocol
from pit_server.store.remotes.remote import Remote

GIB = 1 << 30
BLOCK = 1 << 20
LAST_USE = threading.Lock()  # guards the times of cached files
ASK_S = 20.0  # for a remote to list what it has, while a client waits


@dataclass(frozen=True)
class LargeFiles:
    """The large files that a user's job may use: public ones, and those fetched with their credentials."""

    data: DataRoot
    settings: Settings
    user_id: int
    store_id: int  # whose snapshot it is
    remote: Remote | None
    credential: Credential | None

    def get(self, pointer: Pointer) -> Path | None:
        """The path of a cached large file, if there is one."""
        for owner in (None, self.store_id, self.user_id):
            path = self._place(owner, pointer)
            with LAST_USE:
                if path.is_file() and path.stat().st_size == pointer.size:
                    os.utime(path)  # so that it is not deleted soon
                    return path
        return None

    def missing(self, pointers: Collection[Pointer]) -> list[Pointer]:
        """The files that are neither cached nor at the remote; a remote that does not answer has none."""
        wanted = [pointer for pointer in pointers if not self.get(pointer)]
        found = set[Pointer]()
        try:
            with cancellation.limited(ASK_S):
                found.update(self._at_remote(wanted))
        except (Problem, Cancelled):
            cancellation.check()
        return [pointer for pointer in wanted if pointer not in found]

    def fetch_all(self, pointers: Collection[Pointer]) -> None:
        """Fetch all of them into the cache, or raise a Problem."""
        total = sum(pointer.size for pointer in set(pointers))
        if total > self.settings.max_tree_gib * GIB:
            raise Problem(
                "tree_too_large",
                f"the tree's large files have more than {self.settings.max_tree_gib:g} GiB",
                "an admin can raise `max_tree_gib`",
            )
        wanted = [pointer for pointer in dict.fromkeys(pointers) if not self.get(pointer)]
        require_free_space(self.settings, total + sum(pointer.size for pointer in wanted))  # tree and cache
        if wanted and self.remote and self.remote.host:
            check_protocol(self.remote, self.settings)
            server = LfsServer(self.remote, self.settings, self.credential)
            owner = self.user_id if self.credential else None
            for pointer, link in server.links(wanted):
                server.download(pointer, link, self._place(owner, pointer))
        elif wanted and self.remote:
            self._copy_local(wanted)
        if left := [pointer for pointer in wanted if not self.get(pointer)]:
            raise Problem(
                "large_file_missing",
                f"large file {left[0].oid[:12]} is neither here nor at {self._name_of_remote()}",
                "`git lfs push` it, or send it with `pit run --bundle`",
            )

    def replace_pointers(self, found: Mapping[bytes, Pointer], tree: Path) -> None:
        """Replace the pointers in a newly written tree by their contents."""
        self.fetch_all(list(found.values()))
        for path, pointer in found.items():
            target = tree / os.fsdecode(path)
            source = self.get(pointer)
            if source is None:
                raise Problem("large_file_missing", f"large file {pointer.oid[:12]} is gone")
            mode = target.stat(follow_symlinks=False).st_mode
            target.unlink()
            copy_checked(source, target, pointer)
            target.chmod(mode & 0o777)

    def _name_of_remote(self) -> str:
        return self.remote.text if self.remote else "any remote"

    def _at_remote(self, wanted: list[Pointer]) -> Iterator[Pointer]:
        if not wanted or not self.remote:
            return
        check_protocol(self.remote, self.settings)
        if not self.remote.host:
            for pointer in wanted:
                if path_in(self.remote, pointer):
                    yield pointer
            return
        for pointer, _ in LfsServer(self.remote, self.settings, self.credential).links(wanted):
            yield pointer

    def _copy_local(self, wanted: list[Pointer]) -> None:
        assert self.remote is not None  # noqa: S101 - the caller looked
        check_protocol(self.remote, self.settings)
        for pointer in wanted:
            if path := path_in(self.remote, pointer):
                place = self._place(None, pointer)
                place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                partial = place.with_name(f"{place.name}.{threading.get_ident()}.part")
                copy_checked(path, partial, pointer)
                partial.replace(place)

    def _place(self, owner: int | None, pointer: Pointer) -> Path:
        return self.data.large(owner) / pointer.oid[:2] / pointer.oid[2:4] / pointer.oid


def copy_checked(source: Path, target: Path, pointer: Pointer) -> None:
    """Copy a large file; a Problem if it does not match the pointer, as after a disk error."""
    digest = hashlib.sha256()
    with source.open("rb") as reader, target.open("wb") as writer:
        while block := reader.read(BLOCK):
            cancellation.check()
            digest.update(block)
            writer.write(block)
    if digest.hexdigest() != pointer.oid:
        target.unlink()
        raise Problem(
            "hash_differs",
            f"large file {pointer.oid[:12]} is damaged",
            "an admin can delete it from `cache/lfs`, and it is fetched again",
        )
