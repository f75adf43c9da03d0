"""What the first answers left open: whole warps that wait, code, and products beside work.

In the first questions one lane waited while the others stood aside, and a wait of lanes that part
ended at steps of 170 cycles. Here all lanes of a warp wait, as in kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np

from benchmarks.timing.questions import (
    DATA,
    ROW_BYTES,
    SMS,
    TENSOR_ROWS,
    Question,
    barriers,
    boxes,
    set_up,
    wait,
)
from testing.hardware.case import Case
from testing.hardware.micro.shared import SMEM
from testing.hardware.micro.wgmma.programs import Form

CODE_STEP = 64
"""Instructions of a step of code: one KB."""
CHAINS = 16
"""Registers that take turns, so that no instruction waits for the one before."""
FEW, BOX = 8, 128
"""Boxes of a step, and their rows, where all SMs copy."""
FLAG = 768
"""Where the products' warp group says, in shared memory, that its products have ended."""


def _hand_over(n: int, limit: str = "") -> str:
    there, back = wait("%r1", n % 2, "U", limit), wait("%r1+8", n % 2, "V", limit)
    return (
        "setp.gt.u32 %q1, %r0, 31; and.b32 %r2, %r0, 31; setp.ne.u32 %q2, %r2, 0;"
        f"@%q1 bra SECOND$n; @!%q2 mbarrier.arrive.shared.b64 %rd9, [%r1]; {back} bra NEXT$n;"
        f"SECOND$n: {there} @!%q2 mbarrier.arrive.shared.b64 %rd9, [%r1+8]; NEXT$n: "
    )


def _shared(sharers: int) -> str:
    """Boxes of which several CTAs copy the same."""
    own = f"mul.lo.u32 %r10, %r62, {TENSOR_ROWS};"
    first = f"div.u32 %r10, %r62, {sharers}; mul.lo.u32 %r10, %r10, {TENSOR_ROWS};"
    text = boxes(FEW, BOX)
    if own not in text:
        raise ValueError(f"{text!r} has no {own!r}")
    return text.replace(own, first)


def _shared_question(sharers: int) -> Question:
    """Copies of all SMs at once; neighbours copy the same rows."""
    return Question(
        f"copy of {FEW} x {BOX} rows in each of {SMS} CTAs, {sharers} of them the same",
        "l2_bytes", _copies(FEW, BOX), (2, 6), _shared(sharers),
        smem=DATA + FEW * BOX * ROW_BYTES, box_rows=BOX, grid=SMS,
    )  # fmt: skip


def _copies(count: int, rows: int) -> Callable[[int], str]:
    """One lane loads boxes, and all of its warp wait."""
    load = (
        "@!%q3 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%r3+{to}], [%m0, {{%r5, %r{row}}}], [%r1]; "
    )
    loads = "".join(load.format(to=k * rows * ROW_BYTES, row=10 + k) for k in range(count))
    expect = f"@!%q3 mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], {count * rows * ROW_BYTES};"
    return lambda n: f"{expect} {loads} {wait('%r1', n % 2, 'W')} "


def _copy_question(count: int, rows: int) -> Question:
    return Question(
        f"copy of {count} x {rows} rows, a whole warp waits", "copy_latency, copy_row_cycles",
        _copies(count, rows), (2, 6), boxes(count, rows),
        smem=DATA + count * rows * ROW_BYTES, box_rows=rows,
    )  # fmt: skip


def _store_question(rows: int) -> Question:
    store = (
        "@!%q3 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
        "[%m0, {%r5, %r10}], [%r3]; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; "
    )
    return Question(
        f"store of {rows} rows, a whole warp waits", "store_bytes, store_read_latency",
        lambda n: store, (2, 6), boxes(1, rows), smem=DATA + rows * ROW_BYTES, box_rows=rows,
    )  # fmt: skip


def _additions(n: int) -> str:
    return "".join(
        f"add.rn.f32 %f{2 + k % CHAINS}, %f{2 + k % CHAINS}, %f0; " for k in range(CODE_STEP)
    )


SUM = " ".join(f"add.rn.f32 %f1, %f1, %f{2 + k};" for k in range(CHAINS))
START = "mov.f32 %f1, %f0; " + " ".join(f"add.rn.f32 %f{2 + k}, %f0, 0f3F800000;"
                                        for k in range(CHAINS))  # fmt: skip
KEPT = f"{SUM} st.volatile.shared.b32 [%r1+256], %f1; "


def _code_question(few: int, many: int, warps: int) -> Question:
    """From `few` to `many` KB of code, executed again and again by warps of one place each."""
    return Question(
        f"code of {few} to {many} KB, {warps} warps a sub-partition", "icache_lines, icache_next",
        _additions, (few, many), START, sink=KEPT, block=128 * warps,
    )  # fmt: skip


WORK = {
    "additions": _additions(0),
    "maxima": _additions(0).replace("add.rn.f32", "max.f32"),
    "exponentials": "".join(
        f"ex2.approx.ftz.f32 %f{2 + k % CHAINS}, %f{2 + k % CHAINS}; " for k in range(CHAINS)
    ),
}
"""What other warps do beside products."""


