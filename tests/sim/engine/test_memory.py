"""The engine runs out of host memory: a fault in words, and the process goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

PROGRAM = """
import resource
import numpy as np
from sm100sim.report import SimulationFault
from testing.harness import run_ptx

out = np.zeros(1, np.uint32)
run_ptx("st.global.b32 [%p0], 1;", out)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20), used + (256 << 20)))
try:
    run_ptx("st.global.b32 [%p0], 2;", out, regs=".local .b8 large[16777216];")
except SimulationFault as fault:
    print(fault.report.verdict, fault.report.complete)
    for finding in fault.report.findings:
        print(finding.code, finding.fatal, finding.message)
for _ in range(8):
    run_ptx("st.global.b32 [%p0], 3;", out, regs=".local .b8 small[16384];")
print(out[0])
"""


def test_running_out_of_memory_is_a_fault_and_leaves_the_process_usable() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    verdict, finding, last = done.stdout.splitlines()
    assert verdict == "findings False"
    assert finding.startswith("out-of-memory True the simulator asked for 32 times 16777216 bytes")
    assert last == "3"
