"""What a worker is told: on the command line, else by `PIT_WORKER_<NAME>`, else in `worker.toml`."""

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pit_protocol.beat import Runtime
from pit_worker.firewall import parse_places
from pit_worker.subnets import parse_pools

PREFIX = "PIT_WORKER_"
REMOTE = "remote"  # as `data_root`: this node does not see the head's files
FILE_NAME = "worker.toml"
WORDS = {
    "yes": True,
    "on": True,
    "true": True,
    "1": True,
    "no": False,
    "off": False,
    "false": False,
    "0": False,
}


class SettingError(Exception):
    """What keeps the worker from its work; the text is one sentence for a person."""


@dataclass(frozen=True)
class Settings:
    url: str  # of the head; plain http only to this machine
    token_file: Path  # holds the node's token
    spool: Path  # where the worker remembers its processes
    address: str = "127.0.0.1"  # where other nodes reach the processes of this one
    ca_file: str = ""  # certificates one of which the head must show; empty: what the system trusts
    search_path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # PATH of a process
    data_root: str = ""  # where the head's files are here; empty: on the same path; remote: get them over it
    runtime: Runtime = Runtime.PROCESS  # what processes are run by: process, or docker
    overlay: str = ""  # a Docker network across nodes that containers may join
    network_pool: str = "10.213.0.0/16,172.30.0.0/16"  # from which private networks get their addresses
    network_allow: str = ""  # what private networks may reach though it is this node: 10.0.0.7:2049,…
    image_cache_gib: int = 100  # what images that pit pulled may take; 0: no limit
    disk_reserve_mib: int = 2048  # with less free space, the node takes no new processes; 0: it does
    cgroups: bool = True  # off: a process's tree is found by its environment and session
    boot_id: str = ""  # instead of the kernel's, to play a reboot
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
    """Settings from the command line's words, the environment and the file; raises SettingError."""
    values = load_file(given.get("config"))
    for field in fields(Settings):
        variable = PREFIX + field.name.upper()
        text = given.get(field.name) or environ.get(variable)
        if text is not None:
            values[field.name] = _convert(field.name, text, variable)
    for name in ("url", "token_file", "spool"):
        if name not in values:
            option = f"--{name.replace('_', '-')}"
            raise SettingError(
                f"{option} (or {PREFIX}{name.upper()}) is missing; `pit-worker join` writes it down for good"
            )
    settings = Settings(**values)
    check_url(settings.url)
    for name, parse in (("network_pool", parse_pools), ("network_allow", parse_places)):
        try:
            parse(getattr(settings, name))
        except ValueError as error:
            raise SettingError(f"{name}: {error}") from error
    if settings.data_root and settings.data_root != REMOTE and not settings.data_root.startswith("/"):
        raise SettingError(f"data_root must be {REMOTE}, or begin with /, not {settings.data_root!r}")
    return settings


def load_file(config: str | None) -> dict[str, Any]:
    """What `worker.toml` says, if there is one; it must be there in a directory that was named."""
    file = (Path(config) if config else default_config()).absolute() / FILE_NAME
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if config:
            raise SettingError(f"there is no {file}; `pit-worker join` writes it") from None
        return {}
    except OSError as error:
        raise SettingError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SettingError(f"{file} is no TOML: {error}") from error
    known = [field.name for field in fields(Settings)]
    for name, value in table.items():
        if name not in known:
            raise SettingError(f"{file} has no setting {name!r}; known are {', '.join(known)}")
        table[name] = _convert(name, value, f"{name} in {file}", file.parent)
    return table


def read_token(file: Path) -> str:
    """The node's token; raises SettingError where there is none."""
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"the token file {file} cannot be read: {error}") from error
    if not is_token(token):
        raise SettingError(f"the token file {file} holds no token")
    return token


def is_token(text: str) -> bool:
    """Whether a text can travel as one."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def check_url(url: str) -> None:
    """Raise SettingError unless that can be a head's, and a token be sent there."""
    try:
        parts = urlsplit(url)
        is_head = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_head = False
    if not is_head or parts.query or parts.fragment:
        raise SettingError(f"{url!r} is no address of a head; it looks like https://head.example.org:7478")
    if parts.username or parts.password:
        raise SettingError("the head's address must not hold a password; the token goes into --token-file")
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise SettingError(f"plain http to {parts.hostname} would show the token to the network; use https")


def _of_user(variable: str, below_home: str) -> Path:
    chosen = os.environ.get(variable, "")
    return (Path(chosen) if chosen.startswith("/") else Path.home() / below_home) / "pit-worker"


def _convert(name: str, value: Any, where: str, folder: Path | None = None) -> str | int | Path:
    kind = next(str(field.type) for field in fields(Settings) if field.name == name)
    if "bool" in kind:
        if isinstance(value, bool):
            return value
        if str(value).lower() not in WORDS:
            raise SettingError(f"{where} must be one of {', '.join(WORDS)}, not {value!r}")
        return WORDS[str(value).lower()]
    if "int" in kind:
        if isinstance(value, bool) or not str(value).isdecimal():
            raise SettingError(f"{where} must be a whole number, not {value!r}")
        return int(value)
    if "Runtime" in kind:
        if value not in list(Runtime):
            raise SettingError(f"{where} must be one of {', '.join(Runtime)}, not {value!r}")
        return Runtime(value)
    if not isinstance(value, str):
        raise SettingError(f"{where} must be a text, not {value!r}")
    if "Path" in kind or (name == "ca_file" and value):
        path = (folder or Path()).absolute() / value
        return path if "Path" in kind else str(path)
    return value


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
