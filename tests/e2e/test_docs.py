"""README and tutorials are executed as they stand, with the installed `pit`, on clusters of their own."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.clusters.bare_machine import bare_machine
from tests.support.clusters.local import PIT
from tests.support.pages import console_blocks
from tests.support.pages.console_blocks import Command
from tests.support.requirements import need_programs, need_system_rights

ROOT = Path(__file__).parents[2]
WITHIN_S = 280.0
# How the commands begin that are not executed: they install something, or run the tests.
NOT_RUN = {
    "README.md": ("make demo", "make test", "python3 -m venv", "pip install"),
    "docs/tutorial.md": ("python3 -m venv", "pip install"),
    "docs/howto/datasets.md": (),
}
ADMIN = "docs/admin-tutorial.md"
NOT_RUN_BY_ADMIN = ("apt install", "python3 -m venv", "ln -s", "pit connect", "pit set user:tom")


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a new user called anna, who has a git identity and nothing else."""
    home = tmp_path_factory.mktemp("anna")
    (home / ".gitconfig").write_text("[user]\nname = Anna\nemail = anna@example.org\n")
    env = {"PATH": f"{PIT.parent}:{os.environ['PATH']}", "HOME": str(home), "LC_ALL": "C.UTF-8"}
    yield env | {"LOGNAME": "anna", "COLUMNS": "100"}
    console_blocks.run([Command("pit down --stop", ())], home, env, WITHIN_S)


@pytest.mark.parametrize("name", NOT_RUN)
def test_every_command_of_the_document_does_what_it_says(
    name: str, env: dict[str, str], tmp_path: Path
) -> None:
    check(name, NOT_RUN[name], env, tmp_path)


def test_the_tutorial_for_admins_leads_from_bare_machines_to_the_first_job(tmp_path: Path) -> None:
    need_system_rights()
    need_programs("unshare", "ip", "setsid")
    machine, homes = tmp_path / "machine", tmp_path / "homes"
    for directory in (machine, homes / "anna", homes / "jill"):
        directory.mkdir(parents=True)
    env = {"PATH": f"{PIT.parent}:{os.environ['PATH']}", "HOMES": str(homes), "HOME": str(homes / "anna")}
    env |= {"LC_ALL": "C.UTF-8", "COLUMNS": "100", "PIT_HEAD_BCRYPT_COST": "4", "PIT_HEAD_RESERVE_MIB": "0"}
    check(ADMIN, NOT_RUN_BY_ADMIN, env, tmp_path, inside=bare_machine(machine))


def check(
    name: str, not_run: tuple[str, ...], env: dict[str, str], place: Path, inside: Sequence[str] = ()
) -> None:
    blocks = console_blocks.parse(ROOT / name)
    left_out = [command.text for block in blocks if not block.is_run for command in block.commands]
    assert [text for text in left_out if not text.startswith(not_run)] == []
    commands = console_blocks.executed(blocks)
    results = console_blocks.run(commands, place, env, WITHIN_S, inside)
    assert len(results) == len(commands)
    for command, (printed, code) in zip(commands, results, strict=True):
        assert code == 0, f"$ {command.text}\n{printed}"
        if command.promised:
            shown = "\n".join(command.promised)
            assert console_blocks.fits(command.promised, printed, env["HOME"]), (
                f"$ {command.text}\nthe document says:\n{shown}\nand it is:\n{printed}"
            )
