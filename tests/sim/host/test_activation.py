"""Programs run in processes of their own, because the DSL reads its environment when imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nvidia_cutlass_dsl", reason="nvidia-cutlass-dsl is not installed")

ROOT = Path(__file__).resolve().parents[3]


def run_process(*command: str, folder: Path = ROOT) -> str:
    """Run python with arguments and give what it printed."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the scenes of recorded_program.py saw, by scene."""
    folder = tmp_path_factory.mktemp("recorded")
    return json.loads(run_process("-m", "tests.sim.host.recorded_program", folder=folder))


Recorded = dict[str, dict[str, Any]]


@pytest.mark.slow
def test_a_launch_arrives_with_its_own_ptx_and_arguments(recorded: Recorded) -> None:
    assert recorded["arguments_of_a_launch"] == {
        "shape": [[2, 1, 1], [32, 1, 1], [2, 1, 1], 0],
        "pointer": True,
        "scalar": "00002040",
        "entry": True,
        "global": True,
    }


def test_kernels_compiled_under_one_name_keep_their_own_ptx(recorded: Recorded) -> None:
    assert recorded["one_name"] == {
        "names": 1,
        "operations": [[True, False], [False, True], [True, False]],
    }


def test_a_jit_function_may_be_called_directly(recorded: Recorded) -> None:
    scene = recorded["direct_calls"]
    assert scene["launches"] == 2
    assert scene["report"].startswith("report ")


def test_files_are_written_where_the_program_asks_and_nowhere_else(recorded: Recorded) -> None:
    assert recorded["kept_files"] == {"files": [".ptx"], "same": True, "folder": ["asked"]}


def test_an_exception_of_the_simulator_reaches_the_caller(recorded: Recorded) -> None:
    assert recorded["failure"] == {
        "text": "wild address, PTX line 12",
        "cause": "DSLCudaRuntimeError",
    }


def test_hardware_queries_are_answered(recorded: Recorded) -> None:
    assert recorded["hardware"] == {"clusters": 2, "sms": 10}


def test_deactivating_restores_the_dsl_and_stops_launches(recorded: Recorded) -> None:
    expected = {"inactive": True, "restored": True, "refused": True, "again": True}
    assert recorded["deactivation"] == expected


@pytest.mark.slow
def test_activating_after_the_dsl_was_imported_is_refused() -> None:
    program = (
        "import cutlass, sm100sim\n"
        "try: sm100sim.activate()\n"
        "except RuntimeError as error: print(error)\n"
    )
    assert "call sm100sim.activate() first" in run_process("-c", program)


def test_importing_the_simulator_imports_neither_torch_nor_the_dsl() -> None:
    program = (
        "import sys, sm100sim; sm100sim.is_active(); print({'torch', 'cutlass'} & {*sys.modules})"
    )
    assert run_process("-c", program).strip() == "set()"


@pytest.mark.slow
def test_a_program_runs_on_the_virtual_machine() -> None:
    program = """
import sm100sim
sm100sim.activate()
import torch
from cutlass.cute.runtime import from_dlpack
from tests.sim.host import programs
x = torch.arange(64.0)
programs.add(from_dlpack(x), 2.5)
programs.scale(from_dlpack(x), 2.0)
print(torch.equal(x, (torch.arange(64.0) + 2.5) * 2), sm100sim.last_report().verdict)
"""
    assert run_process("-c", program).split() == ["True", "clean"]
