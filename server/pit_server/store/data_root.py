"""The data root: the paths of everything the head stores in files."""

import time
from dataclasses import dataclass
from pathlib import Path

from pit_protocol import atomic_file
from pit_protocol.arrays.numbers import array_of, index_of, is_element

SHARED_MODE = 0o555  # read-only for everyone but the admin of the head's machine
PRIVATE_MODE = 0o700


@dataclass(frozen=True)
class DataRoot:
    """`shared/ groups/ home/ jobs/ logs/ cache/ trash/` below one directory."""

    root: Path

    def create(self) -> None:
        for name in ("groups", "home", "jobs", "logs", "cache", "trash"):
            (self.root / name).mkdir(mode=PRIVATE_MODE, parents=True, exist_ok=True)
        shared = self.root / "shared"
        if not shared.exists():
            shared.mkdir(mode=SHARED_MODE)

    def home(self, user: str) -> Path:
        return self.root / "home" / user

    def group(self, name: str) -> Path:
        return self.root / "groups" / name

    def make_group(self, name: str) -> None:
        """Create a directory for a new group; one that nobody knows goes to the trash."""
        directory = self.group(name)
        if directory.exists():
            atomic_file.move(directory, self.trash / f"groups-{name}-{time.time_ns()}")
        directory.mkdir(mode=PRIVATE_MODE)

    @property
    def clock(self) -> Path:
        """What the head knows about the machine's clock."""
        return self.root / "clock.json"

    @property
    def trash(self) -> Path:
        return self.root / "trash"

    @property
    def quarantine(self) -> Path:
        """What a restored database does not know; nothing reads it."""
        return self.root / "quarantine"

    def attempt(self, job: int, attempt: int) -> Path:
        """The directory of one attempt, so that a stale process cannot write into the next one's."""
        return self.job(job) / str(attempt)

    def job(self, job: int) -> Path:
        return self.root / _job_path(job)

    def array_tree(self, element: int) -> Path:
        """The tree that all elements of an array share."""
        return self.root / _array_path(array_of(element)) / "src"

    def logs(self, job: int) -> Path:
        if is_element(job):
            return self.logs(array_of(job)) / "elements" / str(index_of(job))
        return self.root / "logs" / str(job)

    def uploads(self) -> Path:
        return self.root / "cache" / "uploads"

    def upload(self, user_id: int, sha256: str) -> Path:
        return self.uploads() / str(user_id) / sha256

    def mirrors(self) -> Path:
        return self.root / "cache" / "mirrors"

    def mirror(self, key: str) -> Path:
        """The shared mirror of a remote, with only what can be fetched without credentials."""
        return self.mirrors() / f"{key}.git"

    def stores(self) -> Path:
        return self.root / "cache" / "stores"

    def store(self, user_id: int) -> Path:
        """A user's store: what they sent, and what was fetched with their credentials."""
        return self.stores() / f"{user_id}.git"

    def caches(self) -> Path:
        """What the head can make or fetch again."""
        return self.root / "cache"

    def large(self, user_id: int | None) -> Path:
        """The cache of Git LFS files; those fetched with a user's credentials are separate."""
        return self.large_files() / ("shared" if user_id is None else str(user_id))

    def large_files(self) -> Path:
        return self.root / "cache" / "lfs"


def relative_paths(job: int, attempt: int, user: str) -> dict[str, str]:
    """The directories in a process's environment, relative to the data root."""
    base = f"{_job_path(job)}/{attempt}"
    return {
        "JOB_DIR": base,
        "SRC_DIR": f"{_array_path(array_of(job))}/src" if is_element(job) else f"{base}/src",
        "KEEP_DIR": f"{base}/keep",
        "RESULT_FILE": f"{base}/result",
        "USER_DIR": f"home/{user}",
        "SHARED_DIR": "shared",
    }


def _job_path(job: int) -> str:
    """Elements are in the directory of their array, which has the tree that they share."""
    return f"{_array_path(array_of(job))}/{index_of(job)}" if is_element(job) else f"jobs/{job}"


def _array_path(array: int) -> str:
    """The directory of the only attempt of an array."""
    return f"jobs/{array}/1"
