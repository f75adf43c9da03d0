"""Named barriers, barrier reductions, setmaxnreg."""

from __future__ import annotations

import numpy as np

from testing.hardware.case import Case, filled
from testing.hardware.micro import samples
from testing.hardware.micro.shared import BASE, SMEM

THREADS = 128


def reductions() -> list[Case]:
    """barrier.red over predicates of 128 threads, and of the two halves of them."""
    out = []
    bits = np.zeros((8, THREADS), np.uint32)
    bits[1], bits[2, 5], bits[3, 64:] = 1, 1, 1
    bits[4:] = samples.random_bits(4 * THREADS, np.uint32, 81).reshape(4, THREADS) & 1
    for halves in (False, True):
        barrier = (
            "shr.u32 %r10, %r0, 6; add.u32 %r10, %r10, 3; mov.u32 %r11, 64;"
            if halves
            else "mov.u32 %r10, 0; mov.u32 %r11, 128;"
        )
        for negated in ("", "!"):
            body = BASE + barrier + (
                f"mov.u32 %r12, %ctaid.x; mad.lo.u32 %r13, %r12, {THREADS}, %r0; mad.wide.u32 %rd1, %r13, 4, %p0; ld.global.b32 %r14, [%rd1];"
                f"setp.ne.u32 %q1, %r14, 0; barrier.cta.red.popc.u32 %r15, %r10, %r11, {negated}%q1;"
                f"barrier.cta.red.and.pred %q2, %r10, %r11, {negated}%q1; barrier.cta.red.or.pred %q3, %r10, %r11, {negated}%q1;"
                "selp.b32 %r16, 0x1000, 0, %q2; or.b32 %r15, %r15, %r16; selp.b32 %r16, 0x2000, 0, %q3; or.b32 %r15, %r15, %r16;"
                "mad.wide.u32 %rd1, %r13, 4, %p1; st.global.b32 [%rd1], %r15;"
            )  # fmt: skip
            name = f"red {'halves' if halves else 'all'}{' negated' if negated else ''}"
            out.append(Case(name, "barriers", body, (bits.ravel(),), (filled(bits.size, np.uint32),), grid=8, block=THREADS, shared=SMEM, smem=1024,
                            group="barrier.red"))  # fmt: skip
    return out


def exchanges() -> list[Case]:
    """Threads exchange values through shared memory across each kind of barrier."""
    out = []
    forms = {"bar.sync 0": "bar.sync 0;", "barrier.sync with a count": "barrier.cta.sync 7, 128;",
             "register number": "mov.u32 %r10, 9; mov.u32 %r11, 128; bar.sync %r10, %r11;"}  # fmt: skip
    for name, form in forms.items():
        body = BASE + (
            "shl.b32 %r3, %r0, 2; add.u32 %r4, %r1, %r3; mul.lo.u32 %r5, %r0, 2654435761; st.shared.b32 [%r4], %r5;" + form +
            "xor.b32 %r3, %r3, 508; add.u32 %r4, %r1, %r3; ld.shared.b32 %r5, [%r4]; mad.wide.u32 %rd1, %r0, 4, %p0; st.global.b32 [%rd1], %r5;"
        )  # fmt: skip
        out.append(
            Case(
                name,
                "barriers",
                body,
                (),
                (filled(THREADS, np.uint32),),
                block=THREADS,
                shared=SMEM,
                smem=1024,
                group="barrier",
            )
        )
    produce = "".join(
        f"bar.sync 2, 64; mul.lo.u32 %r5, %r0, {11 + k}; st.shared.b32 [%r7], %r5; bar.arrive 1, 64;"
        for k in range(5)
    )
    consume = "".join(
        f"bar.arrive 2, 64; bar.sync 1, 64; ld.shared.b32 %r6, [%r7]; st.global.b32 [%rd1+{128 * k}], %r6;"
        for k in range(5)
    )
    body = BASE + (
        "and.b32 %r8, %r0, 31; shl.b32 %r9, %r8, 2; add.u32 %r7, %r1, %r9; mad.wide.u32 %rd1, %r8, 4, %p0; setp.ge.u32 %q1, %r0, 32; @%q1 bra C;"
        + produce + "bra.uni E; C:" + consume + "E:"
    )  # fmt: skip
    out.append(
        Case(
            "producer and consumer",
            "barriers",
            body,
            (),
            (filled(160, np.uint32),),
            block=64,
            shared=SMEM,
            smem=1024,
            group="barrier",
        )
    )
    return out


