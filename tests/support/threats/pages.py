"""The tables of docs/security.md and docs/reliability.md: `make docs` writes them, a test compares them."""

import sys
from collections import Counter
from pathlib import Path

from tests.support.threats import attacks, faults
from tests.support.threats.entries import Entry
from tests.support.threats.markers import Marked, read_markers

DOCS = Path(__file__).parents[3] / "docs"
BEGIN = "<!-- begin: written by `make docs` from the tests' markers -->"
END = "<!-- end: written by `make docs` -->"


def render_pages() -> dict[Path, str]:
    """The two pages as they should be."""
    marked = read_markers()
    security, reliability = DOCS / "security.md", DOCS / "reliability.md"
    return {
        security: _replace(security.read_text(), _attacks(marked)),
        reliability: _replace(reliability.read_text(), _faults(marked)),
    }


def _attacks(marked: dict[str, list[Marked]]) -> str:
    rows = [
        f"| {number} | {text} | {_proof(number, marked, attacks.WITHOUT_TEST)} |"
        for number, text in attacks.ATTACKS.items()
    ]
    return "\n".join(["| # | attack | tests |", "|---|---|---|", *rows])


def _faults(marked: dict[str, list[Marked]]) -> str:
    rows = [
        f"| {number} | {fault} | {outcome} | {_proof(number, marked, faults.WITHOUT_TEST)} |"
        for number, (fault, outcome) in faults.FAULTS.items()
    ]
    return "\n".join(["| # | fault | what happens | tests |", "|---|---|---|---|", *rows])


def _proof(number: str, marked: dict[str, list[Marked]], without: dict[str, Entry]) -> str:
    if number in without:
        return str(without[number])
    files = Counter(path for path, _ in marked.get(number, ()))
    return ", ".join(
        f"[{path.removeprefix('tests/')}](../{path})" + (f" ({count})" if count > 1 else "")
        for path, count in files.items()
    )


def _replace(page: str, table: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert end, f"the page has no line {BEGIN} with {END} after it"
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


if __name__ == "__main__":
    for page, text in render_pages().items():
        page.write_text(text)
        sys.stdout.write(f"{page} is written\n")
