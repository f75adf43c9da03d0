"""The programs of the page on mistakes: clean with the fix, found without it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from sm100sim.options import Check
from sm100sim.report import Report
from testing.harness import SMEM, aligned
from tests.sim.check.edges import MODES
from tests.sim.harness import run_ptx

PAGE = (Path(__file__).parents[3] / "docs" / "patterns.md").read_text()
PROGRAM = re.compile(r"^## (.+?)$.*?^```ptx\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = dict(PROGRAM.findall(PAGE))
START = (
    "mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; mov.u32 %r2, dyn; mov.b64 %rd0, 7;\n"
    "setp.ne.u32 %q0, %r0, 0;\n"
)
HEAD = re.compile(r"// (\d+) threads(?:, clusters of (\d+))?: (.+)\n")
CODE = re.compile(r"\b(?:deadlock|[a-z0-9]+(?:-[a-z0-9]+)+)\b")


def run(name: str, fixed: bool, mode: str, seed: int) -> tuple[Report, set[str]]:
    """The report, and the codes that the page names."""
    found = HEAD.match(PROGRAMS[name])
    assert found
    body = PROGRAMS[name][found.end() :]
    if not fixed:
        body = re.sub(r"^.*// fix\n", "", body, flags=re.MULTILINE)
    ctas = int(found[2] or 1)
    report = run_ptx(
        START + body, aligned(64, np.uint32), aligned(64, np.uint32), shared=SMEM, smem=1024,
        block=int(found[1]), grid=(ctas, 1, 1), cluster=(ctas, 1, 1), checks=Check.ALL, mode=mode,
        seed=seed, raise_on_fault=False,
    )  # fmt: skip
    return report, set(CODE.findall(found[3]))


@pytest.mark.parametrize(("mode", "seed"), MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_clean_with_its_fix_and_found_without(name: str, mode: str, seed: int) -> None:
    correct, codes = run(name, True, mode, seed)
    assert (correct.verdict, correct.findings) == ("clean", ())
    broken, codes = run(name, False, mode, seed)
    met = {finding.code for finding in broken.findings}
    assert met, "not found"
    assert met <= codes


def test_every_section_has_a_program() -> None:
    assert list(PROGRAMS) == re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert len(PROGRAMS) == 9
    assert all("// fix" in program for program in PROGRAMS.values())
