"""Pages of the repository become pages of the site."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from testing.site import hooks
from testing.site.markdown import ROOT


@pytest.mark.parametrize(
    ("page", "link", "there"),
    [
        ("README.md", "docs/hopper.md", "hopper.md"),
        ("README.md", "CHANGELOG.md", "changelog.md"),
        ("README.md", "docs/images/timeline.png", "images/timeline.png"),
        ("docs/checking.md", "simulator.md#limits", "simulator.md#limits"),
        ("docs/reference/sm100sim.md", "../checking.md", "../checking.md"),
        ("docs/hopper.md", "../benchmarks/hopper/README.md", "hopper_programs.md"),
        ("benchmarks/hopper/README.md", "../../docs/hopper.md", "hopper.md"),
        ("docs/hopper.md", "#limits", "#limits"),
        ("docs/hopper.md", "https://example.org/", "https://example.org/"),
    ],
)  # fmt: skip
def test_a_link_leads_to_the_same_file(page: str, link: str, there: str) -> None:
    assert hooks.for_site(page, f"[a]({link})") == f"[a]({there})"


def test_links_in_code_stay() -> None:
    text = "[a](../README.md)\n```python\nx[0](../README.md)\n```\n[b](../README.md)\n"
    home = hooks.NAMED["README.md"]
    changed = text.replace("a](../README.md", f"a]({home}").replace("b](../README.md", f"b]({home}")
    assert hooks.for_site("docs/hopper.md", text) == changed


def test_a_file_that_is_no_page_gets_one() -> None:
    path = "sm100sim/driver/c/libcuda.c"
    assert hooks.for_site("docs/programs.md", f"[a](../{path})") == f"[a](source/{path}.md)"


def test_what_pages_link_to_is_on_the_site() -> None:
    linked = hooks.linked_files()
    assert "examples/masks.ipynb" in linked
    assert not [path for path in linked if path.startswith("docs/") or path in hooks.NAMED]
    assert all((ROOT / path).exists() for path in linked)


def test_a_file_is_shown_as_it_is() -> None:
    shown = hooks.source_page("sm100sim/driver/c/libcuda.c")
    assert shown.startswith("# sm100sim/driver/c/libcuda.c\n\n````c\n")
    assert (ROOT / "sm100sim/driver/c/libcuda.c").read_text() in shown


def test_a_folder_is_a_list() -> None:
    assert "\n* `driver.py`\n" in hooks.source_page("sm100sim/triton")


def test_every_page_has_its_place_in_the_navigation() -> None:
    named = re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = [hooks.GALLERY, *map(hooks.place, hooks.written_pages())]
    assert set(named) <= set(pages)
    config = SimpleNamespace(nav=[{"A": [named[0], {"B": named[3]}]}])
    assert hooks.pages_in(config.nav) == {named[0], named[3]}
    hooks.on_config(config)
    assert hooks.pages_in(config.nav) | {hooks.GALLERY} == set(pages)
    assert list(config.nav[-1]) == ["More"]


def test_a_block_that_is_a_file_has_its_name() -> None:
    assert hooks.FENCE.sub(r'```\1 title="\2"', "```python a.py\nx\n```") == (
        '```python title="a.py"\nx\n```'
    )
