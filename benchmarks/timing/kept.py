"""What an SM's L1 keeps of loads, for how long, and how fast it answers.

A chain reads zeros: each address is that of the load before, and what it read added to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.timing.micro import Runner, answer, answered
from benchmarks.timing.questions import ROUNDS, Question
from testing.hardware.case import Case
from testing.hardware.micro.shared import BASE, SMEM

LINE: Final = 128
REGION: Final = 1 << 20
"""Bytes that are read anew in each round, where a round is to find nothing."""
START: Final = "mov.b64 %rd4, %p0; mov.b64 %rd5, 0; "
KEPT: Final = "st.volatile.shared.b64 [%r1+256], %rd4; "
FORMS: Final = {
    "ld": "ld.global", "ld.ca": "ld.global.ca", "ld.cg": "ld.global.cg", "ld.nc": "ld.global.nc",
    "ld.volatile": "ld.volatile.global", "ld.relaxed.cta": "ld.relaxed.cta.global",
    "ld.relaxed.gpu": "ld.relaxed.gpu.global", "ld.L1::evict_last": "ld.global.L1::evict_last",
    "ld.L1::no_allocate": "ld.global.L1::no_allocate", "ld.nc.no_allocate":
    "ld.global.nc.L1::no_allocate", "ld.lu": "ld.global.lu", "ld.cv": "ld.global.cv",
}  # fmt: skip
"""Loads, by what they ask of the caches."""


def load(offset: int = 0, form: str = "ld.global") -> str:
    """A load of the chain, on a line of its own: lines tell the machine's accesses apart."""
    return f"{form}.b64 %rd5, [%rd4+{offset}];\n add.s64 %rd4, %rd4, %rd5; "


def _chain(
    name: str, steps: Callable[[int], str], counts: tuple[int, int] = (8, 40), **options: Any
) -> Question:
    options = {"before": START, "sink": KEPT, "scratch": 8 * REGION, "zeros": True, **options}
    return Question(name, "l1", steps, counts, **options)


def _fresh(n: int) -> str:
    """At the begin of a round: addresses that no round before had."""
    return f"add.s64 %rd4, %rd4, {REGION}; " if n == 0 else ""


def _of_one_place(name: str, form: str) -> Question:
    return _chain(f"a chain of {name} of one place", lambda n: load(0, form))


def _walk(apart: int) -> Question:
    """Loads of one place after another, in each round of others."""
    return _chain(
        f"a chain of loads, {apart} bytes apart, of places that the SM never asked for",
        lambda n: _fresh(n) + load(n * apart),
    )


BETWEEN: Final = {
    "nothing": "", "bar.sync": "bar.sync 0; ", "bar.warp.sync": "bar.warp.sync -1; ",
    "fence.acq_rel.cta": "fence.acq_rel.cta; ", "fence.acq_rel.gpu": "fence.acq_rel.gpu; ",
    "fence.sc.gpu": "fence.sc.gpu; ", "fence.proxy.async": "fence.proxy.async; ",
    "fence.proxy.tensormap": "fence.proxy.tensormap::generic.acquire.gpu [%rd7], 128; ",
    "ld.acquire.cta elsewhere": "ld.acquire.cta.global.b32 %r5, [%rd6]; ",
    "ld.acquire.gpu elsewhere": "ld.acquire.gpu.global.b32 %r5, [%rd6]; ",
    "ld.relaxed.gpu elsewhere": "ld.relaxed.gpu.global.b32 %r5, [%rd6]; ",
    "a store to the place": "st.global.b64 [%rd4], %rd8; ",
    "a store to the sector": "st.global.b64 [%rd4+8], %rd8; ",
    "a store to the line": "st.global.b64 [%rd4+96], %rd8; ",
    "a store elsewhere": "st.global.b64 [%rd6], %rd8; ",
    "an atomic of the place": "atom.relaxed.gpu.global.add.u32 %r5, [%rd4], 0; ",
    "an atomic of the line": "atom.relaxed.gpu.global.add.u32 %r5, [%rd4+96], 0; ",
    "a reduction of the line": "red.relaxed.gpu.global.add.u32 [%rd4+96], 0; ",
    "a load past it of the place": "ld.relaxed.gpu.global.b64 %rd9, [%rd4]; ",
}  # fmt: skip
"""What may come between loads of a place that the L1 has."""
ELSEWHERE: Final = f"add.s64 %rd6, %rd4, {6 * REGION}; add.s64 %rd7, %rd6, 128; mov.b64 %rd8, 0; "


