"""The Python environment that a job asks for: by --venv and its options, or by `.pitenv` in the project."""

import re
from pathlib import Path
from typing import Any

import click

from pit.text_files import read_text
from pit_protocol.messages.submission import check_venv
from pit_protocol.problem import Problem

PITENV = ".pitenv"
UV_LOCK, PYPROJECT, REQUIREMENTS = "uv.lock", "pyproject.toml", "requirements.txt"
_NAMES = {"requirements": "venv", "python": "python"}  # in .pitenv -> option of the job

venv_option = click.option(
    "--venv/--no-venv",
    "wants_venv",
    default=None,
    help="Run with the packages of uv.lock, or else requirements.txt.",
)


def venv_options(top: Path, given: dict[str, Any], wants_venv: bool | None) -> dict[str, Any]:
    """The options `venv` and `python` of a job; none if it asks for no environment. Raises a Problem."""
    if wants_venv is False:
        return {"venv": None, "python": None}
    text = read_text(top / PITENV)
    asked: dict[str, Any] = {name: given[name] for name in ("venv", "python") if name in given}
    if not wants_venv and not asked and text is None:
        return {}
    chosen: dict[str, Any] = {**_parse(text or ""), **asked}
    if "venv" not in chosen:
        chosen["venv"] = _find_file(top)
    check_venv(chosen["venv"], chosen.get("python"))
    for name in list_files(chosen["venv"]):
        if not (top / name).is_file():
            raise Problem(
                "no_requirements", f"there is no {name} in {top}", "--requirements names another file"
            )
    return chosen


def list_files(venv: str) -> list[str]:
    """The files that must be in the project; uv needs two."""
    path = Path(venv)
    return [venv, str(path.with_name(PYPROJECT))] if path.name == UV_LOCK else [venv]


def _find_file(top: Path) -> str:
    for name in (UV_LOCK, REQUIREMENTS):
        if all((top / each).is_file() for each in list_files(name)):
            return name
    raise Problem(
        "no_requirements",
        f"there is no {UV_LOCK} with {PYPROJECT} and no {REQUIREMENTS} in {top}",
        "write one, or name another file with --requirements",
    )


def _parse(text: str) -> dict[str, str]:
    """The lines of `.pitenv`, such as `python = 3.12`."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.partition("#")[0].strip()
        if not bare:
            continue
        pair = re.fullmatch(r"(\w+)\s*=\s*(\S.*)", bare)
        if not pair or pair[1] not in _NAMES:
            raise Problem(
                "bad_pitenv",
                f"{PITENV}, line {number}: {bare!r} is not understood",
                "a line is `python = 3.12` or `requirements = FILE`; an empty file is fine, too",
            )
        found[_NAMES[pair[1]]] = pair[2].strip("\"'")
    return found
