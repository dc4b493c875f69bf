"""Links in the documents lead somewhere, in a git web view and on the site; the index names every page."""

import re
from pathlib import Path

import pytest

from tests.support.pages import site_check, site_hooks

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not any(part.startswith(".") or part == "build" for part in path.relative_to(ROOT).parts)
)
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors(document: Path) -> set[str]:
    """As git web views make them from headings: small letters, no punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", document.read_text()), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_link_is_dead(document: Path) -> None:
    for target, anchor in _LINK.findall(_FENCE.sub("", document.read_text())):
        if "://" in target:
            continue
        path = document.parent / target if target else document
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


def test_the_index_names_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    pages = {str(path.relative_to(DOCS)) for path in DOCUMENTS if path.is_relative_to(DOCS)}
    decisions = {page for page in pages if page.startswith("decisions/0")}
    assert {page for page in pages - decisions - {"README.md"} if f"]({page})" not in index} == set()
    listed = (DOCS / "decisions" / "README.md").read_text()
    assert {page for page in decisions if f"]({Path(page).name})" not in listed} == set()


def test_the_navigation_of_the_site_is_the_index() -> None:
    index = (
        "# D\n\n## Use\n\n- [A](a.md): b\n- c, see [D](d.md)\n\n## Look\n\n| x |\n|--|\n| [`E`](../E.md) |"
    )
    assert site_hooks.navigation(index) == [{"Use": [{"A": "a.md"}]}, {"Look": [{"E": "project/E.md"}]}]


def test_a_page_that_loads_something_from_elsewhere_is_found() -> None:
    assert site_check.foreign_assets('<a href="https://x.org">x</a><script src="a.js"></script>') == []
    assert site_check.foreign_assets('<script src="//cdn.org/a.js">') == ["<script> loads //cdn.org/a.js"]
    assert site_check.foreign_assets('<link href="https://f.org/f.css">') == [
        "<link> loads https://f.org/f.css"
    ]
