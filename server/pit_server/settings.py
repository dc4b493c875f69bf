"""What an admin can set: `head.toml` in the head's home, overruled by `PIT_HEAD_<NAME>`."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pit_protocol.problem import Problem

PREFIX = "PIT_HEAD_"
FILE_NAME = "head.toml"
BEATS_IN_LEASE = 4  # of which all but one may be lost on the way
CHOICES = {
    "tls": ("auto", "on", "off"),
    "registration": ("auto", "open", "approve", "closed"),
    "pull": ("missing", "always", "never"),
}
BOUNDS = {
    "bcrypt_cost": (4, 20),
    "logins_per_minute": (1, 1_000_000),
    "threads": (4, 10_000),
    "prepare_parallel": (1, 1_000),
    "proxies": (0, 10),
    "shm_mib": (1, 1 << 30),
    "max_pids": (1, 1 << 22),
    "min_free_percent": (0.0, 99.0),
    "reserve_mib": (0, 1 << 20),
    "job_days": (0, 100_000),
    "trash_days": (0, 100_000),
    "max_upload_mib": (1, 1 << 40),
    "max_tree_files": (1, 1 << 40),
    "snapshot_days": (0, 1_000_000),
    "large_file_days": (0, 1_000_000),
    "max_disk_gib": (0, 1 << 22),
}


@dataclass(frozen=True)
class Settings:
    home: Path  # database, data and settings file of this head
    database_url: str = ""  # empty: SQLite in the home
    data_root: str = ""  # empty: `data` in the home
    bind: str = "127.0.0.1:7478"
    url: str = ""  # by which clients and workers reach this head; empty: from `bind` and the machine's name
    tls: str = "auto"  # auto: unless it listens on loopback alone; off: a proxy in front does it
    certificate: str = ""  # file with an own certificate; empty: one that the head makes
    certificate_key: str = ""  # file with its key
    registration: str = "auto"  # open, approve, closed; auto: approve unless it listens on loopback alone
    bcrypt_cost: int = 12
    logins_per_minute: int = 10  # bad ones, for each account and each address
    join_code_s: float = 3600.0  # how long a node may take to join
    proxies: int = 0  # in front of the head: how many of them are believed about whom they speak for
    threads: int = 128  # each held beat, log or status request occupies one
    git_protocols: str = "https,ssh"  # what the head fetches from
    prepare_parallel: int = 2
    prepare_timeout_s: float = 600.0
    git_local_hosts: str = ""  # hosts on the head's own machine that it fetches from; `*`: all
    max_upload_mib: int = 10240
    max_tree_files: int = 1_000_000
    max_tree_gib: float = 100.0
    snapshot_days: float = 0.0  # how long after its end a job's code is kept; 0: for ever
    large_file_days: float = 30.0  # how long large files stay that no kept code needs; 0: for ever
    grace_s: float = 10.0  # between SIGTERM and SIGKILL
    hold_s: float = 5.0  # how long a quiet beat is held
    offline_after_s: float = 30.0  # a node silent for longer is offline
    lost_after_s: float = 0.0  # without word for longer, the processes of a node end by themselves; 0: never
    token_days: int = 365
    image: str = "debian:stable"  # what containers run in where a job names none
    registries: str = "*"  # where images may come from: `registry.example.org,docker.io/library`
    pull: str = "missing"  # when a node fetches an image: missing, always, never
    shm_mib: int = 1024  # of a container's /dev/shm
    max_pids: int = 4096  # processes and threads in a container
    max_disk_gib: int = 0  # that a process may fill on disk, with its job's directory; 0: no limit
    min_free_percent: float = 2.0  # of the disk; with less, uploads and submissions are refused
    reserve_mib: int = 64  # laid by on disk, to go on with when it is full; 0: nothing
    job_days: int = 0  # after which an ended job's directory goes to the trash; 0: never
    trash_days: int = 30  # after which what is in the trash is deleted; 0: never

    @property
    def books(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'pit.db'}"

    @property
    def root(self) -> Path:
        return Path(self.data_root) if self.data_root else self.home / "data"

    @property
    def protocols(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.git_protocols.split(",") if part.strip())

    @property
    def local_hosts(self) -> tuple[str, ...]:
        return tuple(part.strip().lower() for part in self.git_local_hosts.split(",") if part.strip())


def load(home: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of the head that lives in `home`; a wrong name or value raises a Problem."""
    values: dict[str, Any] = {}
    file = home / FILE_NAME
    if file.exists():
        values.update(_from_file(file))
    for name in _names():
        if PREFIX + name.upper() in environ:
            values[name] = _convert(name, environ[PREFIX + name.upper()], PREFIX + name.upper())
    settings = Settings(home=home, **values)
    _check(settings)
    return settings


def _check(settings: Settings) -> None:
    """Raise a Problem for a value that no head can work with, before one is started."""
    for name, choices in CHOICES.items():
        if getattr(settings, name) not in choices:
            value = getattr(settings, name)
            raise Problem("bad_settings", f"{name} must be one of {', '.join(choices)}, not {value!r}")
    for name, (least, most) in BOUNDS.items():
        value = getattr(settings, name)
        if not least <= value <= most:
            raise Problem("bad_settings", f"{name} must be from {least} to {most}, not {value}")
    shortest_s = BEATS_IN_LEASE * settings.hold_s
    if 0 != settings.lost_after_s < shortest_s:
        wanted = f"0 (never) or at least {BEATS_IN_LEASE} times hold_s, {shortest_s:g}"
        raise Problem("bad_settings", f"lost_after_s must be {wanted}, not {settings.lost_after_s:g}")


def _names() -> dict[str, type]:
    return {field.name: type(field.default) for field in fields(Settings) if field.name != "home"}


def _from_file(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Problem("bad_settings", f"{file} is no TOML: {error}") from error
    unknown = sorted(set(table) - set(_names()))
    if unknown:
        raise Problem(
            "bad_settings",
            f"{file} has no setting {unknown[0]!r}",
            f"known are: {', '.join(sorted(_names()))}",
        )
    return {name: _convert(name, value, f"{name} in {file}") for name, value in table.items()}


def _convert(name: str, value: Any, where: str) -> Any:
    kind = _names()[name]
    try:
        # A text from the environment is read; a value from the file has its kind already.
        if isinstance(value, str) or type(value) is kind or (kind is float and type(value) is int):
            return kind(value)
    except ValueError:
        pass
    raise Problem("bad_settings", f"{where} must be {kind.__name__}, not {value!r}")
