"""What was timed: releases of FlashAttention-4, and what compiled them.

The same source is other machine code with another release of the CuTe DSL, and with its libraries
of CUDA 12 or 13, whose compilers write other PTX. A release from PyPI runs beside today's packages
from a folder of its own, e.g.

    pip install --no-deps --target F flash-attn-4==4.0.0b15 quack-kernels==0.4.0 \\
        nvidia-cutlass-dsl==4.4.2 nvidia-cutlass-dsl-libs-base==4.4.2 nvidia-cuda-nvcc==13.1.80
    pip install --no-deps --target F --upgrade nvidia-cutlass-dsl-libs-cu13==4.4.2
    PYTHONPATH=F/nvidia_cutlass_dsl/python_packages:F python -m benchmarks.timing.claims

The second line is for CUDA 13. Release 4.6.0.dev0 takes the newer of two libraries that it finds.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Final

from benchmarks.timing.side_by_side import tirx
from benchmarks.timing.side_by_side.callers import CUDA12, CUDA13

TVM_FFI: Final = "cutlass.cutlass_dsl.tvm_ffi_provider"


@dataclass(frozen=True)
class Build:
    """A compiled FlashAttention-4.

    Attributes:
        release: of flash-attn-4. dsl: release of nvidia-cutlass-dsl.
        cuda: whose libraries of the DSL wrote the PTX, 12 or 13.
        assembler: version of the ptxas that makes its machine code; the DSL's own, or one that
            differs in its last number.
    """

    release: str
    dsl: str
    cuda: int
    assembler: str

    @property
    def name(self) -> str:
        """E.g. "b15, DSL 4.4.2 for CUDA 13, ptxas 13.1"."""
        short = self.release.removeprefix("4.0.0")
        return f"{short}, DSL {self.dsl} for CUDA {self.cuda}, ptxas {self.assembler}"

    @property
    def here(self) -> bool:
        """Whether this process has its packages; `ready` comes first."""
        cuda = import_module("cutlass").CUDA_VERSION.major
        found = version("flash-attn-4"), version("nvidia-cutlass-dsl"), cuda
        return found == (self.release, self.dsl, self.cuda)


@dataclass(frozen=True)
class TirxBuild(Build):
    """TIRx-kernels' attention: `release` of tirx-kernels, `dsl` of apache-tvm, `cuda` of nvcc."""

    @property
    def name(self) -> str:
        """E.g. "tirx-kernels 0.1.2, apache-tvm 0.27.0, nvcc 13, ptxas 13.4"."""
        made = f"apache-tvm {self.dsl}, nvcc {self.cuda}"
        return f"tirx-kernels {self.release}, {made}, ptxas {self.assembler}"

    @property
    def here(self) -> bool:
        """Whether its Python is named."""
        return tirx.PYTHON in os.environ


TODAY: Final = Build("4.0.0b36", "4.8.1", 12, CUDA13)
APRIL_12: Final = Build("4.0.0b9", "4.4.2", 12, CUDA12)
APRIL: Final = Build("4.0.0b11", "4.4.2", 13, "13.1")
MAY: Final = Build("4.0.0b15", "4.4.2", 13, "13.1")
JUNE: Final = Build("4.0.0b18", "4.5.2", 13, "13.1")
JULY_12: Final = Build("4.0.0b23", "4.6.0.dev0", 12, CUDA12)
TODAY_13: Final = Build("4.0.0b36", "4.8.1", 13, CUDA13)
JULY: Final = Build("4.0.0b23", "4.6.0.dev0", 13, "13.3")
TIRX: Final = TirxBuild(tirx.RELEASE, tirx.TVM, 13, CUDA13)


def ready() -> None:
    """Make an older DSL one that the simulator adjusts, after its activation.

    In 4.6.0.dev0 compiled functions inherit their `__call__`, which is wrapped in their class.
    """
    owner = import_module(TVM_FFI).TVMFFIJitCompiledFunction
    if "__call__" not in vars(owner):
        owner.__call__ = owner.__call__
