"""Hooks of `mkdocs build`: the navigation is the index in docs/README.md, and links out of `docs` work.

`docs` has to read well in a git web view, where a link such as `../../CHANGELOG.md` leads to a file of the
repository. The site gets these files below `project/`, and its links lead there.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
PROJECT = "project"
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
_ENTRY = re.compile(r"^(?:\||-) \[([^\]]+)\]\(([^)#]+\.md)\)", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.nav = [{"Home": "README.md"}, *navigation((DOCS / "README.md").read_text())]
    return config


def navigation(index: str) -> list[dict[str, list[Any]]]:
    """What the index links to at the beginning of a row or an item, by its headings."""
    _, *parts = _SECTION.split(index)
    return [
        {heading: [_entry(title, target) for title, target in _ENTRY.findall(text)]}
        for heading, text in zip(parts[::2], parts[1::2], strict=True)
    ]


def _entry(title: str, target: str) -> dict[str, Any]:
    if target == "decisions/README.md":
        others = sorted(f"decisions/{path.name}" for path in (DOCS / "decisions").glob("[0-9]*.md"))
        return {title: [target, *others]}
    return {title.replace("`", ""): site_path("README.md", target)}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name in sorted(outside_files()):
        path = f"{PROJECT}/{name}"
        content = _relinked(path, (ROOT / name).read_text(), f"../{name}")
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = page.file.src_uri
    return markdown if source.startswith(f"{PROJECT}/") else _relinked(source, markdown, source)


def outside_files() -> set[str]:
    """The files of the repository that pages of `docs` link to, by their paths in it."""
    found = set()
    for page in DOCS.rglob("*.md"):
        for _, target, _ in _LINK.findall(page.read_text()):
            path = posixpath.normpath(posixpath.join(f"docs/{page.relative_to(DOCS)}", "..", target))
            if "://" not in target and not path.startswith("docs/"):
                found.add(path)
    return found


def site_path(source: str, target: str) -> str:
    """The path in the site of what `source`, a path relative to `docs`, links to as `target`."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(source), target))
    return path.removeprefix("docs/") if path.startswith("docs/") else f"{PROJECT}/{path}"


def _relinked(place: str, markdown: str, source: str) -> str:
    """The text of `source` (relative to `docs`) with links as they have to be in the page at `place`."""

    def relink(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target:
            return match[0]
        path = site_path(source, target)
        if path.startswith(f"{PROJECT}/") and path.removeprefix(f"{PROJECT}/") not in outside_files():
            return text  # a file of the repository that is not on the site
        return f"[{text}]({posixpath.relpath(path, posixpath.dirname(place) or '.')}{anchor})"

    return _LINK.sub(relink, markdown)
