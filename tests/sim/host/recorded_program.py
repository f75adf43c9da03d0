# ruff: noqa: E402 - the simulator is activated before the DSL is imported
"""Runs CuTe DSL programs under ``sm100sim.activate()`` with a launcher that only records.

Run as a script in a process of its own; prints one JSON object of what happened.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from sm100sim.host import activation

launches: list[Any] = []


def record(request: Any) -> str:
    """Stands for the simulator."""
    launches.append(request)
    return f"report {len(launches)}"


activation._run = record
activation.activate()

import torch
from cutlass import cute
from cutlass.base_dsl.compiler import CompileOptions
from cutlass.cute.runtime import from_dlpack
from cutlass.utils import HardwareInfo

from tests.sim.host import programs


def launched(compiled: Any, *arguments: Any) -> list[Any]:
    """The launches of one call."""
    before = len(launches)
    compiled(*arguments)
    return launches[before:]


def arguments_of_a_launch(x: torch.Tensor) -> dict[str, Any]:
    (r,) = launched(cute.compile(programs.add, from_dlpack(x), 1.0), from_dlpack(x), 2.5)
    return {
        "shape": [r.grid, r.block, r.cluster, r.smem_bytes],
        "pointer": r.params[0] == x.data_ptr().to_bytes(8, "little"),
        "scalar": r.params[1].hex(),
        "entry": f".entry {r.kernel}(" in r.ptx and "add_kernel" in r.kernel,
        "global": "ld.global" in r.ptx,
    }


def one_name(x: torch.Tensor) -> dict[str, Any]:
    kinds = [cute.compile(programs.Apply(m), from_dlpack(x), 1.0) for m in (True, False, True)]
    made = [launched(compiled, from_dlpack(x), 1.0)[0] for compiled in reversed(kinds)]
    return {
        "names": len({r.kernel for r in made}),
        "operations": [[op in r.ptx for op in ("mul.f32", "add.f32")] for r in made],
    }


def direct_calls(x: torch.Tensor) -> dict[str, Any]:
    before = len(launches)
    programs.add(from_dlpack(x), 1.0)
    programs.add(from_dlpack(x), 2.0)
    return {"launches": len(launches) - before, "report": activation.last_report()}


def kept_files(x: torch.Tensor) -> dict[str, Any]:
    options = "--keep-ptx --dump-dir=asked"
    os.mkdir("asked")
    compiled = cute.compile(programs.add, from_dlpack(x), 1.0, options=options)
    (r,) = launched(compiled, from_dlpack(x), 1.0)
    return {
        "files": [os.path.splitext(name)[1] for name in os.listdir("asked")],
        "same": compiled.__ptx__.rstrip("\0") == r.ptx,
        "folder": sorted(os.listdir(".")),
    }


def failure(x: torch.Tensor) -> dict[str, Any]:
    def broken(_request: Any) -> None:
        raise ArithmeticError("wild address, PTX line 12")

    current = activation._current
    assert current is not None
    runtime = current.runtime
    runtime.launcher, kept = broken, runtime.launcher
    try:
        programs.add(from_dlpack(x), 1.0)
    except ArithmeticError as error:
        return {"text": str(error), "cause": type(error.__cause__).__name__}
    finally:
        runtime.launcher = kept
    return {}


def hardware(_x: torch.Tensor) -> dict[str, Any]:
    activation.activate(sm_count=10)
    info = HardwareInfo()
    return {
        "clusters": info.get_max_active_clusters(4),
        "sms": info.get_device_multiprocessor_count(),
    }


def deactivation(x: torch.Tensor) -> dict[str, Any]:
    changed = CompileOptions.apply_envar_settings
    compiled = cute.compile(programs.add, from_dlpack(x), 1.0)
    compiled(from_dlpack(x), 1.0)
    activation.deactivate()
    found = {
        "inactive": not activation.is_active(),
        "restored": CompileOptions.apply_envar_settings is not changed,
    }
    before = len(launches)
    try:
        compiled(from_dlpack(x), 1.0)
    except Exception as error:
        found["refused"] = len(launches) == before and "Initialization" in str(error)
    activation.activate()
    compiled(from_dlpack(x), 1.0)
    return found | {"again": len(launches) == before + 1 and activation.is_active()}


SCENES = (
    arguments_of_a_launch, one_name, direct_calls, kept_files, failure, hardware, deactivation,
)  # fmt: skip

if __name__ == "__main__":
    values = torch.zeros(64)
    json.dump({scene.__name__: scene(values) for scene in SCENES}, sys.stdout)
