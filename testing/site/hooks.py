"""What mkdocs needs to build the site from pages that are written for the repository.

A page's links are paths of the repository. Pages outside of ``docs`` become pages of the site, and
so does every other file that a page links to; all pictures together are one page more. A block of
code that is a file gets its name for a title. mkdocs calls the functions ``on_...``; mkdocs.yml
names this file.
"""

from __future__ import annotations

import posixpath
import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from testing.site import notebooks
from testing.site.markdown import LINK, ROOT, is_external, outside_code, prose

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

DOCS: Final = "docs/"
NAMED: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "sm100sim/README.md": "sm100sim.md",
    "benchmarks/hopper/README.md": "hopper_programs.md",
}
"""Pages outside of ``docs``: path in the repository -> path on the site."""
PATHS: Final = {place: path for path, place in NAMED.items()}
LANGUAGES: Final = {".py": "python", ".c": "c"}
NOTEBOOK: Final = ".ipynb"
GALLERY: Final = "gallery.md"
FENCE: Final = re.compile(r"^```(\w+) ([^\s{=]+)$", re.MULTILINE)


def place(path: str) -> str:
    """Where the site has a file of the repository."""
    if path in NAMED:
        return NAMED[path]
    return path.removeprefix(DOCS) if path.startswith(DOCS) else f"source/{path}.md"


def path_of(place_on_site: str) -> str:
    """The repository's path of a page of the site that is written by hand."""
    return PATHS.get(place_on_site, DOCS + place_on_site)


def target(page: str, link: str) -> tuple[str, str]:
    """The file that a link of a page leads to, by its path, and the heading there."""
    file, _, anchor = link.partition("#")
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), file)), anchor


def for_site(page: str, text: str) -> str:
    """``text`` of a page of the repository with the links that it needs on the site."""
    here = posixpath.dirname(place(page))

    def link_on_site(match: re.Match[str]) -> str:
        link = match[1]
        if is_external(link) or link.startswith("#"):
            return match[0]
        path, anchor = target(page, link)
        there = posixpath.relpath(place(path), here or ".") + (anchor and f"#{anchor}")
        return match[0][: match.start(1) - match.start()] + there + ")"

    return outside_code(text, lambda part: LINK.sub(link_on_site, part))


def written_pages() -> list[str]:
    """Pages that are written by hand, by their paths."""
    return [*NAMED, *sorted(str(p.relative_to(ROOT)) for p in (ROOT / DOCS).rglob("*.md"))]


def linked_files() -> list[str]:
    """Files outside of ``docs`` that a page of the site links to and that are no pages there."""
    found = set()
    for page in written_pages():
        for link in LINK.findall(prose(ROOT / page)):
            path, _ = target(page, link)
            if not is_external(link) and not link.startswith("#") and not path.startswith(DOCS):
                found.add(path)
    return sorted(found - set(NAMED))


def source_page(path: str) -> str:
    """A page that shows a file, or lists a folder."""
    file = ROOT / path
    if file.is_dir():
        return f"# {path}\n\n" + "".join(f"* `{inner.name}`\n" for inner in sorted(file.iterdir()))
    fence = "`" * 4
    return f"# {path}\n\n{fence}{LANGUAGES.get(file.suffix, 'text')}\n{file.read_text()}{fence}\n"


def shown_files() -> dict[str, str | bytes]:
    """What the site has beyond the pages that are written for it: place -> content."""
    shown: dict[str, str | bytes] = {}
    books = {}
    for path in linked_files():
        if not path.endswith(NOTEBOOK):
            shown[place(path)] = source_page(path)
            continue
        book = books[place(path)] = notebooks.read(ROOT / path, partial(for_site, path))
        shown[place(path)] = book.text
        folder = posixpath.dirname(place(path))
        shown |= {f"{folder}/{name}": png for name, (_, png) in book.pictures.items()}
    pages = {place(path): ROOT / path for path in written_pages()}
    return shown | {GALLERY: notebooks.gallery(pages, books)}


def pages_in(nav: Any) -> set[str]:
    """The pages that a navigation names."""
    if isinstance(nav, str):
        return {nav}
    inner = nav.values() if isinstance(nav, dict) else nav
    return set().union(*map(pages_in, inner))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Give pages that the navigation of mkdocs.yml does not name a place at its end."""
    missing = sorted(set(map(place, written_pages())) - pages_in(config.nav))
    if config.nav and missing:
        config.nav.append({"More": missing})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside of ``docs``, the files that pages link to, and the pictures."""
    from mkdocs.structure.files import File, InclusionLevel

    for path, page in NAMED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / path)))
    for page, content in shown_files().items():
        file = File.generated(config, page, content=content)
        file.inclusion = InclusionLevel.INCLUDED if page == GALLERY else InclusionLevel.NOT_IN_NAV
        files.append(file)
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Give a page the links of the site, and blocks that are files their names."""
    where = page.file.src_uri
    if where == GALLERY or where.startswith("source/"):
        return markdown
    return FENCE.sub(r'```\1 title="\2"', for_site(path_of(where), markdown))
