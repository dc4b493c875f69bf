"""What `mkdocs build --strict` does not check of the site: that its pages load nothing from elsewhere."""

import sys
from html.parser import HTMLParser
from pathlib import Path

# What a browser fetches without being asked. A link that a reader clicks (`a`) may lead anywhere.
_LOADED = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        target = dict(attrs).get(_LOADED.get(tag, "")) or ""
        if "//" in target:
            self.foreign.append(f"<{tag}> loads {target}")


def foreign_assets(html: str) -> list[str]:
    page = _Page()
    page.feed(html)
    return page.foreign


def main(site: Path) -> int:
    pages = sorted(site.rglob("*.html"))
    found = [f"{page}: {asset}" for page in pages for asset in foreign_assets(page.read_text())]
    # A stylesheet can load fonts as well.
    found += [f"{sheet}: loads a font" for sheet in site.rglob("*.css") if "url(http" in sheet.read_text()]
    for line in found:
        print(line, file=sys.stderr)
    if not pages or found:
        return 1
    print(f"{site}: {len(pages)} pages, which load nothing from elsewhere")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
