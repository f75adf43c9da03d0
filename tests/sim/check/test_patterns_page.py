"""The programs of the page on mistakes: clean with the fix, found without it."""

from __future__ import annotations

import re

import pytest

from testing.site.findings import PATTERNS, PATTERNS_PAGE
from testing.site.programs import Program
from tests.sim.check.edges import MODES


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("name", PATTERNS)
def test_a_program_is_clean_with_its_fix_and_found_without(name: str, mode: str, seed: int) -> None:
    program = Program.read(PATTERNS[name])
    correct = program.run(True, mode, seed)
    assert (correct.verdict, correct.findings) == ("clean", ())
    met = {finding.code for finding in program.run(False, mode, seed).findings}
    assert met, "not found"
    assert met <= set(program.codes)


def test_every_section_has_a_program() -> None:
    assert list(PATTERNS) == re.findall(r"^## (.+)$", PATTERNS_PAGE.read_text(), re.MULTILINE)
    assert len(PATTERNS) == 10
    assert all("// fix" in program for program in PATTERNS.values())
