"""The quick start and the tutorial do what they say."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest

from testing.site.markdown import BLOCK, ROOT
from testing.site.snippets import differs, follow

DOCS = ROOT / "docs"
COMMANDS = {"triton": 3, "nvcc": 2, "mojo": 2}
"""Front end -> the commands of the quick start that need it."""


def missing() -> set[str]:
    """The front ends of COMMANDS that are not installed."""
    found = {"triton": find_spec("triton"), "nvcc": which("nvcc"), "mojo": which("mojo")}
    return {name for name in COMMANDS if not found[name]}


@pytest.mark.slow
def test_the_quick_start_does_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    absent = missing()
    ran = follow(DOCS / "quick_start.md", tmp_path, absent)
    assert ran == 15 - sum(COMMANDS[name] for name in absent)
    assert (tmp_path / "flag.sarif").stat().st_size


@pytest.mark.exhaustive
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    assert follow(DOCS / "tutorial.md", tmp_path) == 11
    assert (tmp_path / "race.png").stat().st_size


@pytest.mark.parametrize(
    ("page", "files"),
    [("quick_start.md", {"python", "cpp", "mojo", "toml"}), ("tutorial.md", {"python"})],
)
def test_every_block_is_a_file_or_a_command(page: str, files: set[str]) -> None:
    kinds = [(kind, bool(name)) for kind, name, _ in BLOCK.findall((DOCS / page).read_text())]
    installation = {("", False)} if page == "quick_start.md" else set()
    assert set(kinds) == {(kind, True) for kind in files} | {("console", False)} | installation
    assert kinds.count(("", False)) == len(installation)


def test_other_output_is_noticed() -> None:
    found = ["a 1", "b [2]", "c 3"]
    for expected in (found, ["...", "b [2]", "..."], ["a ...", "...", "c 3"], ["a 1", "..."]):
        assert differs(expected, found) == ""
    assert differs(["b [2]", "..."], found) == "b [2]"
    assert differs(["a 1", "c 3"], found) == "c 3"
    assert differs(["a 1"], found) == "nothing more, but: b [2]"
    assert differs(["...", "d"], found) == "d"


def test_a_page_that_says_something_else_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text("```text a.txt\nx\n```\n\n```console\n$ cat a.txt\ny\n```\n")
    with pytest.raises(AssertionError, match=r"cat a\.txt\nexpected: y\nx"):
        follow(page, tmp_path)
