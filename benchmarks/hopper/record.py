"""Record the PTX programs of the simulator's tests, and compare a GPU's results with the
simulator's.

    python -m benchmarks.hopper.record record CASES.json       (runs the tests once)
    python benchmarks/hopper/replay.py CASES.json RESULTS.json (on the machine with the GPU)
    python -m benchmarks.hopper.record compare CASES.json RESULTS.json

The programs are those that an sm_90a device has too; they are retargeted in their `.target` line
only.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testing import harness

TESTS = (
    "memory/test_memory",
    "memory/test_atomics",
    "memory/test_matrix",
    "sync/test_mbarrier",
    "sync/test_barriers",
    "sync/test_cluster",
    "memory/test_tma",
    "memory/test_tma_store",
    "memory/test_bulk",
    "memory/test_tensormap_ops",
)


def encode(data: bytes) -> str:
    """Base64 text."""
    return base64.b64encode(data).decode()


def owner_of(address: int, arrays: list[np.ndarray]) -> tuple[int, int] | None:
    """(index, offset) of the array that holds a host address."""
    for k, array in enumerate(arrays):
        if 0 <= address - array.ctypes.data < max(array.nbytes, 1):
            return k, address - array.ctypes.data
    return None


def parameters(arguments: tuple[Any, ...], arrays: list[np.ndarray]) -> list[list[Any]] | None:
    """The kernel's parameters; None when a tensor map names memory outside of the arrays."""
    out: list[list[Any]] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            out.append(["buffer", next(k for k, a in enumerate(arrays) if a is argument)])
        elif isinstance(argument, bytes):
            place = owner_of(int.from_bytes(argument[:8], "little"), arrays)
            if place is None and len(argument) == 128:
                return None
            out.append(["map", encode(argument), *place] if place else ["value", encode(argument)])
        else:
            out.append(["value", encode((int(argument) & 0xFFFFFFFF).to_bytes(4, "little"))])
    return out


class Recorder:
    """Stands in for `run_ptx` and keeps every program that ran without a fault."""

    def __init__(self) -> None:
        self.original = harness.run_ptx
        self.cases: dict[str, dict[str, Any]] = {}

    def __call__(self, body: str, *arguments: Any, **options: Any) -> Any:
        """Run in the simulator and record."""
        arrays = [a for a in arguments if isinstance(a, np.ndarray)]
        before = [encode(a.tobytes()) for a in arrays]
        params = parameters(arguments, arrays)
        report = self.original(body, *arguments, **options)
        text = harness.kernel_text(
            body, arguments, *(options.get(k, "") for k in ("regs", "shared", "directives"))
        )
        block = options.get("block", 32)
        if params is None or (options.get("mode", "fast") == "late" and report.findings):
            return report
        case = {
            "ptx": text.replace(".target sm_100a", ".target sm_90a"),
            "kernel": "k",
            "grid": list(options.get("grid", (1, 1, 1))),
            "block": [block, 1, 1] if isinstance(block, int) else list(block),
            "cluster": list(options.get("cluster", (1, 1, 1))),
            "smem": options.get("smem", 0),
            "params": params,
            "buffers": before,
            "expected": [encode(a.tobytes()) for a in arrays],
            "findings": [f.code for f in report.findings],
        }
        self.cases.setdefault(text + "".join(before), case)
        return report


def record(path: str) -> None:
    """Run the tests with the recorder in place and write the cases."""
    recorder = Recorder()
    names = [f"tests.sim.isa.{name.replace('/', '.')}" for name in TESTS]

    class Plugin:
        @staticmethod
        def pytest_collection_finish() -> None:
            for name in [*names, "tests.sim.isa.memory.programs"]:
                sys.modules[name].run_ptx = recorder  # type: ignore[attr-defined]

    pytest.main(
        ["-q", "-p", "no:cacheprovider", *(f"tests/sim/isa/{name}.py" for name in TESTS)],
        plugins=[Plugin()],
    )
    Path(path).write_text(json.dumps(list(recorder.cases.values())))
    print(f"{len(recorder.cases)} programs")


def compare(cases_path: str, results_path: str) -> None:
    """Print how the GPU's results differ from the simulator's."""
    cases, results = (json.loads(Path(p).read_text()) for p in (cases_path, results_path))
    same, refused = 0, 0
    for case, result in zip(cases, results, strict=True):
        body = case["ptx"].split("\n")[-4][:150]
        if "error" in result:
            refused += result["error"].startswith("cuModuleLoadDataEx")
            print(f"{result['error'][:230]}\n    {body}")
        elif result["buffers"] == case["expected"]:
            same += 1
        else:
            print(f"DIFFERENT {case['findings']}\n    {body}")
    print(f"{len(cases)} programs: {same} agree bit for bit, {refused} are not accepted for sm_90a")


if __name__ == "__main__":
    commands: dict[str, Callable[..., None]] = {"record": record, "compare": compare}
    commands[sys.argv[1]](*sys.argv[2:])
