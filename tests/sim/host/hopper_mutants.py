# ruff: noqa: I001 - hopper_gemm activates the simulator before the DSL is imported
"""Faults of wgmma in the GEMM of hopper_gemm.py, one at a time; prints one JSON object.

Run as a script in a process of its own, with CUTE_DSL_ARCH=sm_90a: mutant -> how it was noticed
("" when it was not), and the verdict of the program as it is.
"""

from __future__ import annotations

from typing import Any
import json
from dataclasses import replace
from types import SimpleNamespace

from tests.sim.host import hopper_gemm as gemm

import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack

from sm100sim.host.activation import runtime
from sm100sim.launch_request import LaunchRequest
from sm100sim.mutate import mutants
from sm100sim.options import Check, RunOptions
from sm100sim.report import SimulationFault
from sm100sim.run import run

SCHEDULES = tuple(
    RunOptions(mode=mode, checks=Check.ALL, max_idle_instructions=100_000)
    for mode in ("fast", "late")
)


class Trial:
    """One launch that can be made again with other PTX."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.a = torch.randn(gemm.M, gemm.K).bfloat16()
        self.b = torch.randn(gemm.N, gemm.K).bfloat16()
        self.c = torch.zeros(gemm.M, gemm.N)
        found: list[LaunchRequest] = []

        def noted(request: LaunchRequest) -> Any:
            found.append(request)
            return SimpleNamespace(findings=())

        runtime().launcher = noted
        arguments = [from_dlpack(x, assumed_align=16) for x in (self.a, self.b, self.c)]
        cute.compile(gemm.gemm, *arguments)(*arguments)
        (self.request,) = found

    def noticed(self, ptx: str) -> str:
        """How a schedule shows that something is wrong; "" when none does."""
        expected = self.a.double() @ self.b.double().T
        for options in SCHEDULES:
            self.c.fill_(float("nan"))
            try:
                report = run(replace(self.request, ptx=ptx), options)
            except SimulationFault as fault:
                return f"fault: {fault.report.findings[-1].code}"
            if report.findings:
                return f"finding: {report.findings[0].code}"
            if not float((self.c - expected).abs().max()) < 1e-4:
                return "values"
        return ""


def main() -> None:
    """Run the program, then every mutant of one of its wgmma statements."""
    trial = Trial()
    planted = [
        m for m in mutants(trial.request.ptx, trial.request.kernel)
        if m.before.startswith("wgmma")
    ]  # fmt: skip
    results = {m.name: trial.noticed(m.ptx) for m in planted}
    print(json.dumps({"clean": trial.noticed(trial.request.ptx) == "", "mutants": results}))


if __name__ == "__main__":
    main()
