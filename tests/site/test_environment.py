"""The page on environment variables has every one that the sources name."""

from __future__ import annotations

import ast
import re

from testing.site.markdown import ROOT

NAME = re.compile(r"CC|HOME|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
OTHERS = {"ST_NOEXEC", "CS_GNU_LIBC_VERSION"}
"""Names of other things in modules that also read variables."""
PAGE = (ROOT / "docs" / "environment.md").read_text()
LISTED = {
    name
    for cell in re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE)
    for name in re.findall(r"`(\w+)`", cell)
}


def named_in_python(text: str) -> set[str]:
    """Constants that look like variables, in a module that has to do with the environment."""
    if not re.search(r"environ|set_default|EXAMPLES", text):
        return set()
    constants = (n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant))
    return {c for c in constants if isinstance(c, str) and NAME.fullmatch(c)} - OTHERS


def named_in_sources() -> set[str]:
    """Variables of both packages, in Python and C, and of the tests' searches."""
    found = set[str]()
    for package in ("fa4_cute", "sm100sim"):
        for path in (ROOT / package).rglob("*.py"):
            found |= named_in_python(path.read_text())
        for path in (ROOT / package).rglob("*.[ch]"):
            found |= set(re.findall(r'getenv\("(\w+)"\)', path.read_text()))
    for name in ("tests/audit/residues.py", "tests/kernel/random_cases.py"):
        found |= named_in_python((ROOT / name).read_text())
    return found


def test_every_variable_is_listed_and_no_other() -> None:
    assert named_in_sources() == LISTED


def test_a_new_variable_would_be_seen() -> None:
    assert named_in_python('import os\nx = os.environ.get("SM100SIM_NEW")') == {"SM100SIM_NEW"}
    assert named_in_python('KEY = "SM100SIM_NEW"\nos.environ[KEY]') == {"SM100SIM_NEW"}
