"""CTAs of micro-kernels that begin a round together."""

from __future__ import annotations


def meeting(grid: int, later: str, first: int = 0) -> str:
    """All CTAs meet at a counter in global memory, at %rd3, and each waits for `later` cycles.

    The counter held `first` at the beginning; %r60 is the round, %q3 says who does not count.
    """
    return (
        "@!%q3 red.release.gpu.global.add.u32 [%rd3], 1; add.u32 %r48, %r60, 1;"
        f"mul.lo.u32 %r48, %r48, {grid}; add.u32 %r48, %r48, {first};"
        "MEET: ld.acquire.gpu.global.b32 %r49, [%rd3]; setp.lt.u32 %q12, %r49, %r48;"
        "@%q12 bra MEET; mov.u32 %r50, %clock;"
        f"LATE: mov.u32 %r36, %clock; sub.u32 %r37, %r36, %r50; setp.lt.u32 %q13, %r37, {later};"
        "@%q13 bra LATE;"
    )
