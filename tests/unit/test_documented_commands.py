"""Commands of pit in the documents exist, with the options that the documents give them."""

import re
import shlex
from pathlib import Path

import click

from pit.cli import ALIASES, COMMANDS
from pit.cli import pit as cli

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def commands(text: str) -> list[str]:
    """What begins with `pit` and a command, in fences and between backticks."""
    fenced = [
        line.strip().removeprefix("$ ") for _, body in _FENCE.findall(text) for line in body.splitlines()
    ]
    inline = [re.sub(r"\s+", " ", code) for code in _CODE.findall(_FENCE.sub("", text))]
    return [line for line in fenced + inline if re.match(r"pit [a-z][a-z-]*( |$)", line)]


def words(line: str) -> list[str]:
    """Of the first command of the line; one whose quotes are not closed goes on in a further line."""
    first = re.split(r" (?:\||&&|;|<|>|#) ?", line.replace("…", ""))[0]
    try:
        return shlex.split(first)
    except ValueError:
        return []


def mistake(line: str) -> str | None:
    name, *arguments = (words(line) or ["pit", "help"])[1:]
    if name not in COMMANDS and name not in ALIASES:
        return f"there is no `pit {name}`"
    command = cli.get_command(click.Context(cli), name)
    if isinstance(command, click.Group) and arguments:
        command = command.commands.get(arguments[0], command)
    assert command is not None
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
    given = {word.split("=")[0] for word in arguments if re.match(r"--[a-z]", word)}
    unknown = sorted(given - known - {"--help"})
    return f"`pit {name}` has no {', '.join(unknown)}" if unknown else None


def test_commands_in_the_documents_exist() -> None:
    found = {(path.name, line): mistake(line) for path in DOCUMENTS for line in commands(path.read_text())}
    assert len(found) > 300
    assert {place: wrong for place, wrong in found.items() if wrong} == {}


def test_a_command_that_does_not_exist_is_found() -> None:
    text = "`pit run x --dry-run`, `pit runn x`\n\n```console\n$ pit log 1 --colour | less\n```\n"
    assert [mistake(line) for line in commands(text)] == [
        "`pit log` has no --colour",
        None,
        "there is no `pit runn`",
    ]
