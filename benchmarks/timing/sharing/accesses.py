"""What warps of an SM share: the way of shuffles and of shared memory beside products, the tensor
core where several warp groups multiply, the way of stores to memory; and mbarriers of one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

from benchmarks.timing.beside import beside_products
from benchmarks.timing.micro import Runner, answer, answered
from benchmarks.timing.questions import DATA, ROUNDS, SMS, Question, set_up
from testing.hardware.micro.wgmma.programs import Form

PER_STEP: Final = 8
"""Accesses of a step."""
APART: Final = DATA + 32768
"""Where accesses go: products read nothing there."""
SHAPES: Final = {
    "no products": None, "n48": (48, False), "n64": (64, False), "n128": (128, False),
    "n256": (256, False), "n64, A in registers": (64, True),
}  # fmt: skip
FEW: Final = ("no products", "n64", "n128", "n64, A in registers")
_OWN: Final = (
    "mov.u32 %r3, %r0; shl.b32 %r20, %r0, 2; add.u32 %r20, %r20, %r1; "
    f"add.u32 %r20, %r20, {APART}; st.volatile.shared.b32 [%r20], %r20; "
    f"shl.b32 %r21, %r0, 4; add.u32 %r21, %r21, %r1; add.u32 %r21, %r21, {APART + 8192}; "
    + "".join(f"add.u32 %r{22 + k}, %r0, {k}; " for k in range(PER_STEP + 4))
)
_KEPT: Final = (
    "st.volatile.shared.b32 [%r1+256], %r3; st.volatile.shared.b32 [%r1+256], %r20; "
    + "".join(f"st.volatile.shared.b32 [%r1+256], %r{22 + k}; " for k in range(PER_STEP + 4))
)
_QUAD: Final = "%r30, %r31, %r32, %r33"
ACCESSES: Final = {
    "shuffles, a chain": "shfl.sync.bfly.b32 %r3, %r3, 1, 31, -1; " * PER_STEP,
    "shuffles": "".join(
        f"shfl.sync.bfly.b32 %r{22 + k}, %r{22 + k}, 1, 31, -1; " for k in range(PER_STEP)
    ),
    "loads of 4 bytes, a chain": "ld.volatile.shared.b32 %r20, [%r20]; " * PER_STEP,
    "loads of 16 bytes": "".join(
        f"ld.volatile.shared.v4.b32 {{{_QUAD}}}, [%r21]; xor.b32 %r{22 + k}, %r{22 + k}, %r30; "
        f"xor.b32 %r{23 + k}, %r{23 + k}, %r33; " for k in range(PER_STEP)
    ),
    "stores of 16 bytes": f"st.volatile.shared.v4.b32 [%r21], {{{_QUAD}}}; " * PER_STEP,
}
"""What a step is of; each lane has a place of its own, and no two lanes meet in a bank."""


def _accesses(work: str, groups: int, beside: str) -> Question:
    return beside_products(
        f"{PER_STEP} {work} of {groups} warps a sub-partition beside {beside}", ACCESSES[work],
        groups, SHAPES[beside], _OWN, _KEPT, (8, 24),
    )  # fmt: skip


PITCH: Final = 4096
"""Bytes between rows that lanes store to."""
STORES: Final = {
    "8 rows of 16 bytes": (4, 4), "8 rows of 32 bytes": (4, 8), "8 rows of 64 bytes": (4, 16),
    "a row of 128 bytes": (32, 4), "a row of 256 bytes": (32, 8), "a row of 512 bytes": (32, 16),
}
"""Of a warp's instruction: lanes of a row, and bytes of a lane."""
PAUSED: Final = ("8 rows of 32 bytes", "a row of 128 bytes", "a row of 512 bytes")
"""Those that are asked with a pause, too."""
COLUMNS: Final = 1024
"""Bytes of a row that are stored; then the warp begins anew."""
PAUSE: Final = 20000
"""Cycles from the begin of a round of stores to the next one, where there is a pause."""


def _stores(kind: str, warps: int, ctas: int, *, paused: bool = False) -> Question:
    """Stores of a warp to 16 rows, as wide as its accumulator's, in turn to the first half."""
    lanes, size = STORES[kind]
    rows, words = 32 // lanes, size // 4
    data = "%r40" if words == 1 else "{" + ", ".join(f"%r{40 + k}" for k in range(words)) + "}"
    width = f".v{words}.b32" if words > 1 else ".b32"

    def step(n: int) -> str:
        at = n % 2 * rows * PITCH + n // 2 * lanes * size % COLUMNS
        return f"st.global{width} [%rd20+{at}], {data}; "

    before = (
        f"shr.u32 %r20, %r0, 5; and.b32 %r21, %r0, 31; mad.lo.u32 %r20, %r62, {warps}, %r20; "
        f"shr.u32 %r22, %r21, {lanes.bit_length() - 1}; and.b32 %r23, %r21, {lanes - 1}; "
        f"mad.lo.u32 %r20, %r20, {2 * rows}, %r22; mul.wide.u32 %rd20, %r20, {PITCH}; "
        f"mul.wide.u32 %rd21, %r23, {size}; add.s64 %rd20, %rd20, %rd21; "
        "add.s64 %rd20, %rd20, %p0; "
        + "".join(f"add.u32 %r{40 + k}, %r0, {k}; " for k in range(words))
    )  # fmt: skip
    name = f"store to {kind} by {warps} warps of {ctas} CTAs"
    late = (
        f"LATE: mov.u32 %r21, %clock; sub.u32 %r21, %r21, %r50; setp.lt.u32 %q7, %r21, {PAUSE}; "
        "@%q7 bra LATE; "
    )
    return Question(
        name + f", every {PAUSE} cycles" * paused, "stores of lanes", step,
        (8, 32) if paused else (32, 96), before, "", late * paused,
        block=32 * warps, grid=ctas, smem=200 * 1024, scratch=ctas * warps * 2 * rows * PITCH,
    )  # fmt: skip