def _between(name: str, of: int) -> Question:
    """Loads of lines that the L1 has, `of` in each step, behind something."""
    return _chain(
        f"{of} loads of what the L1 has, a chain, behind {name}",
        lambda n: BETWEEN[name] + "".join(load(k * LINE) for k in range(of)),
        (4, 12), before=START + ELSEWHERE,
    )  # fmt: skip


def _late(delay: int, same: bool) -> Question:
    """Two warps that load places never asked for, one `delay` cycles after the other."""
    wait = (
        "setp.lt.u32 %q5, %r0, 32; mov.u32 %r21, %clock; LATE$n: mov.u32 %r22, %clock; "
        f"sub.u32 %r22, %r22, %r21; setp.lt.u32 %q6, %r22, {delay}; "
        "@%q5 bra GO$n; @%q6 bra LATE$n; GO$n: "
    )
    apart = (
        f"shr.u32 %r23, %r0, 5; mul.wide.u32 %rd7, %r23, {REGION // 2}; add.s64 %rd4, %rd4, %rd7; "
    )
    which = "the same" if same else "another"
    return _chain(
        f"two warps load {which} place that the SM never asked for, {delay} cycles apart",
        lambda n: _fresh(n) + wait + load(n * LINE) + "bar.sync 0; ", (8, 40), block=64,
        before=START + apart * (not same),
    )  # fmt: skip


MANY: Final = 16
"""Loads of a step where the L1's rate is asked for, and not its latency."""
PLACES: Final = {
    "4 bytes, one place": ("b32 %w{}", 0), "2 bytes, 2 apart": ("u16 %h{}", 2),
    "4 bytes, 4 apart": ("b32 %w{}", 4), "8 bytes, 8 apart": ("b64 %y{}", 8),
    "16 bytes, 16 apart": ("v2.b64 {{%y{0}, %z{0}}}", 16),
    "4 bytes, 128 apart": ("b32 %w{}", 128),
}  # fmt: skip
"""What a lane loads and how far from its neighbour -> type and register, and bytes between."""


def _used(k: int, kind: str) -> str:
    """What keeps load `k` of a step: its bits go into %rd8."""
    if "%y" in kind:
        return f"xor.b64 %rd8, %rd8, %y{k}; " + f"xor.b64 %rd8, %rd8, %z{k}; " * ("%z" in kind)
    word = f"cvt.u32.u16 %w{k}, %h{k}; " * ("%h" in kind)
    return word + f"cvt.u64.u32 %y{k}, %w{k}; xor.b64 %rd8, %rd8, %y{k}; "


def _many(what: str, warps: int, form: str = "ld.global") -> Question:
    """Loads of all warps at once, a step's awaited together; they depend on the step before."""
    kind, apart = PLACES[what]
    where = "that the L1 has" if form == "ld.global" else "past the L1"

    def step(n: int) -> str:
        loads = "".join(
            f"{form}.{kind.format(k)}, [%rd7+{k % 2 * 4096 + k // 2 * 512}];\n "
            for k in range(MANY)
        )
        used = "".join(_used(k, kind) for k in range(MANY))
        return loads + used + "and.b64 %rd6, %rd8, %rd9; add.s64 %rd7, %rd7, %rd6; "

    before = START + (
        f".reg .b32 %w<{MANY}>; .reg .b64 %y<{MANY}>; .reg .b64 %z<{MANY}>; "
        f"and.b32 %r25, %r0, 31; mul.wide.u32 %rd6, %r25, {apart}; add.s64 %rd7, %rd4, %rd6; "
        "shr.u32 %r25, %r0, 5; mul.wide.u32 %rd6, %r25, 8192; add.s64 %rd7, %rd7, %rd6; "
        "mov.b64 %rd8, 0; ld.volatile.global.b64 %rd9, [%rd4]; "
    )
    return _chain(
        f"{MANY} loads by each of {warps} warps {where}, {what}", step, (2, 8), before=before,
        block=32 * warps, sink="st.volatile.shared.b64 [%r1+256], %rd8; ",
    )  # fmt: skip


