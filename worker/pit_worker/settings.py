"""What a worker is told at its start: from the command line, else `PIT_WORKER_<NAME>`, else a default."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit

PREFIX = "PIT_WORKER_"


class SettingError(Exception):
    """A setting with which the worker cannot start; the text is one sentence for a person."""


@dataclass(frozen=True)
class Settings:
    url: str  # of the head; plain http only to this machine
    token_file: Path  # holds the node's token
    spool: Path  # where the worker remembers its processes
    address: str = "127.0.0.1"  # where other nodes reach the processes of this one
    ca_file: str = ""  # certificates to trust instead of the system's
    search_path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # PATH of a process
    cgroups: bool = True  # off: a process's tree is found by its environment and session
    boot_id: str = ""  # instead of the kernel's, to play a reboot
    log_level: str = "INFO"


def load(given: Mapping[str, str | None], environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the command line's words and the environment; raises SettingError."""
    values: dict[str, str | bool | Path] = {}
    for field in fields(Settings):
        text = given.get(field.name) or environ.get(PREFIX + field.name.upper())
        if text is not None:
            values[field.name] = _convert(field.name, str(field.type), text)
    for name in ("url", "token_file", "spool"):
        if name not in values:
            raise SettingError(f"--{name.replace('_', '-')} (or {PREFIX}{name.upper()}) is missing")
    settings = Settings(**values)  # type: ignore[arg-type]
    _check_url(settings.url)
    return settings


def read_token(file: Path) -> str:
    """The node's token; raises SettingError where there is none."""
    try:
        token = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"the token file {file} cannot be read: {error}") from error
    if not token or not token.isascii() or not token.isprintable():
        raise SettingError(f"the token file {file} holds no token")
    return token


def _convert(name: str, kind: str, text: str) -> str | bool | Path:
    if "Path" in kind:
        return Path(text).absolute()
    if "bool" not in kind:
        return text
    words = {
        "1": True,
        "yes": True,
        "on": True,
        "true": True,
        "0": False,
        "no": False,
        "off": False,
        "false": False,
    }
    if text.lower() not in words:
        raise SettingError(f"{PREFIX}{name.upper()} must be one of {', '.join(words)}, not {text!r}")
    return words[text.lower()]


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(f"{url!r} is no address of a head; it looks like https://head.example.org")
    if parts.username or parts.password:
        raise SettingError("the head's address must not hold a password; the token goes into --token-file")
    if parts.scheme == "http" and not _is_loopback(parts.hostname):
        raise SettingError(f"plain http to {parts.hostname} would show the token to the network; use https")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
