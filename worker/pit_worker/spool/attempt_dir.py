"""The data of one attempt on a node without the head's files: a directory, and every file name in it."""

import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pit_protocol.arrays.numbers import job_name, parse_job_name
from pit_protocol.atomic_file import write_atomic
from pit_protocol.messages.beat import Account, ProcessSpec
from pit_protocol.system import tree_delete
from pit_protocol.system.procfs import read_stat
from pit_protocol.transport import rclone
from pit_worker.spool.entry import Entry

ATTEMPTS = "attempts"  # in the spool
JOB, OWN, SHARED = "job", "own", "shared"


@dataclass(frozen=True)
class AttemptDir:
    path: Path

    @classmethod
    def of(cls, entry: Entry) -> "AttemptDir | None":
        """Where an entry's data is; None if the node uses the head's files directly."""
        root = Path(entry.intent.data_root)
        return cls(root) if root.parent == entry.path.parent / ATTEMPTS else None

    @classmethod
    def named(cls, spool: Path, job: int, attempt: int) -> "AttemptDir":
        return cls(spool / ATTEMPTS / f"{job_name(job)}-{attempt}")

    @property
    def numbers(self) -> tuple[int, int]:
        """The numbers of the job and the attempt."""
        job, _, attempt = self.path.name.partition("-")
        return parse_job_name(job) or 0, int(attempt)

    @cached_property
    def tree(self) -> Path:
        """The job's directory; it exists only if it is complete."""
        return self.path / JOB

    @cached_property
    def coming(self) -> Path:
        return self.path / "job.part"

    @cached_property
    def manifest(self) -> Path:
        return self.path / "manifest"

    @cached_property
    def mounts(self) -> tuple[Path, Path]:
        """Mount points of the data of the user and their groups, and of shared data."""
        return self.path / OWN, self.path / SHARED

    @cached_property
    def cache(self) -> Path:
        return self.path / "cache"

    @cached_property
    def token(self) -> Path:
        return self.path / "token"

    @cached_property
    def config(self) -> Path:
        """The configuration of rclone, which has secrets."""
        return self.path / "rclone.conf"

    @cached_property
    def log(self) -> Path:
        return self.path / "rclone.log"

    @cached_property
    def kept(self) -> Path:
        """Exists, with the reason and the time, if the data is kept after the processes have ended."""
        return self.path / "kept"

    @cached_property
    def _given_up(self) -> Path:
        return self.path / "given-up"

    def make(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def save_token(self, text: str) -> None:
        write_atomic(self.token, text)

    def guard(self) -> tuple[int, int] | None:
        """Process id and start time of the daemon of the mounts, if it runs."""
        known = self._read("guard")
        with suppress(KeyError, TypeError):
            stat = read_stat(int(known["pid"]))
            if stat and not stat.has_ended and stat.start_time == known["start_time"]:
                return stat.pid, stat.start_time
        return None

    def controls(self) -> list[rclone.Control]:
        """Where to ask the mounts for their progress; none before they exist."""
        return [
            rclone.Control(one["port"], one["password"]) for one in self._read("guard").get("controls", ())
        ]

    def save_guard(self, pid: int, controls: list[rclone.Control]) -> None:
        stat = read_stat(pid)
        told = [{"port": control.port, "password": control.password} for control in controls]
        start_time = stat.start_time if stat else 0
        write_atomic(
            self.path / "guard", json.dumps({"pid": pid, "start_time": start_time, "controls": told})
        )

    def lost(self) -> str:
        """Why the mounts are gone, if they are."""
        with suppress(OSError):
            return (self.path / "lost").read_text()
        return ""

    def save_lost(self, why: str) -> None:
        write_atomic(self.path / "lost", why)

    def forgive(self) -> None:
        """Let the mounts be tried again."""
        (self.path / "lost").unlink(missing_ok=True)

    def unsent(self) -> list[str]:
        """Files in the cache that are not on the head yet, by rclone's own records."""
        return [
            str(meta.relative_to(self.cache))
            for meta in self.cache.glob("*/vfsMeta/**/*")
            if meta.is_file() and self._is_dirty(meta)
        ]

    def account(self) -> Account | None:
        """The account that owns the files in the mounts."""
        told = self._read("mount.json")
        return Account(told["uid"], told["gid"]) if told.get("uid") is not None else None

    def keep(self, why: str) -> None:
        """Keep it after its processes have ended, because not all of it is on the head."""
        if not self.kept.exists():
            write_atomic(self.kept, why)

    def give_up(self) -> None:
        """Stop waiting for a head that does not accept it."""
        self._given_up.touch()

    @property
    def is_given_up(self) -> bool:
        return self._given_up.exists()

    def clear(self) -> None:
        """Delete all of it; raises OSError while something is mounted there, which must not be deleted."""
        for mount in self.mounts:
            if rclone.is_mounted(mount):
                raise OSError(f"{mount} is still mounted")
            with suppress(FileNotFoundError):
                mount.rmdir()
        tree_delete.delete(self.coming)
        with suppress(FileNotFoundError):
            self.tree.rename(self.coming)  # a half-deleted tree would look as if the job had deleted the rest
        for part in (self.coming, self.cache):
            tree_delete.delete(part)
        for file in self.path.iterdir() if self.path.is_dir() else ():
            file.unlink()
        with suppress(FileNotFoundError):
            self.path.rmdir()

    def _is_dirty(self, meta: Path) -> bool:
        try:
            return json.loads(meta.read_bytes())["Dirty"] is not False
        except FileNotFoundError:
            return False
        except (OSError, ValueError, LookupError, TypeError):
            return True  # half written: better send it twice than lose it

    def _read(self, name: str) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            found = json.loads((self.path / name).read_text())
            return found if isinstance(found, dict) else {}
        return {}


def localise(spec: ProcessSpec) -> ProcessSpec:
    """The same spec with paths below the directory of its attempt."""
    job = spec.paths.get("JOB_DIR", "")
    paths = {name: _local(path, job) for name, path in spec.paths.items()}
    # An element of an array gets the tree of its array with its own directory.
    return replace(spec, paths=paths | ({"SRC_DIR": f"{JOB}/src"} if "SRC_DIR" in paths else {}))


def _local(path: str, job: str) -> str:
    if path == job or path.startswith(f"{job}/"):
        return JOB + path[len(job) :]
    first, _, rest = path.partition("/")
    if first == "home":
        return f"{OWN}/home"
    return f"{OWN}/groups/{rest}" if first == "groups" else path
