"""The files that name heads: a project's, the home's, and the named profiles."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pit.connect.head_address import Address, parse_address
from pit.text_files import read_text
from pit_protocol.atomic_file import write_atomic
from pit_protocol.problem import Problem

CONNECT_FILE = ".pitconnect.txt"
_PROFILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class ConnectFile:
    """One such file and what it says."""

    path: Path
    address: Address


def read_connect_file(path: Path) -> ConnectFile:
    text = read_text(path)
    if text is None:
        raise Problem("no_connect_file", f"there is no file {path}", "`pit connect URL` connects to a head")
    try:
        return ConnectFile(path, parse_address(text))
    except Problem as problem:
        raise Problem(problem.code, f"{path}: {problem.message}", problem.hint) from problem


def get_home_file() -> ConnectFile | None:
    """The home's file, or the profile that `PIT_PROFILE` puts in its place."""
    if name := os.environ.get("PIT_PROFILE"):
        return find_profile(name)
    return read_connect_file(home_path()) if home_path().is_file() else None


def get_project_file(start: Path) -> ConnectFile | None:
    """The project's file around `start`, unless it is the home's file or a profile is selected."""
    path = None if os.environ.get("PIT_PROFILE") else find_project_path(start)
    return read_connect_file(path) if path and not is_home_path(path) else None


def find_project_path(start: Path) -> Path | None:
    """The nearest connection file on the way up to the git top, or to /; it may be the home's."""
    for directory in (start, *start.parents):
        if (directory / CONNECT_FILE).is_file():
            return directory / CONNECT_FILE
        if (directory / ".git").exists():
            break
    return None


def home_path() -> Path:
    return Path.home() / CONNECT_FILE


def is_home_path(path: Path) -> bool:
    """Whether it is the home's file, even if the home is reached through a link."""
    return path.resolve() == home_path().resolve()


def keep_home_address(address: Address) -> Path:
    """Make it the default head, for projects without a file of their own."""
    write_atomic(home_path(), address.text, mode=0o644, sync=True)
    return home_path()


def list_profiles() -> list[str]:
    return sorted(path.stem for path in _profile_folder().glob("*.txt") if _PROFILE.fullmatch(path.stem))


def find_profile(name: str) -> ConnectFile:
    path = profile_path(name)
    if not path.is_file():
        known = ", ".join(list_profiles())
        hint = f"the profiles are {known}" if known else "`pit profile add NAME URL` makes one"
        raise Problem("no_such_profile", f"there is no profile {name!r}", hint)
    return read_connect_file(path)


def keep_profile(name: str, address: Address) -> Path:
    path = profile_path(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomic(path, address.text, mode=0o644, sync=True)
    return path


def profile_path(name: str) -> Path:
    if not _PROFILE.fullmatch(name):
        raise Problem("bad_name", f"{name!r} is not a name for a profile", "write letters, digits, . _ or -")
    return _profile_folder() / f"{name}.txt"


def _profile_folder() -> Path:
    config = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(config) if config.startswith("/") else Path.home() / ".config") / "pit" / "profiles"
