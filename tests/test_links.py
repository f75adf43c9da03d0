"""Links and paths in the pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testing.site.markdown import LINK, ROOT, anchor_of, is_external, prose

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md",
                *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])  # fmt: skip
FRAGMENTS = dict.fromkeys(("findings.md", "header.md"), ROOT / "docs")
"""Files that become part of a page in another folder."""
PATH = re.compile(r"`((?:fa4_cute|sm100sim|tests|benchmarks|testing|examples|docs)/[\w./-]*)`")


def name(page: Path) -> str:
    """The page's path in the repository."""
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    return {anchor_of(heading) for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)}


def broken_links(page: Path) -> list[str]:
    """Relative links whose file, or heading, is not there."""
    broken = []
    for link in LINK.findall(prose(page)):
        if is_external(link):
            continue
        file, _, anchor = link.partition("#")
        target = (FRAGMENTS.get(page.name, page.parent) / file).resolve() if file else page
        is_there = target.exists()
        if is_there and anchor and target.suffix == ".md":
            is_there = anchor in anchors(target)
        if not is_there:
            broken.append(link)
    return broken


def missing_paths(page: Path) -> list[str]:
    """Paths of this repository, in backticks, that are not there."""
    return [path for path in PATH.findall(prose(page)) if not (ROOT / path).exists()]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_named_files_exist(page: Path) -> None:
    assert missing_paths(page) == []


def test_a_broken_link_a_missing_heading_and_a_missing_file_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `word`: two\n[a](page.md) [b](no.md) [c](#one-word-two) [d](page.md#three) "
        "[e](https://example.org/x)\n`tests/test_links.py` `tests/no.py`\n```\n[f](g.md)\n```\n"
    )
    assert broken_links(page) == ["no.md", "page.md#three"]
    assert missing_paths(page) == ["tests/no.py"]


def test_every_page_is_linked_from_another() -> None:
    linked = {
        (page.parent / link.partition("#")[0]).resolve()
        for page in PAGES
        for link in LINK.findall(prose(page))
        if not is_external(link) and not link.startswith("#")
    }
    assert [page.name for page in (ROOT / "docs").rglob("*.md") if page not in linked] == []


SOURCE_FILES = sorted(
    path
    for folder in ("fa4_cute", "sm100sim", "testing", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".c", ".h"}
)


KNOWN_PAGES = {path.name for path in PAGES}


def pages_that_are_not_here(text: str) -> set[str]:
    """Pages that ``text`` names by file and that the repository does not hold."""
    return set(re.findall(r"(?<![\w\"-])[\w-]+\.md\b", text)) - KNOWN_PAGES


def test_code_cites_pages_that_are_here() -> None:
    assert pages_that_are_not_here("Source: ``a-page-of-nobody.md`` 1") == {"a-page-of-nobody.md"}
    cited = {
        str(path.relative_to(ROOT)): pages_that_are_not_here(path.read_text())
        for path in SOURCE_FILES
        if path != Path(__file__)
    }
    assert not {path: pages for path, pages in cited.items() if pages}