def _copied(kind: str, size: int) -> Question:
    """Copies of lanes to shared memory, each awaited, of a place that the SM asked for before."""
    return _chain(
        f"cp.async.{kind} of {size} bytes, awaited, of what was copied before",
        lambda n: f"cp.async.{kind}.shared.global [%r1+512], [%rd4], {size};\n cp.async.wait_all; "
        "bar.warp.sync -1; ", (8, 40),
    )  # fmt: skip


QUESTIONS: Final = (
    *(_of_one_place(name, form) for name, form in FORMS.items()),
    *(_walk(apart) for apart in (8, 16, 32, 64, 96, 128, 256)),
    *(_between(name, of) for name in BETWEEN for of in (1, 4)),
    *(_late(delay, same) for delay in (0, 50, 100, 200) for same in (True, False)),
    *(_many(what, warps) for what in PLACES for warps in (1, 4)),
    *(_many(what, warps, FORMS["ld.cg"]) for what in PLACES for warps in (1, 4)),
    *(_copied(kind, size) for kind, size in (("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16))),
)  # fmt: skip


@dataclass(frozen=True)
class Ring:
    """Loads of lines one after the other, round and round, beside shared memory of the CTA."""

    lines: int
    smem: int

    @property
    def name(self) -> str:
        """Unique."""
        return f"a ring of {self.lines} lines beside {self.smem} bytes of shared memory"

    def case(self) -> Case:
        """The micro-kernel: cycles of each round."""
        each = 8
        body = (
            BASE + "mov.u32 %r60, 0; mov.b64 %rd62, %p0; ROUND: mov.b64 %rd4, %p1; "
            "mov.u32 %r31, 0; mov.u32 %r50, %clock; TURN: "
            + "".join(load(k * LINE) for k in range(each))
            + f"add.s64 %rd4, %rd4, {each * LINE}; add.u32 %r31, %r31, {each};"
            f"setp.lt.u32 %q9, %r31, {self.lines};\n @%q9 bra TURN;\n "
            "st.volatile.shared.b64 [%r1+256], %rd4; mov.u32 %r51, %clock;"
            "sub.u32 %r52, %r51, %r50; st.global.b32 [%rd62], %r52;"
            "add.s64 %rd62, %rd62, 4; add.u32 %r60, %r60, 1;"
            f"setp.lt.u32 %q14, %r60, {ROUNDS}; @%q14 bra ROUND; "
        )  # fmt: skip
        return Case(
            name=self.name, family="timing", body=body, block=1, shared=SMEM, smem=self.smem,
            outputs=(np.zeros(ROUNDS, np.uint32), np.zeros(self.lines * LINE, np.uint8)),
        )  # fmt: skip

    def answer(self, found: np.ndarray) -> dict[str, Any]:
        """Cycles of a load, by round."""
        return {"name": self.name, "rounds": (found / self.lines).round(1).tolist()}


KB: Final = 1024
SHARED: Final = (1 * KB, 60 * KB, 96 * KB, 128 * KB, 160 * KB, 192 * KB, 208 * KB, 227 * KB)
SIZES: Final = (8, 16, 20, 24, 26, 28, 30, 32, 40, 48, 56, 60, 64, 80, 88, 96, 112, 120, 124, 128,
                144, 152, 160, 184, 192, 208, 216, 224, 232, 240, 248, 256)  # fmt: skip
"""KB of a ring."""
RINGS: Final = tuple(Ring(size * KB // LINE, smem) for smem in SHARED for size in SIZES)


def answers(run: Runner) -> Iterator[dict[str, Any]]:
    """All answers; a question that fails says how."""
    yield from answered(QUESTIONS, run, answer)
    for ring in RINGS:
        yield ring.answer(run(ring.case())[0])
