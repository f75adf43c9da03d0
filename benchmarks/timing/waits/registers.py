"""Arithmetic on registers of no order beside products: what either takes of the other.

    python -m benchmarks.timing.waits.registers ask FOLDER           no GPU
    python -m benchmarks.timing.waits.registers run FOLDER OUT.json  on a machine with a Hopper GPU
    python -m benchmarks.timing.waits.registers show OUT.json        a table; no GPU

One warp group multiplies, up to three others work until it has ended. What `beside` and `mixtures`
ask has registers in order, so that its reads and a product's alternate; here they are drawn, as
in a kernel, where several warps and kinds of instructions come between one another.
"""

from __future__ import annotations

import json
import random
import struct
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

REGISTERS, APART = 32, 6
"""That work is done on; so many instructions lie between one and the next of its result."""
COUNTS: Final[dict[str, dict[str, int]]] = {
    "additions": {"add": 252},
    "maxima": {"max": 252},
    "exponentials": {"ex2": 252},
    "exponentials, maxima": {"ex2": 84, "max": 168},
    "exponentials, additions": {"ex2": 63, "add": 189},
    "maxima, additions": {"max": 126, "add": 126},
    "attention": {"ex2": 56, "max": 56, "cvt": 28, "fma": 56, "add": 56},
    "attention, no exponentials": {"max": 56, "cvt": 28, "fma": 56, "add": 112},
    "attention, no maxima": {"ex2": 56, "cvt": 28, "fma": 56, "add": 112},
}  # fmt: skip
"""Instructions of a kind of work; "attention": a row's share of 56 scores, as a kernel has them."""
CHAINS: Final = "two chains of additions"
WORK: Final = (*COUNTS, CHAINS)
PRODUCTS: Final = {"none": (0, False), "n128": (128, False), "n112": (112, False),
                   "n128, A in registers": (128, True), "n96, A in registers": (96, True),
                   "n64, A in registers": (64, True)}  # fmt: skip
WARPS: Final = (0, 1, 2, 3)
"""That work on a sub-partition; none: the products alone."""
GROUPS, GROUP = 300, 8
"""Groups of products, and products of a group."""
STEP: Final = 504
"""Instructions of a step of work."""
_TEXT: Final = {
    "add": "add.rn.f32 %g{0}, %g{0}, %g{1};", "max": "max.ftz.NaN.f32 %g{0}, %g{0}, %g{1};",
    "fma": "fma.rn.f32 %g{0}, %g{0}, %c0, %c1;", "ex2": "ex2.approx.ftz.f32 %g{0}, %g{0};",
    "cvt": "{{ .reg .b32 z; cvt.rn.bf16x2.f32 z, %g{0}, %g{1}; mov.b32 %g{0}, z; }}",
}  # fmt: skip


