# ruff: noqa: E402 - the simulator is activated before the DSL is imported
"""Records small problems as `record_fa4` does, and runs the records on the simulator.

Run as a script in a process of its own, with CUTE_DSL_ARCH=sm_90a; prints problem -> error of a
launch on tensors at other addresses.
"""

from __future__ import annotations

import json
from dataclasses import replace

import sm100sim

sm100sim.activate(sm_count=4)

from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.record_fa4 import Recorder
from benchmarks.hopper.times.tensors import error, make
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import RunOptions
from sm100sim.run import run

SMALL = Problem("full", 2, 200, 200, 2, 1, 64, 64, causal=True)
PROBLEMS = (
    SMALL,
    replace(SMALL, group="packed", packed=True),
    replace(SMALL, group="paged", page=16, seqlen_q=1, causal=False),
)


def main() -> None:
    """Record, replay, compare."""
    recorder, errors = Recorder(), {}
    for problem in PROBLEMS:
        recorder.add(problem)
        launch = recorder.launches[problem.name]
        tensors = make(problem, "cpu")
        params = launch.patched({name: t.data_ptr() for name, t in tensors.items()})
        request = LaunchRequest(
            recorder.ptx[launch.image], launch.kernel, launch.grid, launch.block, launch.cluster,
            launch.smem_bytes, params,
        )  # fmt: skip
        run(request, RunOptions())
        errors[problem.group] = error(problem, tensors)
    print(json.dumps(errors))


if __name__ == "__main__":
    main()
