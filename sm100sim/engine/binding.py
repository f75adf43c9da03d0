"""ctypes view of the engine: compile it once per machine, load it, mirror its structures."""

from __future__ import annotations

import ctypes as ct
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
FLAGS = ("-O3", "-march=native", "-std=gnu11", "-ffp-contract=off", "-fno-math-errno")


class Options(ct.Structure):
    """`Options` of engine.h."""

    _fields_ = [
        ("grid", ct.c_uint32 * 3),
        ("block", ct.c_uint32 * 3),
        ("cluster", ct.c_uint32 * 3),
        ("dynamic_smem", ct.c_uint32),
        ("n_params_bytes", ct.c_uint32),
        ("mode", ct.c_uint32),
        ("poison", ct.c_uint32),
        ("check", ct.c_uint32),
        ("trace_cluster", ct.c_uint32),
        ("max_findings", ct.c_uint32),
        ("seed", ct.c_uint64),
        ("max_idle_instructions", ct.c_uint64),
    ]


class Region(ct.Structure):
    """`Region` of engine.h: a known global allocation."""

    _fields_ = [("lo", ct.c_uint64), ("hi", ct.c_uint64), ("writable", ct.c_uint32)]


class RawFinding(ct.Structure):
    """`Finding` of engine.h."""

    _fields_ = [
        ("count", ct.c_uint32),
        ("line", ct.c_uint32),
        ("line2", ct.c_uint32),
        ("rank", ct.c_uint32),
        ("warp", ct.c_uint32),
        ("lane", ct.c_uint32),
        ("ctaid", ct.c_uint32 * 3),
        ("text", ct.c_char * 512),
    ]


class RawEvent(ct.Structure):
    """`Event` of engine.h."""

    _fields_ = [
        ("kind", ct.c_uint32),
        ("rank", ct.c_uint32),
        ("warp", ct.c_uint32),
        ("lane", ct.c_uint32),
        ("line", ct.c_uint32),
        ("t0", ct.c_uint64),
        ("t1", ct.c_uint64),
        ("a", ct.c_uint64),
        ("b", ct.c_uint64),
    ]


def _declare(lib: ct.CDLL) -> None:
    pointer, u32, u64 = ct.c_void_p, ct.c_uint32, ct.c_uint64
    signatures: dict[str, tuple[list[type], type | None]] = {
        "sm100_opcode_count": ([], u32),
        "sm100_opcode_name": ([u32], ct.c_char_p),
        "sm100_machine_new": ([ct.POINTER(Options)], pointer),
        "sm100_machine_load": (
            [pointer, pointer, u32, pointer, u32, pointer, u32, pointer, u32, u32, u32, u32],
            ct.c_int,
        ),
        "sm100_machine_memory": ([pointer, ct.POINTER(Region), u32, pointer], None),
        "sm100_machine_run": ([pointer, pointer, u64], ct.c_int),
        "sm100_machine_findings": ([pointer, ct.POINTER(RawFinding), u32], u32),
        "sm100_machine_events": ([pointer, pointer, u64], u64),
        "sm100_machine_counts": ([pointer, pointer, pointer, pointer], None),
        "sm100_machine_stop": ([pointer], None),
        "sm100_machine_free": ([pointer], None),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(lib, name)
        function.argtypes = arguments
        function.restype = result


@cache
def load_engine() -> ct.CDLL:
    """The engine library, compiled with the system's C compiler when this machine has no copy yet.

    Raises:
        RuntimeError: no C compiler, or the compilation failed; the message holds the command.
    """
    from ..host.build import build_library

    sources = sorted(HERE.rglob("*.c"))
    library = build_library("sm100sim_engine", sources, FLAGS, include=HERE)
    lib = ct.CDLL(str(library))
    _declare(lib)
    return lib


@cache
def opcode_numbers() -> dict[str, int]:
    """Handler name -> opcode number of the loaded engine."""
    lib = load_engine()
    return {lib.sm100_opcode_name(k).decode(): k for k in range(lib.sm100_opcode_count())}