def _beside(columns: int, work: str, groups: int, *, registers: bool) -> Question:
    """A chain of products beside other warps' additions, maxima or exponentials."""
    return products_beside((columns, registers), work, WORK[work], groups, START, KEPT)


def products_beside(
    shape: tuple[int, bool], work: str, text: str, groups: int, begin: str, keep: str
) -> Question:
    """A chain of products by the first warp group, while others work until it has ended.

    Those others give no time: they read the clock once more at the end. `shape`: the products'
    columns, and whether A lies in registers; `work`: a name for `text`.
    """
    columns, registers = shape
    form = Form("f32", "bf16", "bf16", columns, registers=registers)
    values = " ".join(f"mov.b32 %d{k}, %f0;" for k in range(form.results))
    values += " ".join(f"shr.u32 %a{k}, %r0, {k + 1};" for k in range(4))
    before = (
        f"st.volatile.shared.b32 [%r1+{FLAG}], 0; "
        + set_up(form, values) + begin + " setp.gt.u32 %q12, %r0, 127; "
    )  # fmt: skip
    used = " ".join(f"st.volatile.shared.b32 [%r1+512], %d{k};" for k in range(form.results))
    after = (
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; "
        f"add.u32 %r61, %r60, 1; st.volatile.shared.b32 [%r1+{FLAG}], %r61; bra READ; "
        f"OTHER: {text} ld.volatile.shared.b32 %r61, [%r1+{FLAG}]; "
        "setp.le.u32 %q11, %r61, %r60; @%q11 bra OTHER; mov.u32 %r50, %clock; READ: "
    )
    a = "registers" if registers else "shared memory"
    return Question(
        f"wgmma m64n{columns}k16, A in {a}, beside {work} of {groups} warps a sub-partition",
        "product_writes", lambda k: (
            "@%q12 bra OTHER; wgmma.fence.sync.aligned; " if k == 0 else ""
        ) + form.instruction() + " ", (8, 30), before, after, f"{used} {keep}",
        block=128 * (1 + groups), smem=DATA + 65536,
    )  # fmt: skip


MORE_QUESTIONS = (
    Question("hand-over between two whole warps and back", "2 (arrive_latency + wake_latency)",
             _hand_over, (8, 40), barriers(1), block=64),
    Question("the same of whole warps, and the waits name a limit of 10 ms",
             "what NANOSLEEP.SYNCS costs", lambda n: _hand_over(n, ", 10000000"), (8, 40),
             barriers(1), block=64),
    *(_copy_question(c, r)
      for c, r in ((1, 8), (1, 32), (1, 64), (1, 128), (1, 192), (1, 256), (2, 128), (4, 128))),
    *(_shared_question(sharers) for sharers in (1, 2, 4, 12, SMS)),
    *(_store_question(rows) for rows in (8, 64, 128, 256)),
    *(_code_question(few, many, warps) for warps in (1, 3)
      for few, many in ((2, 4), (4, 6), (6, 8), (8, 12), (12, 16), (16, 24), (24, 32), (32, 48))),
    *(_beside(columns, work, groups, registers=registers)
      for columns, registers in ((64, True), (128, False))
      for work in WORK for groups in (1, 2)),
)  # fmt: skip

GAP_ROUNDS, GAP_SHARED = 6, 227 * 1024
"""CTAs that follow one another in a place of an SM, and its shared memory."""
GAPS = (*product((64, 128, 256, 384, 512), (1, 2, 4, 8)), (64, 16), (128, 16))
"""Threads of a CTA, and CTAs of an SM."""
LASTS = ((4000, 0), (4000, 2047), (20000, 8191))
"""Cycles that a CTA lasts, and the bits of a number that some last longer by."""


def gap_case(threads: int, resident: int, lasts: tuple[int, int]) -> Case:
    """CTAs that only read the clock for a while; the output is begin, end and SM of each."""
    grid, size = SMS * resident * GAP_ROUNDS, GAP_SHARED // resident // 1024 * 1024 - 1024
    body = (
        "mov.u32 %r1, dyn; mov.u32 %r0, %tid.x; mov.u32 %r62, %ctaid.x; mov.u32 %r50, %clock; "
        "mul.lo.u32 %r2, %r62, 1103515245; shr.u32 %r2, %r2, 8; and.b32 %r2, %r2, %n1; "
        "add.u32 %r2, %r2, %n0; SPIN: mov.u32 %r51, %clock; sub.u32 %r52, %r51, %r50; "
        "setp.lt.u32 %q0, %r52, %r2; @%q0 bra SPIN; mov.u32 %r53, %smid; "
        "setp.ne.u32 %q1, %r0, 0; @%q1 bra DONE; mul.wide.u32 %rd1, %r62, 12; "
        "add.s64 %rd1, %rd1, %p0; st.global.b32 [%rd1], %r50; st.global.b32 [%rd1+8], %r53; "
        "mov.u32 %r51, %clock; st.global.b32 [%rd1+4], %r51; DONE: "
    )
    return Case(
        name=f"{resident} CTAs of {threads} threads an SM, {lasts}", family="timing", body=body,
        outputs=(np.zeros(3 * grid, np.uint32),), numbers=lasts, grid=grid, block=threads,
        smem=size, shared=SMEM, directives=f".maxntid {threads}",
    )  # fmt: skip


