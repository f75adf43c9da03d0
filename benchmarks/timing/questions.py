"""Micro-kernels that time something n times over between two readings of the clock.

The difference of two lengths is the time of one; what is left is the fixed part. Every kernel times
its steps four times, so that the last ones run from a warm instruction cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from testing.hardware.case import Case, MapArgs, filled
from testing.hardware.micro.shared import BASE, SMEM
from testing.hardware.micro.wgmma.programs import A_BYTES, Form

ROUNDS = 4
ROW_BYTES = 128
TENSOR_ROWS = 1024
"""Rows of the tensor that each CTA copies from."""
DATA = 1024
"""Where data begin in dynamic shared memory; mbarriers lie in front of them."""
SMS = 132


@dataclass(frozen=True)
class Question:
    """Something that takes time.

    Attributes:
        name: of what is timed. tells: parameters of a chip that follow from it.
        steps: PTX of the nth of the steps. before: PTX in front of the first clock.
        after: PTX that waits for what the steps began. sink: PTX behind the second clock.
        counts: the two lengths. box_rows: of the boxes that it copies. scratch: bytes at %p0;
            zeros: they are 0.
        first: thread from which on times count. matrix: rows and columns that boxes are of.
    """

    name: str
    tells: str
    steps: Callable[[int], str]
    counts: tuple[int, int]
    before: str = ""
    after: str = ""
    sink: str = ""
    block: int = 32
    grid: int = 1
    smem: int = 4096
    box_rows: int = 0
    scratch: int = 0
    zeros: bool = False
    first: int = 0
    matrix: tuple[int, int] = (0, 0)

    def case(self, count: int) -> Case:
        """The micro-kernel with `count` steps; its output is cycles by round, CTA and thread."""
        threads = self.grid * self.block
        maps, inputs = [], []
        if self.box_rows:
            rows, columns = self.matrix
            if not rows:
                rows, columns = self.grid * TENSOR_ROWS, ROW_BYTES // 2
            inputs = [filled(rows * columns * 2)]
            box = (ROW_BYTES // 2, self.box_rows)
            sizes, strides = (columns, rows), (columns * 2,)
            maps = [MapArgs(0, "FLOAT16", sizes, strides, box, swizzle=3)]
        if self.scratch:
            inputs = [np.zeros(self.scratch, np.uint8) if self.zeros else filled(self.scratch)]
        body = [
            BASE + "mov.u32 %r62, %ctaid.x; mov.u32 %r60, 0; cvt.rn.f32.u32 %f0, %r0;",
            self.before,
            f"mad.lo.u32 %r59, %r62, {self.block}, %r0; mul.wide.u32 %rd62, %r59, 4;"
            f"add.s64 %rd62, %rd62, %p{len(inputs)}; ROUND: bar.sync 0; mov.u32 %r50, %clock;",
            *(self.steps(n).replace("$n", str(n)) for n in range(count)),
            self.after,
            "mov.u32 %r51, %clock; sub.u32 %r52, %r51, %r50; st.global.b32 [%rd62], %r52;",
            self.sink,
            f"add.s64 %rd62, %rd62, {4 * threads}; add.u32 %r60, %r60, 1;"
            f"setp.lt.u32 %q14, %r60, {ROUNDS}; @%q14 bra ROUND;",
        ]
        return Case(
            name=f"{self.name} x {count}", family="timing", body="\n".join(body),
            inputs=tuple(inputs),
            outputs=(filled(ROUNDS * threads, np.uint32),), maps=tuple(maps), grid=self.grid,
            block=self.block, smem=self.smem, shared=SMEM,
        )  # fmt: skip


USED = "st.volatile.shared.b32 [%r1+256], %f1; "
"""Waits for a chain to end; the clock is read behind it."""
LATE = "shr.u32 %r58, %r50, 31; cvt.rn.f32.u32 %f1, %r58; "
"""A value that there is only once the clock has been read."""


def chain(text: str) -> Callable[[int], str]:
    """Steps that each need the one before."""
    return lambda n: (LATE if n == 0 else "") + text


def wait(barrier: str, parity: int, label: str, limit: str = "") -> str:
    """Wait without an end: what is waited for comes."""
    return (
        f"{label}$n: mbarrier.try_wait.parity.shared.b64 %q0, [{barrier}], {parity}{limit};"
        f"@!%q0 bra {label}$n; "
    )


def _hand_over(n: int, limit: str = "") -> str:
    """Warp 0 arrives at one barrier and waits for the other; warp 1 answers."""
    there, back = wait("%r1", n % 2, "U", limit), wait("%r1+8", n % 2, "V", limit)
    return (
        "setp.gt.u32 %q1, %r0, 31; and.b32 %r2, %r0, 31; setp.ne.u32 %q2, %r2, 0;"
        "@%q2 bra NEXT$n; @%q1 bra SECOND$n;"
        f"mbarrier.arrive.shared.b64 %rd9, [%r1]; {back} bra NEXT$n;"
        f"SECOND$n: {there} mbarrier.arrive.shared.b64 %rd9, [%r1+8]; NEXT$n: bar.warp.sync -1; "
    )


def _copies(count: int, rows: int) -> Callable[[int], str]:
    """One lane loads boxes and waits for them; every step loads the same."""

    def step(n: int) -> str:
        loads = " ".join(
            "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            f"[%r3+{k * rows * ROW_BYTES}], [%m0, {{%r5, %r{10 + k}}}], [%r1];"
            for k in range(count)
        )
        total = count * rows * ROW_BYTES
        return (
            f"@%q3 bra DONE$n; mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], {total}; {loads}"
            f"{wait('%r1', n % 2, 'W')} DONE$n: bar.warp.sync -1; "
        )

    return step


def _stores(wait: str) -> Callable[[int], str]:
    return lambda n: (
        "@%q3 bra DONE$n; cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
        "[%m0, {%r5, %r10}], [%r3]; cp.async.bulk.commit_group;"
        f"cp.async.bulk.wait_group{wait} 0; DONE$n: bar.warp.sync -1; "
    )


def boxes(count: int, rows: int) -> str:
    """One mbarrier, an aligned buffer (%r3), coordinates of the CTA's boxes (%r5, %r10...)."""
    first = f"mul.lo.u32 %r10, %r62, {TENSOR_ROWS}; mov.u32 %r5, 0; add.u32 %r3, %r1, {DATA};"
    others = " ".join(
        f"add.u32 %r{10 + k}, %r10, {k * rows % TENSOR_ROWS};" for k in range(1, count)
    )
    return f"setp.ne.u32 %q3, %r0, 0; {first} {others} {barriers(1)}"