def step(work: str, seed: int = 1) -> list[str]:
    """Instructions of a step of work; none is without use, and none waits for one just before."""
    if work == CHAINS:
        return [f"add.rn.f32 %g{k % 2}, %g{k % 2}, %c0;" for k in range(STEP)]
    draw = random.Random(seed)
    left: list[int] = []
    late: list[int] = []
    lines = []
    for _ in range(STEP // 252):
        kinds = [kind for kind, count in COUNTS[work].items() for _ in range(count)]
        draw.shuffle(kinds)
        for kind in kinds:
            left = left or draw.sample(range(REGISTERS), REGISTERS)
            at = next((k for k, r in enumerate(left) if r not in late), 0)
            result = left.pop(at)
            late = [*late[1 - APART :], result]
            other = draw.choice([r for r in range(REGISTERS) if r not in late])
            lines.append(_TEXT[kind].format(result, other))
    return lines


def _products(columns: int, registers: bool) -> str:
    """A loop of groups of products, of which one may be under way; or one that only waits."""
    again = "setp.lt.u32 %p1, {0}, %r1; @%p1 bra AGAIN;\n"
    if not columns:
        return "AGAIN: mov.u32 %r7, %clock; sub.u32 %r7, %r7, %r4; " + again.format("%r7")
    a, last = ("{%a0, %a1, %a2, %a3}", "1, 1, 1, 0") if registers else ("%da", "1, 1, 1, 0, 0")
    results = ", ".join(f"%d{k}" for k in range(columns // 2))
    one = (
        f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.bf16.bf16 {{{results}}}, {a}, %db, "
        f"{last};\n"
    )
    return (
        f"AGAIN: wgmma.fence.sync.aligned;\n{one * GROUP}wgmma.commit_group.sync.aligned; "
        f"wgmma.wait_group.sync.aligned 1; add.u32 %r6, %r6, 1; {again.format('%r6')}"
        "wgmma.wait_group.sync.aligned 0;\n"
    )


def kernel(work: str, product: str) -> str:
    """The module: kernel `k` with the address of answers, a limit, and zero.

    Each thread writes cycles, and of those that work also how many steps it made.
    """
    columns, registers = PRODUCTS[product]
    sums = columns // 2
    one = "0f3F800000"
    return f""".version 8.3
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 dyn[];
.visible .entry k(.param .u64 out, .param .u32 limit, .param .u32 zero)
{{
.reg .f32 %g<{REGISTERS}>, %c<2>, %d<{sums + 1}>; .reg .b32 %a<4>, %r<20>;
.reg .b64 %q<8>, %da, %db; .reg .pred %p<6>;
mov.u32 %r0, %tid.x; cvt.rn.f32.u32 %c0, %r0; add.rn.f32 %c1, %c0, {one};
ld.param.u32 %r1, [limit]; ld.param.u32 %r15, [zero]; ld.param.u64 %q0, [out];
mov.u32 %r8, dyn; st.shared.u32 [%r8], 0; bar.sync 0;
mov.u32 %r6, 0; mov.u32 %r9, 0; setp.gt.u32 %p0, %r0, 127; mov.u32 %r4, %clock;
@%p0 bra WORK;
{" ".join(f"mov.f32 %d{k}, %c0;" for k in range(sums + 1))}
{" ".join(f"mov.b32 %a{k}, %r0;" for k in range(4))}
add.u32 %r10, %r8, 1024; shr.u32 %r10, %r10, 4; mov.b64 %da, {{%r10, 0x40000040}};
add.u32 %r10, %r10, 1024; mov.b64 %db, {{%r10, 0x40000040}};
{_products(columns, registers)}
mov.u32 %r5, %clock; sub.u32 %r5, %r5, %r4;
mov.u32 %r11, 1; st.volatile.shared.u32 [%r8], %r11;
{" ".join(f"add.rn.f32 %d0, %d0, %d{k};" for k in range(1, sums))}
cvt.rzi.u32.f32 %r9, %d0; and.b32 %r9, %r9, %r15;
bra DONE;
WORK:
{" ".join(f"add.rn.f32 %g{k}, %c0, 0f{0x3F800000 + (k << 16):08X};" for k in range(REGISTERS))}
TURN:
{chr(10).join(step(work))}
add.u32 %r9, %r9, 1; ld.volatile.shared.u32 %r12, [%r8]; setp.eq.u32 %p2, %r12, 0; @%p2 bra TURN;
mov.u32 %r5, %clock; sub.u32 %r5, %r5, %r4;
{" ".join(f"add.rn.f32 %g0, %g0, %g{k};" for k in range(1, REGISTERS))}
cvt.rzi.u32.f32 %r13, %g0; and.b32 %r13, %r13, %r15; add.u32 %r9, %r9, %r13;
DONE:
mul.wide.u32 %q1, %r0, 8; add.s64 %q0, %q0, %q1; st.global.v2.u32 [%q0], {{%r5, %r9}};
ret;
}}
"""


def ask(folder: Path) -> None:
    """Write the machine code of each kernel."""
    from sm100sim.timing.sass.tools import assembled

    folder.mkdir(parents=True, exist_ok=True)
    for number, (work, product) in enumerate((w, p) for w in WORK for p in PRODUCTS):
        (folder / f"{number}.cubin").write_bytes(assembled(kernel(work, product), "sm_90a"))


def run(folder: Path, out: Path) -> None:
    """Launch each on one SM, and keep cycles a product and instructions a cycle."""
    import torch

    from benchmarks.hopper.times.clocks import card
    from benchmarks.hopper.times.launcher import Launcher
    from benchmarks.hopper.times.recorded import Place, Recorded

    found: dict[str, Any] = {"card": card(), "answers": {}}
    launcher, one_cta = Launcher(folder), (1, 1, 1)
    out_of = torch.zeros(128 * len(WARPS), 2, dtype=torch.int32, device="cuda")
    for number, (work, product) in enumerate((w, p) for w in WORK for p in PRODUCTS):
        columns = PRODUCTS[product][0]
        limit = GROUPS if columns else GROUPS * GROUP * 64
        params = (bytes(8), struct.pack("<I", limit), struct.pack("<I", 0))
        for warps in WARPS:
            launch = Recorded(
                "k", f"{number}.cubin", one_cta, (128 * (1 + warps), 1, 1), one_cta, 1 << 16,
                params, (Place(0, 0, "out", 0),),
            )  # fmt: skip
            made = launcher.prepared(launch, {"out": out_of.data_ptr()})
            for _ in range(2):  # the first one loads the code
                out_of.zero_()
                made(torch.cuda.current_stream().cuda_stream)
                torch.cuda.synchronize()
            rows = out_of.view(-1, 128, 2)[: 1 + warps, 0].tolist()
            rate = sum(turns * STEP / cycles for cycles, turns in rows[1:])
            one = rows[0][0] / (GROUPS * GROUP) if columns else 0
            found["answers"][f"{work} | {product} | {warps}"] = [round(one, 1), round(rate, 3)]
    out.write_text(json.dumps(found, ensure_ascii=False) + "\n")


def show(answers: Mapping[str, list[float]]) -> Iterator[str]:
    """A row a kind of work: by products and warps instructions a cycle, and cycles a product."""
    for work in WORK:
        cells = []
        for product in PRODUCTS:
            said = (answers[f"{work} | {product} | {warps}"] for warps in WARPS[1:])
            cells.append(
                ", ".join(f"{rate:.2f}" + f" ({one:.0f})" * (one > 0) for one, rate in said)
            )
        yield f"| {work} | {' | '.join(cells)} |"


def main(arguments: list[str]) -> int:
    """Ask, run or show; returns the exit status."""
    match arguments:
        case ["ask", folder]:
            ask(Path(folder))
        case ["run", folder, out]:
            run(Path(folder), Path(out))
        case ["show", out]:
            print("\n".join(show(json.loads(Path(out).read_text())["answers"])))
        case _:
            print(__doc__, file=sys.stderr)
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