def gaps_of(times: np.ndarray, resident: int) -> np.ndarray:
    """Cycles from the kth end on an SM to the start that it made room for, of all SMs.

    `times`: begin, end and SM of each CTA, as `gap_case` writes them.
    """
    rows = times.reshape(-1, 3)
    found = []
    for sm in np.unique(rows[:, 2]):
        mine = rows[rows[:, 2] == sm][:, :2]
        starts, ends = np.sort((mine - mine[0, 0]).astype(np.int32), axis=0).T  # the clock wraps
        found.append(starts[resident:] - ends[: len(starts) - resident])
    return np.concatenate(found)

EIGHT_BITS = ("e4m3", "e5m2")
"""Types of which two conversions fill a register; "bf16" needs one."""
PAIRS = 32
"""Conversions of a step: of two numbers each."""


def _converted(kind: str, k: int) -> str:
    """The kth register anew, from others of the sixteen."""
    a, b, c, d = (f"%f{2 + (k + n) % CHAINS}" for n in (0, 5, 7, 11))
    if kind not in EIGHT_BITS:
        return f"cvt.rn.bf16x2.f32 %r20, {a}, {b}; mov.b32 {a}, %r20; "
    low, high = (
        f"cvt.rn.satfinite.{kind}x2.f32 %{name}, {x}, {y}; "
        for name, x, y in (("low", a, b), ("high", c, d))
    )
    return f"{low}{high}mov.b32 {a}, {{%low, %high}}; "


def _conversions(kind: str, warps: int, beside: str = "", each: int = 0) -> Question:
    """Conversions of warps of a sub-partition, with others of `BESIDE_CONVERSIONS` among them."""
    registers = PAIRS // 2 if kind in EIGHT_BITS else PAIRS
    text = "".join(
        _converted(kind, k)
        + "".join(BESIDE_CONVERSIONS[beside].format(f"%f{20 + (k * each + n) % 8}")
                  for n in range(each))
        for k in range(registers)
    )  # fmt: skip
    among = f" among {each * registers} {beside}" if beside else ""
    others = " ".join(f"add.rn.f32 %f{20 + k}, %f0, 0f3F800000;" for k in range(8))
    return Question(
        f"{PAIRS} conversions to {kind} of {warps} warps a sub-partition{among}", "alu_cycles",
        lambda n: text, (8, 24), f".reg .b16 %low, %high; {START} {others} mov.u32 %r20, %r0; ",
        "", " ".join(f"add.rn.f32 %f1, %f1, %f{20 + k};" for k in range(8)) + KEPT,
        block=128 * warps,
    )  # fmt: skip


BESIDE_CONVERSIONS = {
    "": "", "exponentials": "ex2.approx.ftz.f32 {0}, {0}; ",
    "multiplications": "fma.rn.f32 {0}, {0}, %f0, %f0; ",
    "maxima": "max.f32 {0}, {0}, %f0; ",
}  # fmt: skip
CONVERSION_QUESTIONS = (
    *(_conversions(kind, warps) for kind in (*EIGHT_BITS, "bf16") for warps in (1, 2, 4)),
    *(_conversions(kind, warps, beside, each * (2 if kind in EIGHT_BITS else 1))
      for kind in ("e4m3", "bf16") for warps in (1, 2)
      for beside, each in (("exponentials", 1), ("multiplications", 1), ("maxima", 1))),
)  # fmt: skip


def asked_copies(rows: int, *, elected: bool) -> Question:
    """Boxes that a warp asks for, one behind the other; none is waited for until the end.

    `elected`: by a lane that `elect.sync` names, whose code has no loop over lanes.
    """
    size = rows * ROW_BYTES
    load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    who, lane = ("elect.sync %r58|%q4, -1;\n@%q4", "an elected lane") if elected else (
        "@!%q3", "lane 0")  # fmt: skip

    def step(n: int) -> str:
        row = n * rows % TENSOR_ROWS
        return (
            f"{who} {load} [%r3+{n * size}], [%m0, {{0, {row}}}], [%r1];\n"
            f"add.u32 %r20, %r20, {size};\n"
        )

    return Question(
        f"box of {rows} rows asked for by {lane}", "tma_read_latency", step, (4, 16),
        f"{boxes(1, rows)} mov.u32 %r20, 0; ", "",
        "@%q3 bra DONE; mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], %r20;\n"
        "and.b32 %r21, %r60, 1; LATER: mbarrier.try_wait.parity.shared.b64 %q0, [%r1], %r21;\n"
        "@!%q0 bra LATER; DONE: mov.u32 %r20, 0; bar.warp.sync -1; ",
        smem=DATA + 16 * size, box_rows=rows,
    )  # fmt: skip


ASKED_QUESTIONS = tuple(
    asked_copies(rows, elected=elected) for rows in (8, 16, 32, 64) for elected in (False, True)
)
"""How fast a warp asks for boxes: with 16 or fewer rows copying them takes no longer."""
