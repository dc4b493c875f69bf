"""The head's settings: `head.toml` in its home, overruled by `PIT_HEAD_<NAME>`."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from pit_protocol.durations import parse_duration
from pit_protocol.settings_file import (
    bad_setting,
    check_bounds,
    check_choices,
    list_types,
    read_environment,
    read_file,
)

PREFIX = "PIT_HEAD_"
FILE_NAME = "head.toml"
MODES = ("pack", "spread", "sequential", "random")  # of placement
PACK = MODES[0]
BEATS_IN_LEASE = 4  # all but one of them may get lost
CHOICES = {
    "tls": ("auto", "on", "off"),
    "registration": ("auto", "open", "approve", "closed"),
    "default_runtime": ("any", "process", "docker"),
    "pull": ("missing", "always", "never"),
    "placement": MODES,
    "log_format": ("text", "json"),
    "log_requests": ("on", "off"),
}
BOUNDS = {
    "bcrypt_cost": (4, 20),
    "logins_per_minute": (1, 1_000_000),
    "threads": (4, 10_000),
    "user_held": (1, 1_000),
    "user_sessions": (0, 1_000),
    "user_transfers": (1, 1_000),
    "user_requests_per_s": (1, 1_000_000),
    "user_waiting_jobs": (1, 1_000_000_000),
    "max_dependencies": (0, 100_000),
    "user_running_jobs": (0, 1_000_000_000),
    "user_gpus": (0, 1_000_000_000),
    "user_job_gpus": (0, 1_000_000_000),
    "user_gpu_hours": (0, 1_000_000_000),
    "request_timeout_s": (1.0, 86_400.0),
    "prepare_parallel": (1, 1_000),
    "proxies": (0, 10),
    "shm_mib": (1, 1 << 30),
    "max_pids": (1, 1 << 22),
    "min_free_percent": (0.0, 99.0),
    "end_free_percent": (0.0, 99.0),
    "reserve_mib": (0, 1 << 20),
    "job_days": (0, 100_000),
    "trash_entries": (0, 1 << 40),
    "history_jobs": (0, 1 << 40),
    "user_jobs_gib": (0, 1 << 22),
    "audit_days": (0, 100_000),
    "audit_rows": (0, 1 << 40),
    "trash_days": (0, 100_000),
    "clock_grace_days": (0.0, 100_000.0),
    "max_upload_mib": (1, 1 << 40),
    "max_tree_files": (1, 1 << 40),
    "snapshot_days": (0, 1_000_000),
    "large_file_days": (0, 1_000_000),
    "tree_cache_gib": (0, 1 << 22),
    "max_disk_gib": (0, 1 << 22),
    "max_files": (0, 1 << 40),
    "max_output_mib": (0, 1 << 30),
    "pass_ms": (1, 60_000),
    "reservations": (0, 10_000),
    "half_life_days": (0.01, 10_000.0),
    "planned_hours": (0.01, 100_000.0),
    "default_cpu": (0.0, 10_000.0),
    "default_mem": (0.0, 100_000.0),
    "max_requeues": (0, 1_000),
    "samples_per_job": (8, 1_000_000),
    "cordon_failures": (0, 1_000),
    "cordon_users": (1, 1_000),
    "max_retries": (0, 1_000),
    "retry_delay_s": (0.0, 3_600.0),
    "max_array": (1, 100_000),
    "max_result_kib": (0, 1024),
}


@dataclass(frozen=True)
class Settings:
    home: Path  # database, data and settings file of this head
    database_url: str = ""  # empty: SQLite in the home
    data_root: str = ""  # empty: `data` in the home
    bind: str = "127.0.0.1:7478"
    url: str = ""  # for clients and workers; empty: from `bind` and the machine's name
    hosts: str = ""  # more names and addresses that a request's Host may have: `pit.example.org,192.0.2.7`
    tls: str = "auto"  # auto: unless it listens on loopback only; off: a proxy in front does it
    certificate: str = ""  # certificate file; empty: the head makes its own
    certificate_key: str = ""  # file with its key
    registration: str = "auto"  # open, approve, closed; auto: approve, but closed under `pit up`
    bcrypt_cost: int = 12
    logins_per_minute: int = 10  # failed ones, per address; ten times as many per account
    join_code_s: float = 3600.0  # how long a node may take to join
    proxies: int = 0  # in front of the head: how many are trusted to name the client's address
    threads: int = 16  # short requests served at a time; held ones, transfers and logins have their own
    user_held: int = 50  # held requests (followed logs, watched lists) of one user at a time
    user_sessions: int = 50  # of exec, shell and forward of one user at a time; 0: nobody may
    user_transfers: int = 16  # file transfers of one user at a time
    user_requests_per_s: int = 1000
    user_waiting_jobs: int = 20_000  # that have not started yet; an array counts as one
    user_running_jobs: int = 0  # at once; 0: no limit, as for the next three
    user_gpus: int = 0  # of one user at once
    user_job_gpus: int = 0  # of one job
    user_gpu_hours: int = 0  # of one user in seven days
    max_dependencies: int = 1000  # jobs that one job may wait for
    max_array: int = 100_000  # elements of an array
    max_result_kib: int = 16  # of a result file that become names and values
    request_timeout_s: float = 300.0  # a request that computes without sending anything ends after that
    git_protocols: str = "https,ssh"  # what the head fetches from
    prepare_parallel: int = 2  # jobs of one user; of all users together at most twice as many
    prepare_timeout_s: float = 600.0  # for the whole preparation of a job
    git_local_hosts: str = ""  # hosts on the head's own machine that it fetches from; `*`: all
    max_upload_mib: int = 10240
    max_tree_files: int = 1_000_000
    max_tree_gib: float = 100.0
    snapshot_days: float = 0.0  # how long after its end a job's code is kept; 0: for ever
    large_file_days: float = 30.0  # how long large files are kept that no stored code needs; 0: for ever
    tree_cache_gib: float = 1.0  # for clean checkouts that later jobs are copied from; 0: none
    grace_s: float = 10.0  # between SIGTERM and SIGKILL
    hold_s: float = 5.0  # how long a quiet beat is held
    offline_after_s: float = 30.0  # a node silent for longer is offline
    max_requeues: int = 3  # of a job that nodes could not start; then it fails
    retry_lost_after_s: float = 1200.0  # the same for jobs with --retry, where lost_after_s is 0
    retry_delay_s: float = 10.0  # before a job is tried again; twice as long each time, up to an hour
    max_retries: int = 20  # that a job may ask for
    samples_per_job: int = 2000  # rows of what its processes used; older ones are joined
    cordon_failures: int = 5  # jobs that fail in a row on a node, before it is drained; 0: it is not
    cordon_users: int = 3  # whose these jobs are, at least
    lost_after_s: float = 0.0  # without contact for longer, a node's processes end by themselves; 0: never
    token_days: int = 365
    default_runtime: str = "any"  # of jobs that name none: any, process, docker
    image: str = "debian:stable"  # default container image
    registries: str = "*"  # where images may come from: `registry.example.org,docker.io/library`
    pull: str = "missing"  # when a node fetches an image: missing, always, never
    shm_mib: int = 1024  # of a container's /dev/shm
    max_pids: int = 4096  # processes and threads in a container
    placement: str = PACK  # of processes on nodes: pack, spread, sequential, random
    reservations: int = 50  # for waiting jobs that do not fit; jobs behind may not delay them
    pass_ms: int = 200  # how long a pass of the scheduler may take; the next one goes on where it ended
    half_life_days: float = 7.0  # after which past use counts half for fair share
    share_weights: str = "gpu=1,cpu=0.05,mem=0.01"  # of a GPU, core and GiB; a kind by name: `a100=2`
    default_time: str = ""  # time limit of jobs that name none, such as 24h; empty: none
    max_time: str = ""  # longest time limit of a job; empty: none
    planned_hours: float = 24.0  # that a job is planned to run, if nothing is known of jobs like it
    default_cpu: float = 0.0  # cores booked for a process whose request names none; 0: none
    default_mem: float = 0.0  # the same for GiB of memory
    max_disk_gib: int = 0  # disk space of a process with its job's directory; 0: no limit
    max_output_mib: int = 1024  # kept of a job's output: the beginning and the end; 0: all
    max_files: int = 5_000_000  # in a home or the directory of a group; 0: no limit
    min_free_percent: float = 2.0  # of the disk; with less, uploads and submissions are refused
    end_free_percent: float = 1.0  # of the disk; with less, the job that fills it is ended; 0: never
    reserve_mib: int = 64  # reserved on disk, to keep working when it is full; 0: nothing
    job_days: int = 0  # after which an ended job's directory goes to the trash; 0: never
    trash_days: int = 30  # after which what is in the trash is deleted; 0: never
    trash_entries: int = 10_000  # of a home or a group in the trash; of more, the oldest are deleted; 0: all
    user_jobs_gib: int = 0  # that the directories of a user's jobs may use together; 0: no limit
    history_jobs: int = 100_000  # ended jobs of a user; of more, the oldest go to the trash; 0: all
    audit_days: int = 730  # after which rows of the audit are deleted; 0: never
    audit_rows: int = 10_000_000  # of more, the oldest are deleted; 0: none
    smtp_url: str = ""  # mail server: `smtp://host:25`, `smtps://user:password@host`; empty: no mail is sent
    mail_from: str = "pit@localhost"  # sender of mails
    telegram_url: str = "https://api.telegram.org"  # where bots live
    log_format: str = "text"  # of the head's own log: text, json
    log_requests: str = "off"  # on: a line in the log for every request
    clock_grace_days: float = 3.0  # after a jump of the clock, until ages follow it; 0: when an admin says so

    @property
    def shortest_lease_s(self) -> float:
        """Of the processes that have one."""
        return min(filter(None, (self.lost_after_s, self.retry_lost_after_s)))

    def lease_s(self, *, has_retry: bool) -> float | None:
        """After how long without contact the processes of a job are lost; None: never."""
        return self.lost_after_s or (self.retry_lost_after_s if has_retry else None)

    @property
    def sqlalchemy_url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'pit.db'}"

    @property
    def root(self) -> Path:
        return Path(self.data_root) if self.data_root else self.home / "data"

    @property
    def protocols(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.git_protocols.split(",") if part.strip())

    @property
    def extra_hosts(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.hosts.split(",") if part.strip())

    def seconds(self, name: str) -> float | None:
        """A setting that is a length of time; None if it is empty."""
        text = str(getattr(self, name))
        return parse_duration(text) if text else None

    @property
    def local_hosts(self) -> tuple[str, ...]:
        return tuple(part.strip().lower() for part in self.git_local_hosts.split(",") if part.strip())


def load(home: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of the head in `home`; a wrong name or value raises a Problem."""
    types = list_types(Settings, without=("home",))
    values: dict[str, Any] = {}
    with suppress(FileNotFoundError):
        values.update(read_file(home / FILE_NAME, types))
    values.update(read_environment(PREFIX, types, environ))
    settings = Settings(home=home, **values)
    _check(settings)
    return settings


