"""The data root: one place that knows where everything lies."""

import hashlib
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

    def attempt(self, job: int, attempt: int) -> Path:
        """The directory that an attempt works in; apart, so that a zombie cannot write into the next."""
        return self.root / "jobs" / str(job) / str(attempt)

    def logs(self, job: int) -> Path:
        return self.root / "logs" / str(job)

    def uploads(self, user_id: int) -> Path:
        return self.root / "cache" / "uploads" / str(user_id)

    def upload(self, user_id: int, sha256: str) -> Path:
        return self.uploads(user_id) / sha256

    def mirror(self, user_id: int, remote: str | None) -> Path:
        """Keyed by user and remote: what one may fetch must not serve another."""
        name = hashlib.sha256((remote or "").encode()).hexdigest()[:32]
        return self.root / "cache" / "mirrors" / str(user_id) / f"{name}.git"


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
