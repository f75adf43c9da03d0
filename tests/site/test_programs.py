"""Programs with a mistake: the correct version is clean, the broken one is found."""

from __future__ import annotations

import pytest

from testing.site.programs import Program, programs_of_findings
from tests.sim.check.edges import MODES

PROGRAMS = programs_of_findings()


@pytest.mark.slow
@pytest.mark.parametrize("code", PROGRAMS)
def test_both_versions(code: str) -> None:
    program = Program.read(PROGRAMS[code])
    met = set()
    for mode, seed in MODES:
        correct = program.run(True, mode, seed)
        assert (correct.verdict, correct.findings) == ("clean", ())
        found = {finding.code for finding in program.run(False, mode, seed).findings}
        assert found, f"not found with {mode}"
        met |= found
    assert code in met
    assert met <= set(program.codes)


def test_versions_differ_by_their_marked_lines() -> None:
    text = (
        "// 64 threads, clusters of 2, with strict_ld: ld-not-waited, or deadlock\na\nb  // fix\n"
    )
    program = Program.read(text + "c  // broken\n")
    assert program.version(True) == "a\nb  // fix\n"
    assert program.version(False) == "a\nc  // broken\n"
    assert (program.threads, program.ctas) == (64, 2)
    assert program.codes == ("ld-not-waited", "deadlock")


def test_a_program_without_its_first_line_is_refused() -> None:
    with pytest.raises(ValueError, match="first line"):
        Program.read("mov.u32 %r0, 1;\n")
