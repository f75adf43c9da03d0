"""Facts of machine code that one ptxas makes of anybody's PTX, and what it is predicted to take."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from benchmarks.kernel_facts import Facts, facts_of_code
from benchmarks.machine_state import CHIP, DRAWS, model
from benchmarks.originals.programs import TARGET
from sm100sim.crew.recording import Recording
from sm100sim.timing.predict import predict_recording
from testing.sass import Instruction, SoftmaxLoop, disassemble, pair_loop, softmax_loops


@dataclass(frozen=True)
class Cycles:
    """Predicted cycles of a launch on ``CHIP``.

    Attributes:
        typical: with the chip's own values. low, high: 5 % and 95 % of its draws.
        model: which state of the clocked machine said so.
    """

    typical: int
    low: int
    high: int
    model: str


def assembler() -> str | None:
    """The path of ptxas: on PATH, or in a package of CUDA or of Triton; None without one."""
    if found := shutil.which("ptxas"):
        return found
    roots = [
        root
        for package in ("nvidia", "triton")
        if (spec := importlib.util.find_spec(package))
        for root in spec.submodule_search_locations or ()
    ]
    names = ("*/bin/ptxas", "backends/nvidia/bin/ptxas-blackwell")
    return next((str(p) for root in roots for name in names for p in Path(root).glob(name)), None)


@lru_cache(maxsize=1)
def assembler_version() -> str:
    """E.g. "13.0.88"; empty without an assembler."""
    ptxas = assembler()
    if ptxas is None:
        return ""
    text = subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"V(\d[\d.]*)", text)
    return found[1] if found else "unknown"


def machine_code(ptx: str) -> list[Instruction]:
    """The instructions of the only kernel of a module.

    Raises:
        FileNotFoundError: no assembler, or no disassembler.
        subprocess.CalledProcessError: the assembler refuses the module.
    """
    ptxas = assembler()
    if ptxas is None:
        raise FileNotFoundError("ptxas: install the CUDA toolkit, or Triton")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        line = [ptxas, f"-arch={TARGET}", "-o", str(target), str(source)]
        subprocess.run(line, check=True, capture_output=True, text=True)
        return disassemble(target.read_bytes())


def loops_of(code: list[Instruction]) -> list[SoftmaxLoop]:
    """Softmax tiles: P in Tensor Memory, or else in shared memory; none where neither is met."""
    try:
        return list(softmax_loops(code)) or [pair_loop(code)]
    except (IndexError, KeyError):
        return []


@lru_cache(maxsize=32)
def facts_of_ptx(ptx: str) -> Facts:
    """Facts of the only kernel of a module; errors as :func:`machine_code`."""
    code = machine_code(ptx)
    return facts_of_code(code, loops_of(code))


def predicted(recorded: Recording) -> Cycles:
    """What a launch is predicted to take, all of whose clusters were recorded.

    Raises:
        FileNotFoundError: there is no assembler, or no disassembler.
        ValueError, Unmatched: as `sm100sim.timing.predict.predict_recording`.
    """
    found = predict_recording(recorded, CHIP, ptxas=assembler(), draws=DRAWS)
    band = found.band
    return Cycles(round(found.typical.cycles), round(band.low), round(band.high), model())