def _inits(counts: int, fences: int, *, apart: bool = False) -> Question:
    """One thread initialises mbarriers; the program knows their places and counts.

    Args:
        counts: how many counts of arrivals take turns: each needs uniform registers of its own.
        fences: behind each of them. apart: each stands in a branch of its own.
    """
    guard = "@!%q3 " * apart
    name = f"mbarrier.init by one thread, {counts} counts"
    name += f", {fences} fences behind each" * (fences > 0) + ", each in a branch" * apart
    return Question(
        name, "init_latency",
        lambda n: f"{guard}mbarrier.init.shared.b64 [%r1+{8 * n}], {1 + n % counts}; "
        + FENCE * fences, (8, 40), "setp.ne.u32 %q3, %r0, 0; " * apart,
        block=32 if apart else 1,
    )  # fmt: skip


def _repeated(text: str, name: str) -> Question:
    before = "mbarrier.init.shared.b64 [%r1], 1000; "
    return Question(name, "init_latency", lambda n: text, (8, 40), before, block=1)


FENCE: Final = "fence.proxy.async.shared::cta; "
ARRIVAL: Final = "mbarrier.arrive.shared.b64 %rd9, [%r1]; "
QUESTIONS: Final = (
    *(_accesses(work, groups, beside)
      for work in ACCESSES for groups in (1, 2, 3) for beside in SHAPES
      if work.startswith("shuffles") or (groups < 3 and beside in FEW)),
    *(_stores(kind, warps, ctas) for kind, warps, ctas in product(STORES, (4, 8, 12), (1, SMS))
      if warps < 12 or kind == "8 rows of 32 bytes"),
    *(_stores(kind, warps, ctas, paused=True)
      for kind, warps, ctas in product(PAUSED, (8, 12), (1, SMS))),
    *(_inits(counts, fences) for counts in (1, 2, 40) for fences in (0, 1, 2)),
    *(_inits(counts, 0, apart=True) for counts in (1, 2)),
    _repeated(FENCE, "fence.proxy.async by one thread"),
    _repeated(ARRIVAL, "mbarrier.arrive by one thread"),
    _repeated(ARRIVAL + FENCE, "mbarrier.arrive and a fence by one thread"),
    _repeated("st.volatile.shared.b32 [%r1+1024], %r0; " + FENCE, "a store and a fence"),
)  # fmt: skip

TURNS: Final = (0, 60, 200, 400)
"""Cycles that each warp group begins later than the one before."""
MIXES: Final = {
    "16 of n64": ((64, False, 16),),
    "8 of n64 and 4 of n128, A in registers": ((64, False, 8), (128, True, 4)),
    "12 of n128": ((128, False, 12),),
}
"""What each warp group multiplies: columns, whether A lies in registers, how many."""


def _turn(mix: str, groups: int, late: int) -> Question:
    """Warp groups that begin some cycles apart; each says when its products had ended."""
    parts = MIXES[mix]
    forms = [Form("f32", "bf16", "bf16", n, registers=r) for n, r, _ in parts]
    results = max(form.results for form in forms)
    widest = forms[[form.results for form in forms].index(results)]
    values = " ".join(f"mov.b32 %d{k}, 0;" for k in range(results))
    values += f".reg .b32 %e<{results}>; "
    values += " ".join(f"mov.b32 %e{k}, 0;" for k in range(results))
    values += " ".join(f"mov.b32 %a{k}, 0;" for k in range(4))
    text = (
        f"shr.u32 %r20, %r0, 7; mul.lo.u32 %r20, %r20, {late}; LATE: mov.u32 %r21, %clock; "
        "sub.u32 %r21, %r21, %r50; setp.lt.u32 %q7, %r21, %r20; @%q7 bra LATE; "
        "wgmma.fence.sync.aligned; "
        + "".join(form.instruction().replace("%d", sums) * part[2]
                  + "wgmma.commit_group.sync.aligned; "
                  for form, part, sums in zip(forms, parts, ("%d", "%e"), strict=False))
        + "wgmma.wait_group.sync.aligned 0; "
    )  # fmt: skip
    used = " ".join(
        f"st.volatile.shared.b32 [%r1+512], {sums}{k};" for sums in ("%d", "%e")
        for k in range(results)
    )
    return Question(
        f"{mix} by each of {groups} warp groups, {late} cycles apart", "wgmma_queue",
        lambda n: text, (1, 1), set_up(widest, values), "", used, block=128 * groups,
        smem=DATA + 65536,
    )  # fmt: skip


TURN_QUESTIONS: Final = tuple(
    _turn(mix, groups, late) for mix, groups, late in product(MIXES, (1, 2, 3), TURNS)
    if groups > 1 or not late
)  # fmt: skip


def ends(question: Question, run: Runner) -> list[float]:
    """When the slowest warp of each warp group had its products: in the fastest of the rounds."""
    (raw,) = run(question.case(1))
    rounds = raw.reshape(ROUNDS, -1, 128)[1:].max(axis=2)
    return [float(x) for x in rounds[rounds.max(axis=1).argmin()]]


def turns(question: Question, run: Runner) -> dict[str, Any]:
    """An answer of warp groups that take turns."""
    return {"name": question.name, "ends": ends(question, run)}


def answers(run: Runner) -> Iterator[dict[str, Any]]:
    """All answers; a question that fails says how."""
    yield from answered(QUESTIONS, run, answer)
    yield from answered(TURN_QUESTIONS, run, turns)