def barriers(arrivals: int) -> str:
    """Two mbarriers at %r1, each of so many arrivals; an event of a run is known by its line."""
    return (
        "setp.ne.u32 %q13, %r0, 0; @%q13 bra SET; "
        f"mbarrier.init.shared.b64 [%r1], {arrivals};\n"
        f"mbarrier.init.shared.b64 [%r1+8], {arrivals};"
        "fence.mbarrier_init.release.cluster; fence.proxy.async; SET: bar.sync 0; "
    )


def _copy_question(name: str, tells: str, count: int, rows: int, grid: int = 1) -> Question:
    smem = DATA + count * rows * ROW_BYTES
    return Question(
        name, tells, _copies(count, rows), (2, 6), boxes(count, rows), smem=smem,
        box_rows=rows, grid=grid,
    )  # fmt: skip


def set_up(form: Form, values: str) -> str:
    """Registers and descriptors of products; `values` sets the accumulator and A."""
    return (
        f".reg .b32 %d<{form.results}>; .reg .b32 %a<4>; {values}"
        f"add.u32 %r3, %r1, {DATA}; shr.u32 %r5, %r3, 4; cvt.u64.u32 %rd6, %r5;"
        f"mov.b64 %rd4, {form.descriptor(start=0, mn_major=False)}; add.s64 %rd4, %rd4, %rd6;"
        f"mov.b64 %rd5, {form.descriptor(start=A_BYTES, mn_major=False)};"
        "add.s64 %rd5, %rd5, %rd6; setp.eq.u32 %q0, %r1, %r1;"
        # Shared memory that nothing writes would be undefined, and the products left out.
        "shl.b32 %r7, %r0, 2; add.u32 %r7, %r7, %r3; st.volatile.shared.b32 [%r7], 0; "
        "fence.proxy.async; bar.sync 0; "
    )


