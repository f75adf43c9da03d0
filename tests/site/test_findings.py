"""The page of findings has every code of the engine, with an example."""

from __future__ import annotations

import re

import pytest

from testing.site.findings import CHOSEN, ENGINE, codes, example, table
from testing.site.markdown import ROOT
from testing.site.programs import programs_of_findings


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "findings.md").read_text()
    assert page == table(), "run: python -m testing.site.findings docs/findings.md"


@pytest.mark.parametrize("code", codes())
def test_every_code_has_words_and_an_example(code: str) -> None:
    assert codes()[code].says
    assert codes()[code].kinds
    assert example(code)


def test_every_program_is_of_a_code() -> None:
    assert set(programs_of_findings()) <= set(codes())


def test_codes_that_are_variables_are_named_by_hand() -> None:
    """Calls whose code is no literal pass one on, or one of CHOSEN."""
    for code, file in CHOSEN.items():
        text = (ENGINE / file).read_text()
        assert f'"{code}"' in text or f'"{code.split("-")[0]}-%s"' in text


def test_rules_of_the_checking_page_are_codes() -> None:
    page = (ROOT / "docs" / "checking.md").read_text()
    tables = page.partition("| finding | meaning |")[2].partition("## Uninitialised reads")[0]
    named = re.findall(r"`([a-z0-9-]+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", tables, re.M)))
    assert len(named) > 20
    assert set(named) <= set(codes())


def test_a_code_that_nothing_shows_is_refused() -> None:
    with pytest.raises(ValueError, match="no program and no test"):
        example("a-code-of-nobody" + "-else")
