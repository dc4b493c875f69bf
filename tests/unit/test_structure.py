"""Files, functions and folders stay small enough to be read; what is larger today may only shrink."""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "pit",
    "server/pit_server",
    "worker/pit_worker",
    "protocol/pit_protocol",
    "grammar/pit_grammar",
    "bench",
    "tests",
)
MIGRATIONS = "server/pit_server/db/migrations/"  # each is written once
MOST_LINES, MOST_OF_FUNCTION = 400, 50
LARGER_FILES = {
    "protocol/pit_protocol/job_options.py": 450,  # one table: each option is declared once
    "tests/client/snapshot/test_capture.py": 450,
    "tests/support/stubs/head.py": 450,
}
LARGER_FUNCTIONS = {
    "tests/support/servers/git.py": 85,
    "tests/worker/runtime/test_docker_spec.py": 62,
}
MOST_MODULES = 15  # in a folder, besides __init__.py
LARGER_FOLDERS = {
    # One module for each verb or measurement: whoever knows its name knows the file.
    "pit/commands": 60,
    "tests/client/commands": 60,
    "bench": 30,
    "protocol/pit_protocol": 17,
    "tests/head/jobs": 17,
}


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not path.relative_to(ROOT).as_posix().startswith(MIGRATIONS):
                yield path.relative_to(ROOT)


def bodies(path: Path) -> Iterator[tuple[str, int]]:
    """The functions of a file, and the lines of each without signature and docstring."""
    for node in ast.walk(ast.parse((ROOT / path).read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body:
                yield node.name, (body[-1].end_lineno or 0) - body[0].lineno + 1


def test_files_are_read_in_one_sitting() -> None:
    lines = {path.as_posix(): len((ROOT / path).read_bytes().splitlines()) for path in sources()}
    assert {name: n for name, n in lines.items() if n > LARGER_FILES.get(name, MOST_LINES)} == {}


def test_functions_fit_on_a_screen() -> None:
    found = {
        f"{path.as_posix()}: {name}": lines
        for path in sources()
        for name, lines in bodies(path)
        if lines > LARGER_FUNCTIONS.get(path.as_posix(), MOST_OF_FUNCTION)
    }
    assert found == {}


def test_folders_have_few_modules() -> None:
    modules = Counter(path.parent.as_posix() for path in sources() if path.name != "__init__.py")
    assert {name: n for name, n in modules.items() if n > LARGER_FOLDERS.get(name, MOST_MODULES)} == {}
