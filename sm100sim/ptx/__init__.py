"""PTX text -> typed program with resolved names, labels and reconvergence points.

`parse(text)` gives a `Module` of `Kernel`s (program.py); `build_cfg(kernel)` its blocks and the
points where divergent lanes meet again.  Whatever is not understood raises `PtxError` with the
line.  Nothing here knows what an instruction does.
"""

from __future__ import annotations

from .cfg import Cfg, build_cfg
from .errors import PtxError, Unsupported
from .parser import parse
from .program import (
    Address,
    GlobalVar,
    Guard,
    Imm,
    Instr,
    Kernel,
    Module,
    NotPred,
    Operand,
    Param,
    PredPair,
    Reg,
    Sink,
    SpecialReg,
    Symbol,
    TensorAddress,
    Vector,
)
from .types import TYPES, PtxType

__all__ = [
    "TYPES",
    "Address",
    "Cfg",
    "GlobalVar",
    "Guard",
    "Imm",
    "Instr",
    "Kernel",
    "Module",
    "NotPred",
    "Operand",
    "Param",
    "PredPair",
    "PtxError",
    "PtxType",
    "Reg",
    "Sink",
    "SpecialReg",
    "Symbol",
    "TensorAddress",
    "Unsupported",
    "Vector",
    "build_cfg",
    "parse",
]
