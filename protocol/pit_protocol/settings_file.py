"""Settings of a daemon: a TOML file, overruled by environment variables, converted to a dataclass's types.

By hand, because the types are few and each error names the setting and where it was set.
"""

import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Any, get_type_hints

from pit_protocol.problem import Problem

BOOLEANS = {
    "yes": True,
    "on": True,
    "true": True,
    "1": True,
    "no": False,
    "off": False,
    "false": False,
    "0": False,
}
_NOUNS = {int: "a whole number", float: "a number", str: "a text", Path: "a path"}


def list_types(settings: type, *, without: Collection[str] = ()) -> dict[str, type]:
    """The settings of a dataclass by name, in their order."""
    hints = get_type_hints(settings)
    return {field.name: hints[field.name] for field in fields(settings) if field.name not in without}


def read_file(file: Path, types: Mapping[str, type]) -> dict[str, Any]:
    """The settings in a file; relative paths start in its directory.

    Raises FileNotFoundError or NotADirectoryError if there is none, and a Problem for any other fault.
    """
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise bad_setting(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise bad_setting(f"{file} is not valid TOML: {error}") from error
    unknown = sorted(set(table) - set(types))
    if unknown:
        raise bad_setting(f"{file} has no setting {unknown[0]!r}", f"known are: {', '.join(types)}")
    return {
        name: convert(types[name], value, f"{name} in {file}", file.parent) for name, value in table.items()
    }


def read_environment(prefix: str, types: Mapping[str, type], environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings that are set as `<PREFIX><NAME>`; raises a Problem."""
    variables = {name: prefix + name.upper() for name in types}
    return {
        name: convert(types[name], environ[variable], variable)
        for name, variable in variables.items()
        if variable in environ
    }


def convert(kind: type, value: Any, where: str, folder: Path | None = None) -> Any:
    """A text, or a value of TOML, as the type that the setting has; raises a Problem that names `where`."""
    if kind is bool:
        if str(value).lower() not in BOOLEANS:
            raise bad_setting(f"{where} must be one of {', '.join(BOOLEANS)}, not {value!r}")
        return BOOLEANS[str(value).lower()]
    if issubclass(kind, StrEnum):
        if value not in list(kind):
            raise bad_setting(f"{where} must be one of {', '.join(kind)}, not {value!r}")
        return kind(value)
    if kind is Path and isinstance(value, str):
        return (folder or Path()).absolute() / value
    try:
        # Python counts a boolean as an int; a settings file does not.
        if isinstance(value, str) or type(value) is kind or (kind is float and type(value) is int):
            read: Callable[[Any], Any] = kind
            return read(value)
    except ValueError:
        pass
    raise bad_setting(f"{where} must be {_NOUNS[kind]}, not {value!r}")


def check_choices(settings: Any, choices: Mapping[str, Collection[str]]) -> None:
    """Raise a Problem for a setting with none of its possible values."""
    for name, allowed in choices.items():
        if (value := getattr(settings, name)) not in allowed:
            raise bad_setting(f"{name} must be one of {', '.join(allowed)}, not {value!r}")


def check_bounds(settings: Any, bounds: Mapping[str, tuple[float, float]]) -> None:
    """Raise a Problem for a setting below its least or above its greatest value."""
    for name, (least, most) in bounds.items():
        if not least <= (value := getattr(settings, name)) <= most:
            raise bad_setting(f"{name} must be from {least} to {most}, not {value}")


def bad_setting(message: str, hint: str = "") -> Problem:
    return Problem("bad_settings", message, hint)
