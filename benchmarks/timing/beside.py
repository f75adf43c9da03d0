"""Questions about rates: of instructions beside products, of products that are waited for, of
operands that SMs share. `benchmarks/timing/h200_beside.json` was asked with code of ptxas 13.0.

`LANE_QUESTIONS` are about copies by lanes, and comparisons; `APART_QUESTIONS` about how far rows
lie apart, how many CTAs in a row share them, and products beside copies by lanes.
"""

from __future__ import annotations

from benchmarks.timing.more_questions import CHAINS, FLAG, START, WORK
from benchmarks.timing.questions import DATA, ROW_BYTES, Question, barriers, set_up, wait
from testing.hardware.micro.wgmma.programs import Form

PRODUCT_CYCLES = 9000
"""Products go on for as long. Two warps with 24 steps take longer: of these 8 steps count."""
COLUMNS, COLUMN_STEP = 4096, 64
LANE_DATA, LANE_PRODUCT_CYCLES = DATA + 65536, 14000
"""Where lanes copy to beside products, and for how long those go on."""

SCORES = "".join(
    f"fma.rn.f32 %f{2 + a}, %f{2 + a}, %f1, %f0; fma.rn.f32 %f{2 + b}, %f{2 + b}, %f1, %f0; "
    f"ex2.approx.ftz.f32 %f{2 + a}, %f{2 + a}; ex2.approx.ftz.f32 %f{2 + b}, %f{2 + b}; "
    f"max.f32 %f18, %f18, %f{2 + a}; max.f32 %f19, %f19, %f{2 + b}; "
    f"add.rn.f32 %f20, %f20, %f{2 + a}; add.rn.f32 %f21, %f21, %f{2 + b}; "
    f"cvt.rn.bf16x2.f32 %r20, %f{2 + a}, %f{2 + b}; xor.b32 %r21, %r21, %r20; "
    for a, b in ((k, k + 1) for k in range(0, CHAINS, 2))
)
"""What attention does with 16 scores."""
COMPARISONS = "".join(
    f"setp.gt.and.f32 %q{1 + k % 6}, %f{2 + k % CHAINS}, "
    f"%f{2 + (k + 1 + k // CHAINS) % CHAINS}, %q{1 + k % 6}; "
    for k in range(64)
)
SELECTIONS = "".join(
    f"selp.f32 %f{2 + k % CHAINS}, %f{2 + k % CHAINS}, %f{2 + (k + 5) % CHAINS}, %q{1 + k % 6}; "
    for k in range(64)
)
OTHERS = {
    "additions": WORK["additions"],
    "maxima": WORK["maxima"],
    "exponentials": WORK["exponentials"],
    "multiplications and additions": "".join(
        f"fma.rn.f32 %f{2 + k % CHAINS}, %f{2 + k % CHAINS}, %f{2 + (k + 5) % CHAINS}, "
        f"%f{2 + (k + 10) % CHAINS}; "
        for k in range(64)
    ),
    "scores": SCORES,
}
"""What a step is of."""
CHOOSING = {"comparisons": COMPARISONS, "selections": SELECTIONS}
"""The same of steps with predicates, which are set before and kept after."""
PRODUCTS = {"no products": None, "n64, A in registers": (64, True), "n128": (128, False),
            "n256": (256, False), "n256, A in registers": (256, True)}  # fmt: skip
BEGIN = START + "mov.f32 %f18, %f0; mov.f32 %f19, %f0; mov.f32 %f20, %f0; mov.f32 %f21, %f0; " \
    "mov.u32 %r20, %r0; mov.u32 %r21, %r62; "  # fmt: skip
KEEP = (
    "mov.f32 %f22, %f0; "
    + " ".join(f"add.rn.f32 %f22, %f22, %f{2 + k};" for k in range(CHAINS + 4))
    + " cvt.rn.f32.u32 %f23, %r20; add.rn.f32 %f22, %f22, %f23; cvt.rn.f32.u32 %f23, %r21;"
    "add.rn.f32 %f22, %f22, %f23; st.volatile.shared.b32 [%r1+256], %f22; "
)

CHOICES = " ".join(f"setp.ne.u32 %q{1 + k}, %r0, {5000 + k}; " for k in range(6))
KEPT_CHOICES = " ".join(
    f"selp.b32 %r20, %r20, {k}, %q{1 + k}; cvt.rn.f32.u32 %f23, %r20; "
    "add.rn.f32 %f22, %f22, %f23; "
    for k in range(6)
) + "st.volatile.shared.b32 [%r1+256], %f22; "  # fmt: skip


def _form(columns: int, *, registers: bool) -> Form:
    return Form("f32", "bf16", "bf16", columns, registers=registers)


