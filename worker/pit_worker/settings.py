"""The worker's settings: from the command line, else `PIT_WORKER_<NAME>`, else `worker.toml`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pit_protocol import settings_file
from pit_protocol.hosts import is_loopback
from pit_protocol.messages.beat import Runtime
from pit_protocol.private_file import is_private
from pit_protocol.problem import Problem
from pit_worker.network_ranges import parse_allowed, parse_pools

PREFIX = "PIT_WORKER_"
REMOTE = "remote"  # as `data_root`: this node does not see the head's files
FILE_NAME = "worker.toml"
BOUNDS = {
    "image_cache_gib": (0, 1 << 22),
    "venv_cache_gib": (0, 1 << 22),
    "disk_reserve_mib": (0, 1 << 40),
    "disk_end_mib": (0, 1 << 40),
    "max_start_faults": (1, 1000),
}


class RunAs(StrEnum):
    """Whose account processes run as."""

    USER = "user"  # each as its user, if the worker is root
    WORKER = "worker"  # all as the worker


class SettingError(Exception):
    """Why the worker cannot start; the text is one sentence for a person."""


class NotNow(SettingError):
    """The same, but a later start may succeed."""


@dataclass(frozen=True)
class Settings:
    url: str  # of the head; plain http only to this machine
    token_file: Path  # holds the node's token
    spool: Path  # where the worker remembers its processes
    address: str = "127.0.0.1"  # where other nodes reach the processes of this one
    ca_file: str = ""  # certificates of which the head must show one; empty: what the system trusts
    search_path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # PATH of a process
    data_root: str = ""  # path of the head's files here; empty: the same; remote: they are copied
    runtime: Runtime = Runtime.PROCESS  # process or docker
    run_as: RunAs = RunAs.USER  # with `process`: user (if the worker is root), or worker
    overlay: str = ""  # a Docker network across nodes that containers may join
    network_pool: str = "10.213.0.0/16,172.30.0.0/16"  # addresses of private networks
    network_allow: str = ""  # local addresses that private networks may reach: 10.0.0.7:2049,…
    image_cache_gib: int = 100  # disk space for images that pit pulled; 0: no limit
    venv_dir: str = ""  # where Python environments of jobs are built; empty: `venvs` beside the spool
    venv_cache_gib: int = 50  # disk space for them; 0: no limit
    disk_reserve_mib: int = 2048  # with less free space, the node takes no new processes; 0: it does
    max_start_faults: int = 3  # jobs in a row that could not be started; then the node takes none for a while
    disk_end_mib: int = 512  # with less free space, the process that fills the disk is ended; 0: never
    cgroups: bool = True  # off: processes are not contained by cgroups
    pid_namespaces: bool = True  # off: without cgroups, supervisors alone contain processes
    boot_id: str = ""  # instead of the kernel's, to simulate a reboot
    log_level: str = "INFO"


def default_config() -> Path:
    """The directory of `worker.toml` where none is named."""
    if os.geteuid() == 0:
        return Path("/etc/pit")
    return _of_user("XDG_CONFIG_HOME", ".config")


def default_spool() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/pit/spool")
    return _of_user("XDG_STATE_HOME", ".local/state") / "spool"


def load(given: Mapping[str, str | None], environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the command line, the environment and the file, in this order; raises SettingError."""
    values = load_file(given.get("config"))
    options = {PREFIX + name.upper(): given[name] for name in _types() if given.get(name)}
    with _setting_errors():
        chosen = settings_file.read_environment(PREFIX, _types(), {**environ, **options})  # type: ignore[dict-item]
    values |= _absolute(chosen, Path())
    for name in ("url", "token_file", "spool"):
        if name not in values:
            option = f"--{name.replace('_', '-')}"
            raise SettingError(
                f"{option} (or {PREFIX}{name.upper()}) is missing; `pit-worker join` saves it for good"
            )
    settings = Settings(**values)
    _check(settings)
    return settings


def load_file(config: str | None) -> dict[str, Any]:
    """What `worker.toml` says; the file may be missing, unless its directory was named."""
    file = (Path(config) if config else default_config()).absolute() / FILE_NAME
    try:
        with _setting_errors():
            return _absolute(settings_file.read_file(file, _types()), file.parent)
    except (FileNotFoundError, NotADirectoryError):
        if config:
            raise SettingError(f"there is no {file}; `pit-worker join` writes it") from None
        return {}


def read_token(file: Path) -> str:
    """The node's token; raises SettingError where there is none, or where others may have read it."""
    if not is_private(file):
        raise SettingError(
            f"other accounts of this machine may open the token file {file}: `chmod 600 {file}`; "
            "if they may have read it, `pit add node:NAME --again` and `pit-worker join --force` replace it"
        )
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"the token file {file} cannot be read: {error}") from error
    if not is_token(token):
        raise SettingError(f"the token file {file} holds no token")
    return token


def is_token(text: str) -> bool:
    """Whether a text can be sent as a token."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def check_url(url: str) -> None:
    """Raise SettingError unless it can be a head's URL, to which a token may be sent."""
    try:
        parts = urlsplit(url)
        is_head = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_head = False
    if not is_head or parts.query or parts.fragment:
        raise SettingError(f"{url!r} is not a head's address; it looks like https://head.example.org:7478")
    if parts.username or parts.password:
        raise SettingError("the head's address must not hold a password; the token goes into --token-file")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise SettingError(f"plain http to {parts.hostname} would show the token to the network; use https")


def _of_user(variable: str, below_home: str) -> Path:
    chosen = os.environ.get(variable, "")
    return (Path(chosen) if chosen.startswith("/") else Path.home() / below_home) / "pit-worker"


def _types() -> dict[str, type]:
    return settings_file.list_types(Settings)


def _absolute(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same with an absolute `ca_file`, which is a text because it may be empty."""
    ca_file = values.get("ca_file")
    return {**values, "ca_file": str(folder.absolute() / ca_file)} if ca_file else values


def _check(settings: Settings) -> None:
    """Raise SettingError for a value that no worker can work with."""
    check_url(settings.url)
    with _setting_errors():
        settings_file.check_bounds(settings, BOUNDS)
    for name, parse in (("network_pool", parse_pools), ("network_allow", parse_allowed)):
        try:
            parse(getattr(settings, name))
        except ValueError as error:
            raise SettingError(f"{name}: {error}") from error
    if settings.venv_dir and not settings.venv_dir.startswith("/"):
        raise SettingError(f"venv_dir must begin with /, not {settings.venv_dir!r}")
    if settings.data_root and settings.data_root != REMOTE and not settings.data_root.startswith("/"):
        raise SettingError(f"data_root must be {REMOTE}, or begin with /, not {settings.data_root!r}")


@contextmanager
def _setting_errors() -> Iterator[None]:
    try:
        yield
    except Problem as problem:
        hint = f"; {problem.hint}" if problem.hint else ""
        raise SettingError(f"{problem.message}{hint}") from problem
