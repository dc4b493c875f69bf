"""The data root: one place that knows where everything lies."""

import time
from dataclasses import dataclass
from pathlib import Path

SHARED_MODE = 0o555  # read-only for everyone but who administers the head's machine
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
        """A fresh directory for a new group; what an older one of that name left goes to the trash."""
        self.discard(self.group(name))
        self.group(name).mkdir(mode=PRIVATE_MODE)

    def discard(self, directory: Path) -> None:
        """Move a directory to the trash, if it is there; it is not deleted."""
        if directory.exists():
            place = self.root / "trash" / f"{directory.parent.name}-{directory.name}-{time.time_ns()}"
            directory.rename(place)

    @property
    def trash(self) -> Path:
        return self.root / "trash"

    def attempt(self, job: int, attempt: int) -> Path:
        """The directory that an attempt works in; apart, so that a zombie cannot write into the next."""
        return self.job(job) / str(attempt)

    def job(self, job: int) -> Path:
        return self.root / "jobs" / str(job)

    def logs(self, job: int) -> Path:
        return self.root / "logs" / str(job)

    def uploads(self) -> Path:
        return self.root / "cache" / "uploads"

    def upload(self, user_id: int, sha256: str) -> Path:
        return self.uploads() / str(user_id) / sha256

    def mirrors(self) -> Path:
        return self.root / "cache" / "mirrors"

    def mirror(self, key: str) -> Path:
        """Of one remote, shared: holds only what needs nobody's credentials."""
        return self.mirrors() / f"{key}.git"

    def stores(self) -> Path:
        return self.root / "cache" / "stores"

    def store(self, user_id: int) -> Path:
        """Of one user: what he sent, and what was fetched with his credentials."""
        return self.stores() / f"{user_id}.git"

    def large(self, user_id: int | None) -> Path:
        """Large files of Git LFS; those that credentials were needed for are apart."""
        return self.large_files() / ("shared" if user_id is None else str(user_id))

    def large_files(self) -> Path:
        return self.root / "cache" / "lfs"


def relative_paths(job: int, attempt: int, user: str) -> dict[str, str]:
    """The directories a process is told about, below the data root wherever a node has it."""
    base = f"jobs/{job}/{attempt}"
    return {
        "JOB_DIR": base,
        "SRC_DIR": f"{base}/src",
        "KEEP_DIR": f"{base}/keep",
        "RESULT_FILE": f"{base}/result",
        "USER_DIR": f"home/{user}",
        "SHARED_DIR": "shared",
    }