def parse_weights(text: str) -> dict[str, float]:
    """What a second of one GPU, core or GiB counts for fair share, by kind."""
    weights = {}
    for part in text.split(","):
        kind, _, number = part.partition("=")
        try:
            weights[kind.strip().lower()] = float(number)
        except ValueError:
            raise bad_setting(f"share_weights must be like gpu=1,cpu=0.05, not {text!r}") from None
        if not 0 <= weights[kind.strip().lower()] < inf:
            raise bad_setting(f"a weight in share_weights must be 0 or more, not {number}")
    return weights


def for_one_user(settings: Settings) -> Settings:
    """The settings of the head that `pit up` starts: registration is closed unless the user opens it."""
    if settings.registration != "auto":
        return settings
    # Jobs run as the user there, and every account of the machine can reach the head.
    return replace(settings, registration="closed")


def _check_times(settings: Settings) -> None:
    for name in ("default_time", "max_time"):
        try:
            settings.seconds(name)
        except ValueError as error:
            raise bad_setting(f"{name}: {error}") from None
    if (settings.seconds("default_time") or 0) > (settings.seconds("max_time") or inf):
        most = f"must not be longer than max_time, {settings.max_time}"
        raise bad_setting(f"default_time {most}, and is {settings.default_time}")


def _check(settings: Settings) -> None:
    """Raise a Problem for a value that no head can work with, before it starts."""
    check_choices(settings, CHOICES)
    check_bounds(settings, BOUNDS)
    parse_weights(settings.share_weights)
    _check_times(settings)
    shortest_s = BEATS_IN_LEASE * settings.hold_s
    if settings.retry_lost_after_s < shortest_s:
        wanted = f"at least {BEATS_IN_LEASE} times hold_s, {shortest_s:g}"
        raise bad_setting(f"retry_lost_after_s must be {wanted}, not {settings.retry_lost_after_s:g}")
    if 0 != settings.lost_after_s < shortest_s:
        wanted = f"0 (never) or at least {BEATS_IN_LEASE} times hold_s, {shortest_s:g}"
        raise bad_setting(f"lost_after_s must be {wanted}, not {settings.lost_after_s:g}")
