"""Which tests are marked with which numbers, read from their source: importing them all takes too long."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[2]


class Marked(NamedTuple):
    path: str  # from the top of the repository
    test: str


def read_markers() -> dict[str, list[Marked]]:
    found: dict[str, list[Marked]] = defaultdict(list)
    for file in sorted(TESTS.rglob("test_*.py")):
        source = file.read_text()
        if "mark.threat(" in source:
            path = file.relative_to(TESTS.parent).as_posix()
            for number, test in _list_marked(ast.parse(source)):
                found[number].append(Marked(path, test))
    return dict(found)


def _list_marked(tree: ast.Module) -> Iterator[tuple[str, str]]:
    of_module = [
        number
        for node in tree.body
        if isinstance(node, ast.Assign) and any(ast.unparse(t) == "pytestmark" for t in node.targets)
        for number in _numbers(node.value)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            own = [number for decorator in node.decorator_list for number in _numbers(decorator)]
            yield from ((number, node.name) for number in (*of_module, *own))


def _numbers(expression: ast.expr) -> list[str]:
    """The arguments of `pytest.mark.threat(…)` wherever it stands in the expression."""
    return [
        argument.value
        for call in ast.walk(expression)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.threat"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]
