"""The reference has the options of each command, the default of each setting, and every variable."""

import re
from dataclasses import MISSING, fields
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

import pit_server.settings
import pit_worker.settings
from pit.cli import ALIASES, COMMANDS
from pit.cli import pit as cli
from pit_protocol.job_options import OPTIONS, JobOptions
from pit_server.services.jobs.processes.environment import of_element, variables
from tests.support.pages import scheduling_figure

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
_JOB_OPTIONS = {flag for option in OPTIONS.values() for flag in option.flags}
_EVERYWHERE = {"--json", "--help"}
# What is written out in words there, because the value says more than a name could.
_IN_WORDS = {"search_path"}


def sections() -> dict[str, str]:
    """What cli.md says below the heading of each command; several commands may share one."""
    text = (REFERENCE / "cli.md").read_text()
    _, *parts = re.split(r"^#{2,3} (.*)$", text, flags=re.MULTILINE)
    found: dict[str, str] = {}
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        for name in re.findall(r"`pit ([a-z-]+)`", heading):
            found[name] = body
    return found


def long_options(name: str) -> set[str]:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    commands = [command, *(command.commands.values() if isinstance(command, click.Group) else ())]
    params = [param for each in commands for param in each.params]
    return {flag for p in params for flag in (*p.opts, *p.secondary_opts) if flag.startswith("--")}


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "help"])
def test_the_section_of_a_command_has_its_options(name: str) -> None:
    told = sections().get(name)
    assert told is not None, f"docs/reference/cli.md has no section for `pit {name}`"
    missing = {flag for flag in long_options(name) - _JOB_OPTIONS - _EVERYWHERE if flag not in told}
    assert missing == set()


def test_the_sections_name_no_option_that_a_command_does_not_have() -> None:
    told = sections()
    known = {body: set[str]() for body in told.values()}
    for name, body in told.items():
        known[body] |= long_options(ALIASES.get(name, name))
    for body, options in known.items():
        rows = re.findall(r"^\| (`-[^|]*) \|", body, re.MULTILINE)
        named = {flag for row in rows for flag in re.findall(r"--[a-z-]+", row)}
        assert named - options == set()


@pytest.mark.parametrize(
    ("heading", "settings"),
    [("Head", pit_server.settings.Settings), ("Worker", pit_worker.settings.Settings)],
)
def test_the_defaults_of_settings_are_those_of_the_code(heading: str, settings: type) -> None:
    text = (REFERENCE / "settings.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `([a-z_]+)` \| ([^|]*?) \|", text, re.MULTILINE))
    for field in fields(settings):
        if field.name not in rows or field.default in (MISSING, "") or field.name in _IN_WORDS:
            continue
        assert rows[field.name].strip("`") == _written(field.default), field.name
    assert len(rows) > 15


def _written(default: object) -> str:
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float) else str(default)


def test_every_variable_that_the_head_sets_is_documented() -> None:
    peer = SimpleNamespace(group_index=0, process_index=0, host="n0")
    row = SimpleNamespace(**vars(peer), user="anna", job_id=1, attempt=1, master_port=1, rank=0)
    names = {re.sub(r"\d+", lambda _: "<i>", name, count=1) for name in variables(row, [peer], ["0"])}
    names = {re.sub(r"\d+", "<j>", name) for name in names}
    names |= set(of_element(0, JobOptions(array="0-9")))
    text = (REFERENCE / "environment.md").read_text()
    assert {name for name in names if f"`{name}`" not in text} == set()


def test_the_figure_shows_the_table_of_its_page() -> None:
    assert len(scheduling_figure.rows()) == 9
    assert scheduling_figure.FIGURE.read_text() == scheduling_figure.render(), "`make docs` writes it"
