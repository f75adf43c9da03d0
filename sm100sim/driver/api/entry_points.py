"""Errors' names, and entry points by name (CUDA Driver API, "Driver Entry Point Access")."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from ..base.codes import CudaError, Status, description, driver_name
from ..base.session import Session, say
from ..base.table import I32, TABLE, entry

FOUND, NOT_FOUND = 0, 1
PER_THREAD: Final = 2
"""Flag of `cuGetProcAddress`: functions for a default stream per thread."""
_NAMES: Final = Path(__file__).parent.parent / "c" / "driver_names.h"
_VERSIONS: Final = ("_v2", "_v3", "_v4")
_SINCE: Final = {
    "cuCtxCreate_v3": 11040, "cuCtxCreate_v4": 12050, "cuCtxGetDevice_v2": 13000,
    "cuCtxSynchronize_v2": 13000, "cuGraphAddDependencies_v2": 12030,
    "cuGraphAddKernelNode_v2": 12000, "cuGraphAddNode_v2": 12030, "cuGraphGetEdges_v2": 12030,
    "cuGraphNodeGetDependencies_v2": 12030, "cuGraphRemoveDependencies_v2": 12030,
    "cuGraphExecKernelNodeSetParams_v2": 12000, "cuGraphKernelNodeSetParams_v2": 12000,
    "cuMemAdvise_v2": 12020, "cuMemPrefetchAsync_v2": 12020, "cuStreamGetCaptureInfo_v2": 11030,
    "cuStreamGetCaptureInfo_v3": 12030, "cuGetProcAddress_v2": 12000,
}  # fmt: skip
"""Version of CUDA from which on a program means this form (`cudaTypedefs.h` of the toolkit)."""


def _known() -> frozenset[str]:
    return frozenset(re.findall(r"ENTRY\((\w+)\)", _NAMES.read_text()))


def entry_point(s: Session, name: str, version: int, flags: int) -> int:
    """Address of the form of a function that a version means, if modelled; 0 for none."""
    known = s.runtime.setdefault("names", _known())
    forms = [name + form for form in ("", *_VERSIONS) if name + form in known]
    forms = [form for form in forms if _SINCE.get(form, 0) <= version]
    modelled = [form for form in forms if TABLE.find(form) is not None]
    chosen = (modelled or forms or [""])[-1]
    for suffix in ("_ptsz", "_ptds") if flags & PER_THREAD else ():
        if chosen + suffix in known:
            return s.program.resolve(chosen + suffix)
    return s.program.resolve(chosen) if chosen else 0


def give_entry_point(
    s: Session, name: int, out: int, version: int, flags: int, status: int
) -> int:
    """Write the address of a function and whether there is one; a code."""
    address = entry_point(s, s.program.string(name), version, flags)
    s.program.put(out, "Q", address)
    s.program.put(status, "i", FOUND if address else NOT_FOUND)
    return Status.SUCCESS if address else Status.NOT_FOUND


@entry("cuGetProcAddress")
def proc_address(s: Session, name: int, out: int, version: I32, flags: int) -> int:
    """Give a function by its name."""
    return give_entry_point(s, name, out, version, flags, 0)


@entry("cuGetProcAddress_v2")
def proc_address_status(
    s: Session, name: int, out: int, version: I32, flags: int, status: int
) -> int:
    """Give a function by its name, and say whether there is one."""
    return give_entry_point(s, name, out, version, flags, status)


def _text(s: Session, out: int, text: str | None) -> None:
    s.program.put(out, "Q", s.text(text) if text else 0)
    if text is None:
        raise CudaError(Status.INVALID_VALUE)


@entry("cuGetErrorName")
def error_name(s: Session, code: I32, out: int) -> None:
    """Give the name of an error."""
    _text(s, out, driver_name(code))


@entry("cuGetErrorString")
def error_text(s: Session, code: I32, out: int) -> None:
    """Give an error in words."""
    _text(s, out, description(code))


PRIVATE: Final = (
    "NVIDIA's runtime inside the program, or inside a library of it, asks for a private table of "
    "NVIDIA's driver, which sm100sim does not have; its calls will fail. Link with "
    "`nvcc -cudart shared`; a program that is not stripped needs nothing"
)


RUNTIME_TABLE: Final = bytes.fromhex("6bd5fb6c5bf4e74a8987d93912fd9df9")
"""Identifier that NVIDIA's runtime, 12.9 and 13.0, gives up without (seen)."""


@entry("cuGetExportTable")
def export_table(s: Session, out: int, identifier: int) -> int:
    """Have no private tables; say so when the runtime asks for one that it needs."""
    needed = s.program.read(identifier, len(RUNTIME_TABLE)) == RUNTIME_TABLE
    if needed and not s.runtime.setdefault("said private", False):
        s.runtime["said private"] = True
        say(PRIVATE)
    s.program.put(out, "Q", 0)
    return Status.NOT_FOUND
