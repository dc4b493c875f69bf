"""The documents name every command, route, setting, state and variable, and no link in them is dead."""

import re
from dataclasses import fields
from enum import StrEnum
from pathlib import Path

import click
import pytest
from flask import Flask

import pit_server.settings
import pit_worker.settings
from pit.cli import COMMANDS
from pit.cli import pit as cli
from pit_protocol.states import (
    LETTERS,
    JobEvent,
    JobState,
    KilledBy,
    NodeState,
    Outcome,
    ProcessEvent,
    ProcessState,
)
from pit_server.api import BLUEPRINTS, ROOT_BLUEPRINTS
from pit_server.api.http.flask_app import Application
from pit_server.cli import cli as head_cli
from pit_server.services.jobs import jobs
from pit_server.services.nodes import aliases
from pit_server.services.nodes import properties as node_properties
from pit_server.services.sites import properties as site_properties
from pit_server.services.users import accounts, groups
from pit_server.services.users.permissions import PERMISSIONS, Relation
from pit_server.store.data_root import relative_paths
from tests.support.pages import job_options_page, man_page

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def reference(name: str) -> str:
    return (REFERENCE / name).read_text()


def test_every_command_and_its_options_are_documented() -> None:
    text = reference("cli.md") + reference("job-options.md")
    for name in COMMANDS:
        assert f"pit {name}" in text, name
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        long_options = [o for p in command.params for o in p.opts if o.startswith("--") and o != "--json"]
        assert [o for o in long_options if o not in text] == [], name
    assert [name for name in head_cli.commands if f"pit-head {name}" not in text] == []


def test_the_page_of_job_options_is_up_to_date() -> None:
    assert job_options_page.PAGE.read_text() == job_options_page.render(), "`make docs` writes it"


def test_the_manual_page_is_up_to_date() -> None:
    assert man_page.PAGE.read_text() == man_page.render(), "`make docs` writes it"


def test_the_overview_for_language_models_names_pages_that_exist() -> None:
    page = ROOT / "docs" / "llms.txt"
    links = re.findall(r"\]\(([^)]+)\)", page.read_text())
    assert len(links) > 10
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_route_is_documented(app_routes: list[str]) -> None:
    text = re.sub(r"<int:", "<", reference("api.md"))
    assert [route for route in app_routes if f"`{route}`" not in text] == []


def test_the_docs_name_the_role_of_each_route() -> None:
    documented = dict(re.findall(r"^\| `([A-Z]+ /[^`]*)` \| (\w+) \|", reference("api.md"), re.MULTILINE))
    app = _routes()
    declared = {
        f"{method} {re.sub(r'<(int|job):', '<', rule.rule)}": app.view_functions[rule.endpoint].role  # type: ignore[attr-defined]
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert documented == declared


def test_the_docs_have_the_table_of_permissions() -> None:
    text = reference("rights.md")
    for action, relations in PERMISSIONS.items():
        cells = ["yes" if relation in relations else "-" for relation in (Relation.OWNER, Relation.MEMBER)]
        admin = "yes" if Relation.ADMIN in relations else "-"
        assert f"| {action} | {cells[0]} | {cells[1]} | - | {admin} |" in text


def test_every_property_is_documented() -> None:
    rows = dict(
        re.findall(r"^\| (user|group|alias|node|site|job) \| (.*) \|$", reference("api.md"), re.MULTILINE)
    )
    for kind, module in {
        "user": accounts,
        "group": groups,
        "alias": aliases,
        "node": node_properties,
        "site": site_properties,
        "job": jobs,
    }.items():
        assert [prop.name for prop in module.PROPERTIES if f"`{prop.name}" not in rows[kind]] == []


@pytest.fixture
def app_routes() -> list[str]:
    app = _routes()
    return [
        f"{method} {re.sub(r'<(int|job):', '<', rule.rule)}"
        for rule in app.url_map.iter_rules()
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    ]


def _routes() -> Flask:
    app = Application("routes", static_folder=None)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint, url_prefix="/api/v1" + (blueprint.url_prefix or ""))
    for blueprint in ROOT_BLUEPRINTS:
        app.register_blueprint(blueprint)
    return app


def test_every_setting_is_documented() -> None:
    text = reference("settings.md")
    for settings in (pit_server.settings.Settings, pit_worker.settings.Settings):
        assert [
            field.name for field in fields(settings) if field.name != "home" and f"`{field.name}`" not in text
        ] == []


@pytest.mark.parametrize(
    "kind", [JobState, JobEvent, Outcome, ProcessState, ProcessEvent, NodeState, KilledBy]
)
def test_every_state_and_event_is_documented(kind: type[StrEnum]) -> None:
    text = reference("states.md")
    assert [member.value for member in kind if f"`{member.value}`" not in text] == []


def test_every_state_has_its_letters_documented() -> None:
    assert [letters for letters in LETTERS.values() if f"`{letters}`" not in reference("states.md")] == []


def test_every_variable_of_a_process_is_documented() -> None:
    text = reference("environment.md")
    assert [name for name in relative_paths(1, 1, "anna") if f"`{name}`" not in text] == []


def test_every_path_in_the_architecture_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    paths = re.findall(r"`((?:pit|server|worker|protocol|grammar|tests)/[\w/.-]*)`", text)
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / path).exists()] == []