def _used(form: Form) -> str:
    return " ".join(f"st.volatile.shared.b32 [%r1+512], %d{k};" for k in range(form.results))


def beside_products(
    name: str, text: str, groups: int, shape: tuple[int, bool] | None, begin: str, keep: str,
    counts: tuple[int, int] = (8, 24),
) -> Question:  # fmt: skip
    """Warps of `groups` groups do a step's `text` so often beside products of the first, which go
    on; `shape`: their columns, and whether A lies in registers; None for no products.
    """
    if shape is None:
        return Question(name, "write ports", lambda n: text, counts, begin, "", keep,
                        block=128 * groups, smem=DATA + 65536)  # fmt: skip
    form = _form(shape[0], registers=shape[1])
    values = " ".join(f"mov.b32 %d{k}, %f0;" for k in range(form.results))
    values += " ".join(f"shr.u32 %a{k}, %r0, {k + 1};" for k in range(4))
    after = (
        "bra READ; PRODUCTS: wgmma.fence.sync.aligned; "
        + form.instruction() * (PRODUCT_CYCLES * 2 // form.n)
        + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; READ: "
    )
    return Question(
        name, "product_writes, mufu_port_cycles",
        lambda n: ("@!%q12 bra PRODUCTS; " if n == 0 else "") + text, counts,
        set_up(form, values) + begin + " setp.gt.u32 %q12, %r0, 127; ", after,
        f"{_used(form)} {keep}", block=128 * (1 + groups), smem=DATA + 65536, first=128,
    )  # fmt: skip


def _timed(work: str, groups: int, beside: str) -> Question:
    """Arithmetic beside products."""
    chooses = work in CHOOSING
    return beside_products(
        f"{work} of {groups} warps a sub-partition beside {beside}", (OTHERS | CHOOSING)[work],
        groups, PRODUCTS[beside], BEGIN + CHOICES * chooses, KEEP + KEPT_CHOICES * chooses,
    )


def _lanes_set_up(
    rows: tuple[int, int], across: int, grid: int, first: int, columns: int
) -> str:
    """Addresses of a lane's 16 bytes of A and B (%rd20, %rd21), and in shared memory (%r24).

    Eight lanes copy 128 bytes of a row; those lie in shared memory as an MMA of 128-byte swizzle
    wants them.
    """
    rows_of_a = -(-grid // across) * rows[0]
    return (
        f"sub.u32 %r20, %r0, {first}; shr.u32 %r21, %r20, 3; and.b32 %r22, %r20, 7; "
        "and.b32 %r23, %r21, 7; xor.b32 %r23, %r23, %r22; shl.b32 %r24, %r21, 7; "
        f"shl.b32 %r23, %r23, 4; add.u32 %r24, %r24, %r23; add.u32 %r24, %r24, %r1; "
        f"add.u32 %r24, %r24, {LANE_DATA if first else DATA}; "
        f"div.u32 %r25, %r62, {across}; mul.lo.u32 %r26, %r25, {across}; "
        f"sub.u32 %r26, %r62, %r26; mad.lo.u32 %r25, %r25, {rows[0]}, %r21; "
        f"mad.lo.u32 %r26, %r26, {rows[1]}, %r21; add.u32 %r26, %r26, {rows_of_a}; "
        "shl.b32 %r22, %r22, 4; cvt.u64.u32 %rd22, %r22; add.s64 %rd22, %rd22, %p0; "
        f"mul.wide.u32 %rd20, %r25, {2 * columns}; add.s64 %rd20, %rd20, %rd22; "
        f"mul.wide.u32 %rd21, %r26, {2 * columns}; add.s64 %rd21, %rd21, %rd22; "
    )


def _lanes(
    rows: tuple[int, int], lanes: int, slots: int, grid: int, across: int, beside: int = 0,
    columns: int = COLUMNS,
) -> Question:  # fmt: skip
    """Operands of a GEMM copied by lanes, 16 bytes each, without products or beside them.

    Args:
        rows: of A and B in a step. lanes: that copy. slots: of the ring; all but one are asked for.
        grid, across: as of `_operands`. beside: columns of products, 0 for none.
        columns: between one row and the next.
    """
    size, first = sum(rows) * ROW_BYTES, 128 if beside else 0
    each = lanes // 8

    def asked(turn: int) -> str:
        text, at = "", turn % slots * size
        for k in range(sum(rows) // each):
            of_a = k * each < rows[0]
            row = k * each - (0 if of_a else rows[0])
            text += (
                f"cp.async.cg.shared.global [%r24+{at + k * each * ROW_BYTES}], "
                f"[%rd{20 if of_a else 21}+{turn * ROW_BYTES + row * 2 * columns}], 16; "
            )
        return text + "cp.async.commit_group; "

    def step(n: int) -> str:
        begin = "".join(asked(k) for k in range(slots - 1)) if n == 0 else ""
        turn = "@!%q12 bra PRODUCTS; " if beside and n == 0 else ""
        meet = f"bar.sync 1, {lanes}; "
        return turn + begin + f"cp.async.wait_group {slots - 2}; {meet}" + asked(n + slots - 1)

    before = _lanes_set_up(rows, across, grid, first, columns)
    after, sink, smem = "cp.async.wait_all; ", "", DATA + slots * size
    if beside:
        form = _form(beside, registers=False)
        values = " ".join(f"mov.b32 %d{k}, %f0;" for k in range(form.results))
        before = set_up(form, values) + before + " setp.gt.u32 %q12, %r0, 127; "
        after += (
            "bra READ; PRODUCTS: wgmma.fence.sync.aligned; "
            + form.instruction() * (LANE_PRODUCT_CYCLES * 2 // beside)
            + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; READ: "
        )
        sink, smem = _used(form), LANE_DATA + slots * size
    what = f" beside n{beside}" if beside else ""
    what += f", rows {2 * columns} bytes apart" if columns != COLUMNS else ""
    tensor = (-(-grid // across) * rows[0] + across * rows[1]) * 2 * columns
    return Question(
        f"{rows[0]} and {rows[1]} rows by {lanes} lanes, {slots} slots, in each of {grid} CTAs, "
        f"{across} with the same A{what}",
        "lane copies", step, (4, 12), before, after, sink, block=first + lanes, grid=grid,
        smem=smem, scratch=tensor, first=first,
    )  # fmt: skip


def _products_beside_lanes(columns: int) -> Question:
    """A chain of products while another warp group copies 32 KB after 32 KB by lanes."""
    form = _form(columns, registers=False)
    values = " ".join(f"mov.b32 %d{k}, %f0;" for k in range(form.results))
    fills = "".join(
        f"cp.async.cg.shared.global [%r24+{k * 16 * ROW_BYTES}], "
        f"[%rd20+{k * 16 * 2 * COLUMNS}], 16; "
        for k in range(16)
    )
    before = (
        f"st.volatile.shared.b32 [%r1+{FLAG}], 0; " + set_up(form, values)
        + _lanes_set_up((256, 0), 1, 1, 128, COLUMNS) + " setp.gt.u32 %q12, %r0, 127; "
    )  # fmt: skip
    after = (
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; "
        f"add.u32 %r61, %r60, 1; st.volatile.shared.b32 [%r1+{FLAG}], %r61; bra READ; "
        f"OTHER: {fills} cp.async.commit_group; cp.async.wait_group 2; "
        f"ld.volatile.shared.b32 %r61, [%r1+{FLAG}]; setp.le.u32 %q11, %r61, %r60; "
        "@%q11 bra OTHER; cp.async.wait_all; mov.u32 %r50, %clock; READ: "
    )
    return Question(
        f"wgmma m64n{columns}k16, A in shared memory, beside copies by 128 lanes", "lane copies",
        lambda k: ("@%q12 bra OTHER; wgmma.fence.sync.aligned; " if k == 0 else "")
        + form.instruction() + " ", (8, 40), before, after, _used(form), block=256,
        smem=LANE_DATA + 32768, scratch=256 * 2 * COLUMNS,
    )  # fmt: skip


def _awaited(columns: int, each: int, *, registers: bool) -> Question:
    """Products that are waited for, `each` at a time."""
    form = _form(columns, registers=registers)
    zero = " ".join(f"mov.b32 %d{k}, 0;" for k in range(form.results))
    zero += "mov.b32 %a0, 0; mov.b32 %a1, 0; mov.b32 %a2, 0; mov.b32 %a3, 0;"
    a = "registers" if registers else "shared memory"
    return Question(
        f"{each} of n{columns}, A in {a}, and a wait", "wgmma_latency, wgmma_register_latency",
        lambda k: "wgmma.fence.sync.aligned; " + form.instruction() * each
        + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ", (4, 16),
        set_up(form, zero), "", _used(form), block=128, smem=DATA + 65536,
    )  # fmt: skip


def _operands(
    a_rows: int, b_rows: int, across: int, grid: int, columns: int = COLUMNS
) -> Question:
    """Operands of a GEMM without products, in a ring of four slots; `columns` between rows.

    `across`: CTAs with the same rows of A, side by side. Of 6 steps all columns are new.
    """
    size, box = (a_rows + b_rows) * ROW_BYTES, min(a_rows, b_rows)
    rows_of_a = -(-grid // across) * a_rows
    before = (
        "setp.ne.u32 %q3, %r0, 0; add.u32 %r3, %r1, 1024; mov.u32 %r5, 0; "
        f"div.u32 %r10, %r62, {across}; mul.lo.u32 %r11, %r10, {across}; sub.u32 %r11, %r62, %r11; "
        f"mul.lo.u32 %r10, %r10, {a_rows}; mul.lo.u32 %r11, %r11, {b_rows}; "
        f"add.u32 %r11, %r11, {rows_of_a}; {barriers(1)}"
    )
    load = (
        "@!%q3 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%r3+{to}], [%m0, {{%r5, %r{row}}}], [%r1+{bar}]; "
    )

    def slot(number: int, bar: int) -> str:
        text = ""
        for k in range((a_rows + b_rows) // box):
            of_a = k * box < a_rows
            row, first = (10, k * box) if of_a else (11, k * box - a_rows)
            to = number * size + k * box * ROW_BYTES
            text += f"add.u32 %r{row + 2}, %r{row}, {first}; "
            text += load.format(to=to, row=row + 2, bar=bar)
        step = f"add.u32 %r5, %r5, {COLUMN_STEP}; and.b32 %r5, %r5, {min(columns, COLUMNS) - 1}; "
        return text + step

    def filled(half: int) -> str:
        """Two slots of four, which one barrier watches."""
        expect = f"@!%q3 mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1+{8 * half}], {2 * size}; "
        return expect + slot(2 * half, 8 * half) + slot(2 * half + 1, 8 * half)

    def step(n: int) -> str:
        """What was asked for first is there, and is asked for anew."""
        half = n % 2
        begin = filled(0) + filled(1) if n == 0 else ""
        return begin + wait(f"%r1+{8 * half}", n // 2 % 2, "W") + filled(half)

    apart = f", rows {2 * columns} bytes apart" if columns != COLUMNS else ""
    return Question(
        f"2 steps of {a_rows} and {b_rows} rows in each of {grid} CTAs, {across} with the same A"
        + apart,
        "l2_bytes", step, (6, 14), before, wait("%r1", 1, "VE") + wait("%r1+8", 1, "UE"),
        smem=1024 + 4 * size, grid=grid, box_rows=box,
        matrix=(rows_of_a + across * b_rows, columns),
    )  # fmt: skip


BESIDE_QUESTIONS = (
    *(_timed(work, groups, beside)
      for work in OTHERS for groups in (1, 2) for beside in PRODUCTS
      if (work, groups, beside) != ("scores", 2, "n256, A in registers")),  # too many registers
    *(_awaited(columns, each, registers=registers)
      for columns, each in ((8, 1), (64, 1), (128, 1), (256, 1), (64, 4), (128, 4), (256, 4))
      for registers in (False, True) if not registers or columns < 256),
    *(_operands(a, b, across, 128)
      for a, b, across in ((128, 64, 64), (128, 64, 32), (64, 128, 32), (128, 128, 32),
                           (128, 128, 8), (128, 256, 16))),
    *(_operands(128, b, 1, 1) for b in (64, 128)),
)  # fmt: skip

LANE_QUESTIONS = (
    *(_lanes((128, 128), lanes, slots, grid, across)
      for lanes in (128, 256) for slots in (2, 3)
      for grid, across in ((1, 1), (132, 1), (132, 4), (132, 32), (132, 132))),
    _lanes((128, 128), 128, 2, 264, 32), _lanes((128, 128), 256, 3, 264, 32),
    _lanes((128, 256), 256, 3, 132, 32), _lanes((64, 64), 128, 3, 528, 64),
    _lanes((64, 64), 128, 3, 1, 1), _lanes((128, 256), 256, 3, 1, 1),
    *(_lanes((128, 128), 128, slots, 1, 1, beside)
      for slots in (2, 3) for beside in (64, 128, 256)),
    *(_timed(work, groups, beside) for work in CHOOSING
      for groups in (1, 2) for beside in ("no products", "n128", "n256")),
)  # fmt: skip

NEAR, ODD = 1024, COLUMNS + COLUMN_STEP
"""Columns between rows: 2 KB, and 8 KB and a line."""
APART_QUESTIONS = (
    *(_lanes((128, 128), 128, 3, 132, across) for across in (2, 8, 16, 64)),
    *(_lanes((128, 128), 128, 3, 132, across, columns=columns)
      for columns in (NEAR, ODD) for across in (4, 8, 32)),
    *(_operands(128, 128, across, 128) for across in (1, 2, 4, 16, 64, 128)),
    *(_operands(128, 128, across, 128, columns) for columns in (NEAR, ODD) for across in (8, 32)),
    *(_products_beside_lanes(columns) for columns in (64, 128, 256)),
)  # fmt: skip
