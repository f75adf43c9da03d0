"""TIRx-kernels' attention as a program: none of it is here.

``SM100SIM_TIRX`` names the Python of an environment with PyPI's packages (and torch, which their
module imports):

    python -m venv F; F/bin/pip install apache-tvm==0.27.0 tirx-kernels==0.1.2 numpy torch pytest

It writes CUDA source without a GPU, another for each length, number of heads and mask; nvcc makes
PTX of it with the options that TVM gives. TIRx asks ptxas for a register usage level of its choice:
that travels with the PTX as the name of a variable.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.hopper.times.problems import Problem
from benchmarks.originals.programs import FOLDER
from benchmarks.timing.side_by_side.others import compile_program, launched
from sm100sim.launch_request import LaunchRequest

PYTHON: Final = "SM100SIM_TIRX"
RELEASE: Final = "0.1.2"
TVM: Final = "0.27.0"
DIM: Final = 128
QUERIES: Final = 256
"""Of a task: two tiles of 128."""
MAIN: Final = Path(__file__).with_name("tirx_attention.cu")
LEVEL: Final = re.compile(r"\bregister_usage_level_(\d+)\b")
WRITER: Final = f"""
import os, sys
from importlib.metadata import version
import tvm
from tirx_kernels.ported.flashattention import flash_attention4 as attention

found = version("apache-tvm"), version("tirx-kernels")
assert found == ("{TVM}", "{RELEASE}"), found
length, heads, causal = map(int, sys.argv[1:4])
problem = 1, length, length, heads, heads, {DIM}, bool(causal)
os.environ["FA4_REG_LEVEL"] = sys.argv[5]
kernel = attention.get_flash_attention4_kernel(*problem)
level = attention._select_reg_level(*problem)
target = tvm.target.Target({{"kind": "cuda", "arch": "sm_100a"}})
made = tvm.compile(tvm.IRModule({{"main": kernel}}), target=target, tir_pipeline="tirx")
with open(sys.argv[4], "w") as file:
    file.write(made.mod.imports[0].inspect_source())
    file.write(f"\\nextern \\"C\\" {{{{ __device__ int register_usage_level_{{level}}; }}}}\\n")
"""
"""What that Python runs: LENGTH HEADS CAUSAL FILE LEVEL; an empty level leaves it to TIRx."""


def attention(
    problem: Problem, hear: Callable[[LaunchRequest], Any], sms: int, level: str = ""
) -> None:
    """Attention of TIRx on a GPU of ``sms`` SMs: in fp16, and each sequence's heads as further
    heads of one, which is the same work.

    Args:
        problem: what. hear: told of the launch. sms: of the GPU.
        level: register usage level instead of TIRx's own choice.

    Raises:
        NotImplementedError: it has no kernel for the problem. FileNotFoundError: no Python is
            named. ValueError: it fails. subprocess.CalledProcessError: it writes no source, or nvcc
            refuses it.
    """
    p = problem
    if p.page or p.packed or p.dtype != "bf16" or p.seqlen_q != p.seqlen_k or p.heads != (
        p.heads_kv
    ) or (p.head_dim, p.head_dim_v) != (DIM, DIM):  # fmt: skip
        raise NotImplementedError("here: 16-bit numbers, d128, as many queries as keys, no pages")
    heads = p.batch * p.heads
    tasks = heads * -(-p.seqlen_q // QUERIES)
    ctas = tasks if p.causal else min(sms, tasks)
    program = built(p.seqlen_q, heads, p.causal, level)
    launched([str(program), str(p.seqlen_q), str(heads), str(ctas)], hear)


def built(length: int, heads: int, causal: bool, level: str = "") -> Path:
    """The program of a length, number of heads and mask, made if it is not there: ten seconds.

    Raises:
        FileNotFoundError, subprocess.CalledProcessError: as `attention`.
    """
    python = os.environ.get(PYTHON)
    if python is None:
        raise FileNotFoundError(f"{PYTHON} names no Python with tirx-kernels {RELEASE}")
    words = list(map(str, (length, heads, int(causal))))
    mark = hashlib.sha256((MAIN.read_text() + WRITER).encode()).hexdigest()[:8]
    program = FOLDER / "tirx" / "-".join(("attention", *words, level or "own", mark))
    if not program.is_file():
        program.parent.mkdir(parents=True, exist_ok=True)
        source = program.with_suffix(".cu")
        subprocess.run([python, "-c", WRITER, *words, str(source), level], check=True)
        compile_program(program, MAIN, "-w", "--use_fast_math", f'-DSOURCE="{source}"')
    return program


def at_level(ptxas: str, ptx: str) -> str:
    """The assembler, or where the PTX names a register usage level a script that asks for it."""
    level = LEVEL.search(ptx)
    return ptxas if level is None else _asking(ptxas, int(level[1]))


@cache
def _asking(ptxas: str, level: int) -> str:
    name = hashlib.sha256(ptxas.encode()).hexdigest()[:8]
    script = FOLDER / "tirx" / f"ptxas-{name}-{level}"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f'#!/bin/sh\nexec "{ptxas}" --register-usage-level={level} "$@"\n')
    script.chmod(0o755)
    return str(script)