def trade(name: str, launch: int, groups: tuple[str, ...]) -> Case:
    """A kernel of `launch` registers per thread; warpgroup g runs groups[g] and stores %r5."""
    body = BASE + (
        "shr.u32 %r2, %r0, 7; and.b32 %r3, %r0, 127; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r1;"
        "mad.lo.u32 %r5, %r0, 3, 7; st.shared.b32 [%r3], 0; bar.sync 0;\n"
    )
    for g, text in enumerate(groups):
        body += f"setp.ne.u32 %q1, %r2, {g}; @%q1 bra N{g};\n{text}\nbra.uni S;\nN{g}:\n"
    body += "S: mad.wide.u32 %rd1, %r0, 4, %p0; st.global.b32 [%rd1], %r5;"
    threads = len(groups) * THREADS
    return Case(name, "barriers", body, (), (filled(threads, np.uint32),), block=threads, group="setmaxnreg",
                directives=f".maxntid {threads}, 1, 1 .maxnreg {launch}", shared=SMEM, smem=1024)  # fmt: skip


def dec(count: int) -> str:
    """Give registers back."""
    return f"setmaxnreg.dec.sync.aligned.u32 {count}; mad.lo.u32 %r5, %r5, {count}, %r0;"


def inc(count: int) -> str:
    """Take registers from the pool."""
    return f"setmaxnreg.inc.sync.aligned.u32 {count}; mad.lo.u32 %r5, %r5, {count}, %r0;"


MEET = "bar.sync 0;"
"""All meet between two setmaxnreg: the ISA wants that of a warpgroup, and an inc that came early
could take what another group still waits for."""
LATE = (
    "mov.u32 %r8, 0; mov.u32 %r7, 0; L: mad.lo.u32 %r7, %r7, 5, %r8; st.volatile.shared.b32 [%r3+512], %r7;"
    "add.u32 %r8, %r8, 1; setp.lt.u32 %q3, %r8, 20000; @%q3 bra L; st.volatile.shared.b32 [%r3], 1;"
)
"""Busy for a while, then the thread's word says that it is about to give registers back."""
SEEN = "mov.u32 %r6, 0;" + "".join(
    f"ld.volatile.shared.b32 %r7, [%r1+{128 * w}]; or.b32 %r6, %r6, %r7;" for w in range(4)
)
"""%r6: whether some warp had reached its dec."""


def beyond_the_pool() -> Case:
    """One group gives back less than the other asks for; `testing.hardware.registers` has more."""
    body = BASE + (
        "setp.ge.u32 %q1, %r0, 128; @%q1 bra UP; setmaxnreg.dec.sync.aligned.u32 40; mad.lo.u32 %r5, %r0, 3, 7; bra.uni S;"
        "UP: setmaxnreg.inc.sync.aligned.u32 232; mad.lo.u32 %r5, %r0, 5, 1; S: mad.wide.u32 %rd1, %r0, 4, %p0; st.global.b32 [%rd1], %r5;"
    )  # fmt: skip
    return Case("setmaxnreg", "barriers", body, (), (filled(256, np.uint32),), block=256, group="setmaxnreg",
                directives=".maxntid 256, 1, 1 .maxnreg 128", shared=SMEM, smem=1024)  # fmt: skip


def registers() -> list[Case]:
    """setmaxnreg: warpgroups trade the registers that the CTA was launched with."""
    return [
        beyond_the_pool(),
        trade("setmaxnreg all of the pool", 128, (dec(40), inc(216))),
        trade("setmaxnreg part of the pool", 128, (dec(24), inc(200))),
        trade("setmaxnreg to 232", 128, (dec(24), inc(232))),
        trade("setmaxnreg no change", 128, (dec(128), inc(128))),
        trade("setmaxnreg three groups", 80, (dec(24), dec(40), inc(176))),
        trade("setmaxnreg four groups", 128, (dec(48), inc(192), dec(80), inc(192))),
        trade("setmaxnreg there and back", 128, (dec(40) + MEET + inc(128), inc(216) + MEET + dec(128))),
        trade("setmaxnreg inc waits for dec", 128, (LATE + dec(40), inc(216) + SEEN + "mov.u32 %r5, %r6;")),
    ]


def cases() -> list[Case]:
    """All barrier kernels."""
    return [*reductions(), *exchanges(), *registers()]
