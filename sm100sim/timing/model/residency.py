"""How many CTAs an SM holds, and what is left of its shared memory for an L1."""

from __future__ import annotations

from typing import Final

from ..chips import Draw
from ..records import ClusterTrace

THREADS_PER_WARP: Final = 32
REGISTER_UNIT: Final = 8
"""Registers of a thread are given in eights."""
MAX_CTAS: Final = 32
LINE_BYTES: Final = 128
CARVED: Final = tuple(kilobytes * 1024 for kilobytes in (0, 8, 16, 32, 64, 100, 132, 164, 196, 228))
"""Bytes of an SM that can be shared memory. Source: CUDA C++ Programming Guide, "Compute
Capabilities", 9.0 and 10.0."""


def cta_registers(registers: int, warps: int) -> int:
    """Return the registers that a CTA takes whose threads have so many."""
    return -(-registers // REGISTER_UNIT) * REGISTER_UNIT * THREADS_PER_WARP * warps


def limits(warps: int, registers: int, shared_bytes: int, draw: Draw) -> dict[str, int]:
    """Return how many CTAs an SM holds by what it has of each thing.

    Args:
        warps, shared_bytes: of a CTA. registers: of a thread. draw: the values of the chip.
    """
    return {
        "registers": int(draw["registers"]) // cta_registers(registers, warps),
        "shared memory": int(draw["shared_bytes"]) // max(shared_bytes, 1),
        "warps": int(draw["max_warps"]) // warps,
        "CTAs": MAX_CTAS,
    }


def l1_lines(trace: ClusterTrace, draw: Draw) -> int:
    """Return the lines of an SM's L1; 0 where a chip does not say, or the trace.

    It is what the shared memory leaves of both. The driver makes that as large as it has to be for
    all CTAs that an SM can hold, whether a launch has as many or not. Source:
    benchmarks/timing/h200_kept.json, rings beside shared memory.
    """
    if not trace.shared_bytes or "l1_bytes" not in draw.values:
        return 0
    warps = 1 + max(stream.warp for stream in trace.streams)
    ctas = min(limits(warps, trace.kernel.registers, trace.shared_bytes, draw).values())
    taken = ctas * trace.shared_bytes
    carved = min((size for size in CARVED if size >= taken), default=CARVED[-1])
    return max(int(draw["l1_bytes"] - carved - draw["l1_reserved_bytes"]) // LINE_BYTES, 0)
