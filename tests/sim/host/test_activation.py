"""Each test is a fresh process, because the DSL reads its environment once, when imported."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("nvidia_cutlass_dsl", reason="nvidia-cutlass-dsl is not installed")

ROOT = Path(__file__).resolve().parents[3]

RECORDING = """
import sm100sim.host.activation as activation
launches = []
def record(request):
    launches.append(request)
    return f"report {len(launches)}"
activation._run = record
activation.activate()
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack
from tests.sim.host import programs
"""


def run_program(text: str, *, recording: bool = False, **environment: str) -> str:
    """Run a program in its own process and give what it printed."""
    program = (RECORDING if recording else "") + textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_launch_arrives_with_its_own_ptx_and_arguments() -> None:
    printed = run_program(
        """
        x = torch.zeros(64)
        compiled = cute.compile(programs.add, from_dlpack(x), 1.0)
        compiled(from_dlpack(x), 2.5)
        (r,) = launches
        print(r.grid, r.block, r.cluster, r.smem_bytes, len(r.params))
        print(r.params[0] == x.data_ptr().to_bytes(8, "little"), r.params[1].hex())
        print("add_kernel" in r.kernel, f".entry {r.kernel}(" in r.ptx, ".target sm_100a" in r.ptx)
        print("ld.global" in r.ptx)
        """,
        recording=True,
    )
    assert printed.splitlines() == [
        "(2, 1, 1) (32, 1, 1) (2, 1, 1) 0 2",
        "True 00002040",
        "True True True",
        "True",
    ]


def test_kernels_compiled_under_one_name_keep_their_own_ptx() -> None:
    printed = run_program(
        """
        x = torch.zeros(64)
        kinds = [cute.compile(programs.Apply(m), from_dlpack(x), 1.0) for m in (True, False, True)]
        for compiled in reversed(kinds):
            compiled(from_dlpack(x), 1.0)
        print(len({r.kernel for r in launches}))
        print([[op in r.ptx for op in ("mul.f32", "add.f32")] for r in launches])
        """,
        recording=True,
    )
    assert printed.splitlines() == ["1", "[[True, False], [False, True], [True, False]]"]


def test_a_jit_function_called_directly_runs_too_and_leaves_nothing_behind(tmp_path: Path) -> None:
    run_program(
        f"""
        import os
        os.chdir({str(tmp_path)!r})
        x = torch.zeros(64)
        programs.add(from_dlpack(x), 1.0)
        programs.add(from_dlpack(x), 2.0)
        assert len(launches) == 2
        assert activation.last_report() == "report 2"
        """,
        recording=True,
    )
    assert not list(tmp_path.iterdir())


def test_files_that_the_program_asks_for_are_still_written(tmp_path: Path) -> None:
    run_program(
        f"""
        x = torch.zeros(64)
        folder = {str(tmp_path)!r}
        options = f"--keep-ptx --dump-dir={{folder}}"
        compiled = cute.compile(programs.add, from_dlpack(x), 1.0, options=options)
        compiled(from_dlpack(x), 1.0)
        assert compiled.__ptx__.rstrip(chr(0)) == launches[0].ptx
        """,
        recording=True,
    )
    assert [file.suffix for file in tmp_path.iterdir()] == [".ptx"]


def test_an_exception_of_the_simulator_reaches_the_caller() -> None:
    printed = run_program(
        """
        def broken(request):
            raise ArithmeticError("wild address, PTX line 12")
        x = torch.zeros(64)
        compiled = cute.compile(programs.add, from_dlpack(x), 1.0)
        activation._current.runtime.launcher = broken
        try:
            compiled(from_dlpack(x), 1.0)
        except ArithmeticError as error:
            print(error, "|", type(error.__cause__).__name__)
        """,
        recording=True,
    )
    assert printed.strip() == "wild address, PTX line 12 | DSLCudaRuntimeError"


def test_hardware_queries_are_answered() -> None:
    printed = run_program(
        """
        from cutlass.utils import HardwareInfo
        activation.activate(sm_count=10)
        info = HardwareInfo()
        print(info.get_max_active_clusters(4), info.get_device_multiprocessor_count())
        """,
        recording=True,
    )
    assert printed.split() == ["2", "10"]


def test_activating_after_the_dsl_was_imported_is_refused() -> None:
    printed = run_program(
        """
        import cutlass, sm100sim
        try:
            sm100sim.activate()
        except RuntimeError as error:
            print(error)
        """
    )
    assert "call sm100sim.activate() first" in printed


def test_deactivating_restores_the_dsl_and_stops_launches() -> None:
    printed = run_program(
        """
        from cutlass.base_dsl.compiler import CompileOptions
        changed = CompileOptions.apply_envar_settings
        x = torch.zeros(64)
        compiled = cute.compile(programs.add, from_dlpack(x), 1.0)
        compiled(from_dlpack(x), 1.0)
        activation.deactivate()
        print(activation.is_active(), CompileOptions.apply_envar_settings is changed)
        try:
            compiled(from_dlpack(x), 1.0)
        except Exception as error:
            print("refused", len(launches))
        activation.activate()
        compiled(from_dlpack(x), 1.0)
        cute.compile(programs.add, from_dlpack(x), 1.0)(from_dlpack(x), 1.0)
        print(activation.is_active(), len(launches))
        """,
        recording=True,
    )
    assert printed.splitlines() == ["False False", "refused 1", "True 3"]


def test_importing_the_simulator_imports_neither_torch_nor_the_dsl() -> None:
    printed = run_program(
        "import sys, sm100sim; sm100sim.is_active(); print({'torch', 'cutlass'} & set(sys.modules))"
    )
    assert printed.strip() == "set()"


def test_a_program_runs_on_the_virtual_machine() -> None:
    printed = run_program(
        """
        import sm100sim
        sm100sim.activate()
        import torch
        from cutlass import cute
        from cutlass.cute.runtime import from_dlpack
        from tests.sim.host import programs
        x = torch.arange(64.0)
        programs.add(from_dlpack(x), 2.5)
        programs.scale(from_dlpack(x), 2.0)
        print(torch.equal(x, (torch.arange(64.0) + 2.5) * 2), sm100sim.last_report().verdict)
        """
    )
    assert printed.split() == ["True", "clean"]