def products(n: int, *, registers: bool = False, block: int = 128) -> Question:
    """A chain of wgmmas in one group, by each warp group of the CTA.

    Each has registers of A of its own, which are set to 0: two cycles a pair, before the chain.
    """
    form = Form("f32", "bf16", "bf16", n, registers=registers)
    zero = " ".join(f"mov.b32 %d{k}, 0;" for k in range(form.results))
    zero += "mov.b32 %a0, 0; mov.b32 %a1, 0; mov.b32 %a2, 0; mov.b32 %a3, 0;"
    used = " ".join(f"st.volatile.shared.b32 [%r1+512], %d{k};" for k in range(form.results))
    a = "registers" if registers else "shared memory"
    groups = block // 128
    return Question(
        f"wgmma m64n{n}k16, A in {a}, {groups} warp group" + "s" * (groups > 1),
        "wgmma_gap, wgmma_latency", lambda k: (
            "wgmma.fence.sync.aligned; " if k == 0 else ""
        ) + form.instruction() + " ", (8, 40), set_up(form, zero),
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ",
        used, block=block, smem=DATA + 65536,
    )  # fmt: skip


QUESTIONS = (
    Question("ex2, a chain", "mufu_cycles + mufu_latency",
             chain("ex2.approx.ftz.f32 %f1, %f1; "), (32, 160), after=USED),
    Question("fma, a chain", "stall counts", chain("fma.rn.f32 %f1, %f1, %f0, %f0; "), (32, 160),
             after=USED),
    Question("load of shared memory, a chain", "shared_latency",
             chain("ld.volatile.shared.b32 %r3, [%r3]; "), (16, 80),
             "add.u32 %r3, %r1, 512; st.volatile.shared.b32 [%r3], %r3; "),
    Question("shuffle, a chain", "shuffle_latency",
             # A value that all lanes share is not shuffled: each lane has its own.
             lambda n: ("shr.u32 %r3, %r50, 31; add.u32 %r3, %r3, %r0; " if n == 0 else "")
             + "shfl.sync.idx.b32 %r3, %r3, %r3, 31, -1; ", (16, 80), "",
             "st.volatile.shared.b32 [%r1+256], %r3; "),
    Question("load that hits the L2, a chain", "global_latency",
             chain("ld.relaxed.gpu.global.b64 %rd5, [%rd5]; "), (4, 20),
             "mov.b64 %rd5, %p0; st.relaxed.gpu.global.b64 [%rd5], %rd5; ",
             "st.volatile.shared.b64 [%r1+256], %rd5; ", scratch=4096),
    *(Question(f"barrier of {w} warps", "named_warp, named_latency", lambda n: "bar.sync 1; ",
               (8, 40), block=32 * w) for w in (1, 4, 8, 12)),
    Question("arrival and wait by one thread", "arrive_latency + wait_latency",
             lambda n: "mbarrier.arrive.shared.b64 %rd9, [%r1]; " + wait("%r1", n % 2, "W"),
             (8, 40), barriers(1), block=1),
    Question("wait for a phase that ended", "wait_latency",
             lambda n: wait("%r1", 1, "W"), (8, 40), barriers(1), block=1),
    Question("hand-over between two warps and back", "2 (arrive_latency + wake_latency)",
             _hand_over, (8, 40), barriers(1), block=64),
    Question("the same, and the waits name a limit of 10 ms", "what NANOSLEEP.SYNCS costs",
             lambda n: _hand_over(n, ", 10000000"), (8, 40), barriers(1), block=64),
    *(_copy_question(f"copy of {c} x {r} rows", "copy_latency, copy_row_cycles", c, r)
      for c, r in ((1, 8), (1, 64), (1, 128), (1, 256), (2, 64), (2, 128), (4, 64), (4, 128))),
    *(_copy_question(f"copy of {c} x 128 rows in each of {SMS} CTAs", "l2_bytes", c, 128, SMS)
      for c in (1, 2, 4, 8)),
    Question("store of 128 rows, read", "store_bytes", _stores(".read"), (2, 6), boxes(1, 128),
             smem=DATA + 128 * ROW_BYTES, box_rows=128),
    Question("store of 128 rows, done", "store_latency", _stores(""), (2, 6), boxes(1, 128),
             smem=DATA + 128 * ROW_BYTES, box_rows=128),
    *(products(n) for n in (8, 64, 128, 176, 256)),
    *(products(n, registers=True) for n in (64, 128, 256)),
    products(128, block=256),
    Question("proxy fence of shared memory", "fence_cycles",
             lambda n: "st.volatile.shared.b32 [%r1+256], %r0; fence.proxy.async.shared::cta; ",
             (8, 40)),
    Question("memory barrier of a CTA", "membar_cycles",
             lambda n: "st.volatile.shared.b32 [%r1+256], %r0; fence.acq_rel.cta; ", (8, 40)),
)  # fmt: skip
