"""The links of a built site: each leads to a file of it, and to a place in that file.

    python -m testing.site.check build/site

mkdocs checks the links of Markdown; this one reads what a browser gets, so that links of the
theme, of generated pages and of the API reference count too. Links to other sites are not followed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

NOT_FOUND = "404.html"
"""A page that a server shows at any address: its links begin at the root of the site."""


class Page(HTMLParser):
    """The links of an HTML file, and the places in it that links can lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag leads to, and its name."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name == "id" and value:
                self.places.add(value)


def broken_links(site: Path) -> list[str]:
    """Links of the site that lead nowhere, as "page: link"."""
    pages = {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or path.name == NOT_FOUND:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if file.is_dir():
                file /= "index.html"
            place = unquote(parts.fragment)
            if not file.is_file() or (place and file in pages and place not in pages[file].places):
                broken.append(f"{path.relative_to(site)}: {link}")
    return broken


def main() -> None:
    """Check the site in the folder of the command line; exit with 1 when a link is broken."""
    site = Path(sys.argv[1]).resolve()
    broken = broken_links(site)
    for link in broken:
        print(link)
    print(f"{len(list(site.rglob('*.html')))} pages, {len(broken)} broken links")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
