"""Examples of NVIDIA/cutlass (``examples/python/CuTeDSL``) from a local checkout.

``SM100SIM_CUTLASS`` names the checkout's folder; without it there are no cases.  Which programs are
run with which arguments is listed in cutlass_programs.toml.
"""

from __future__ import annotations

import os
import tomllib
from functools import partial
from pathlib import Path

from benchmarks.foreign.cases import Case, Outcome
from benchmarks.foreign.example_script import run_script

CHECKOUT_VARIABLE = "SM100SIM_CUTLASS"
EXAMPLES = Path("examples/python/CuTeDSL")
FOLDERS = {
    "cute": Path("cute"),
    "primitives": Path("experimental/primitives"),
    "cute_ext": Path("cute_ext"),
    "task_scheduling": Path("experimental/task_scheduling/blackwell/tutorial"),
    "tutorials": Path("dsl_tutorials"),
    "hopper": Path("cute/hopper/kernel"),
}
ARCHES = {"hopper": "sm_90a"}
"""Section of cutlass_programs.toml -> what its programs are compiled for, if not for sm_100a."""
PROGRAMS = Path(__file__).with_name("cutlass_programs.toml")
SOURCE = "NVIDIA/cutlass examples/python/CuTeDSL"
SM_COUNT = 4
TOLERANCE = 2e-3


def checkout() -> Path | None:
    """The folder of the examples, if ``SM100SIM_CUTLASS`` names a checkout that has them."""
    folder = os.environ.get(CHECKOUT_VARIABLE)
    examples = Path(folder) / EXAMPLES if folder else None
    return examples if examples is not None and examples.is_dir() else None


def _run(script: Path, arguments: list[str], asserts: bool) -> Outcome | None:
    return run_script(script, arguments, sm_count=SM_COUNT, asserts=asserts)


def _cases() -> list[Case]:
    examples = checkout()
    if examples is None:
        return []
    found = []
    listed = tomllib.loads(PROGRAMS.read_text())
    for section, folder in FOLDERS.items():
        for name, command in listed[section].items():
            script, *arguments = command.split()
            asserts = name in listed["own_assertions"]["programs"]
            run = partial(_run, examples / folder / script, arguments, asserts)
            note, arch = listed["notes"].get(name, ""), ARCHES.get(section, "sm_100a")
            tolerance = listed["tolerances"].get(name, TOLERANCE)
            found.append(Case(f"cutlass_{name}", SOURCE, tolerance, run, note, arch))
    return found


CASES = _cases()
