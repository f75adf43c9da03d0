"""Programs of PTX with a mistake: correct and broken versions in one text, as pages show them.

The first line says the launch and the findings: ``// 32 threads, clusters of 2: code, or code``.
A line that ends in ``// fix`` stands in the correct version only, ``// broken`` in the broken one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from sm100sim.options import Check
from sm100sim.report import Report
from testing.harness import SMEM, aligned, run_ptx

START: Final = (
    "mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; mov.u32 %r2, dyn; mov.b64 %rd0, 7;\n"
    "setp.ne.u32 %q0, %r0, 0;\n"
)
"""What every program begins with."""
HEAD: Final = re.compile(r"// (\d+) threads(?:, clusters of (\d+))?(?:, with (\w+))?: (.+)\n")
CODE: Final = re.compile(r"\b(?:[a-z0-9]+(?:-[a-z0-9]+)+|(?:dead|live)lock|mbarrier|misaligned"
                         r"|membermask|trap|unsupported)\b")  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A program in both versions.

    Attributes:
        text: the lines of both, below the first one.
        threads, ctas: of a CTA, and of the one cluster.
        checks: the observers.
        codes: what the broken version can be found for; the first names it.
    """

    text: str
    threads: int
    ctas: int
    checks: Check
    codes: tuple[str, ...]

    @classmethod
    def read(cls, block: str) -> Program:
        """A program from a block of code with its first line.

        Raises:
            ValueError: the first line does not say the launch and the findings.
        """
        head = HEAD.match(block)
        if not head:
            raise ValueError(f"not the first line of a program: {block.splitlines()[0]!r}")
        checks = Check.ALL | (Check[head[3].upper()] if head[3] else Check.NONE)
        codes = tuple(CODE.findall(head[4]))
        return cls(block[head.end() :], int(head[1]), int(head[2] or 1), checks, codes)

    def version(self, fixed: bool) -> str:
        """The PTX of one version."""
        other = "broken" if fixed else "fix"
        return re.sub(rf"^.*// {other}\n", "", self.text, flags=re.MULTILINE)

    def run(self, fixed: bool, mode: str, seed: int) -> Report:
        """Run one version in one order of events."""
        size = (self.ctas, 1, 1)
        return run_ptx(
            START + self.version(fixed), aligned(64, np.uint32), aligned(64, np.uint32),
            shared=SMEM, smem=1024, block=self.threads, grid=size, cluster=size,
            checks=self.checks, mode=mode, seed=seed, raise_on_fault=False,
        )  # fmt: skip


def programs_of_findings() -> dict[str, str]:
    """The programs of ``programs.ptx`` as text, by the finding that names each."""
    blocks = (Path(__file__).parent / "programs.ptx").read_text().strip().split("\n\n")
    return {Program.read(block + "\n").codes[0]: block + "\n" for block in blocks}
