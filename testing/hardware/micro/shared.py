"""PTX pieces for kernels on shared memory: fill, dump, one thread, bounded waits."""

from __future__ import annotations

SMEM = ".extern .shared .align 1024 .b8 dyn[];"
DATA = 1024
"""Bytes of dynamic shared memory in front of the data: barriers lie there."""

BASE = "mov.u32 %r1, dyn; mov.u32 %r0, %tid.x;\n"
SENTINEL = "0xA5A5A5A5"


def fill(count: int, label: str = "F", pointer: str | None = None) -> str:
    """Warp 0 writes `count` bytes at the data: the sentinel, or words from global `pointer`."""
    source = (
        f"cvt.u64.u32 %rd1, %r3; add.s64 %rd1, %rd1, {pointer}; ld.global.b32 %r4, [%rd1];"
        if pointer
        else f"mov.b32 %r4, {SENTINEL};"
    )
    return (
        f"shl.b32 %r3, %r0, 2; {label}: {source} add.u32 %r2, %r1, %r3; st.shared.b32 [%r2+{DATA}], %r4;"
        f"add.u32 %r3, %r3, 128; setp.lt.u32 %q1, %r3, {count}; @%q1 bra {label};\n"
        "fence.proxy.async; bar.warp.sync -1;\n"
    )


def dump(count: int, pointer: str = "%p1", offset: str = "0", label: str = "D") -> str:
    """Warp 0 copies `count` bytes of the data to global `pointer` plus register or number `offset`."""
    return (
        f"shl.b32 %r3, %r0, 2; {label}: add.u32 %r2, %r1, %r3; ld.shared.b32 %r4, [%r2+{DATA}];"
        f"add.u32 %r5, %r3, {offset}; cvt.u64.u32 %rd1, %r5; add.s64 %rd1, %rd1, {pointer}; st.global.b32 [%rd1], %r4;"
        f"add.u32 %r3, %r3, 128; setp.lt.u32 %q1, %r3, {count}; @%q1 bra {label};\n"
    )


def only(thread: int, body: str, label: str = "SKIP") -> str:
    """`body` for one thread, then the warp meets."""
    return (
        f"setp.ne.u32 %q15, %r0, {thread}; @%q15 bra {label};\n{body}\n{label}: bar.warp.sync -1;\n"
    )


def bounded_wait(parity: int = 0, label: str = "W", bar: str = "%r1") -> str:
    """Wait with an end: %r9 is 1 when the phase completed, 0 after many attempts."""
    return (
        f"mov.u32 %r8, 0; {label}: mbarrier.try_wait.parity.shared.b64 %q0, [{bar}], {parity}, 20000; add.u32 %r8, %r8, 1;"
        f"setp.gt.u32 %q2, %r8, 3000; @%q2 bra {label}X; @!%q0 bra {label}; {label}X: selp.b32 %r9, 1, 0, %q0; bar.warp.sync -1;\n"
    )


def init(count: int = 1) -> str:
    """One mbarrier at the start of dynamic shared memory."""
    return f"mbarrier.init.shared.b64 [%r1], {count}; fence.mbarrier_init.release.cluster; fence.proxy.async;"
