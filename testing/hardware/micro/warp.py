"""elect, shfl, vote, match, redux."""

from __future__ import annotations

import numpy as np

from testing.hardware.case import Case, filled
from testing.hardware.micro import samples

WARPS = 512
LANES = 32
PROLOGUE = """
mov.u32 %r60, %ctaid.x; mov.u32 %r61, %tid.x; mad.lo.u32 %r62, %r60, 32, %r61;
mad.wide.u32 %rd60, %r60, 4, %p0; ld.global.b32 %r50, [%rd60];
shl.b32 %r51, 1, %r61; and.b32 %r51, %r51, %r50; setp.eq.u32 %q0, %r51, 0;
@%q0 bra DONE;
"""
"""%r50: the warp's member mask from the first input; lanes outside of it leave; %r62: thread number."""


def masks() -> np.ndarray:
    """Every single lane, low and high runs, and random member masks; never 0."""
    runs = (
        [1 << k for k in range(32)]
        + [(1 << k) - 1 for k in range(1, 33)]
        + [0xFFFFFFFF << k & 0xFFFFFFFF for k in range(32)]
    )
    rest = samples.random_bits(WARPS - len(runs), np.uint32, 11) | np.uint32(1 << 13)
    return np.concatenate([np.array(runs, np.uint32), rest.astype(np.uint32)])


def _load(k: int, register: str) -> str:
    return f"mad.wide.u32 %rd61, %r62, 4, %p{k}; ld.global.b32 {register}, [%rd61];"


def _store(k: int, register: str) -> str:
    return f"mad.wide.u32 %rd61, %r62, 4, %p{k}; st.global.b32 [%rd61], {register};"


def _case(
    name: str, body: str, values: list[np.ndarray], outputs: int, members: np.ndarray | None = None
) -> Case:
    """`body` between the prologue and the end; the masks are %p0, values follow, then outputs."""
    group = name.split(".")[0]
    members = masks() if members is None else members
    return Case(
        name=name, family="warp", body=PROLOGUE + body + "\nDONE:", inputs=(members, *values),
        outputs=tuple(filled(WARPS * LANES, np.uint32) for _ in range(outputs)), grid=WARPS, group=group,
    )  # fmt: skip


def elect() -> list[Case]:
    """The elected lane for 512 member masks."""
    body = (
        "elect.sync %r1|%q1, %r50; selp.u32 %r2, 1, 0, %q1;" + _store(1, "%r1") + _store(2, "%r2")
    )
    return [_case("elect.sync", body, [], 2)]


def shuffles() -> list[Case]:
    """Full warps with any b and c per lane; partial warps that read only their members."""
    full = np.full(WARPS, 0xFFFFFFFF, np.uint32)
    value = samples.random_bits(WARPS * LANES, np.uint32, 12)
    by = samples.random_bits(WARPS * LANES, np.uint32, 13) % np.uint32(64)
    control = samples.random_bits(WARPS * LANES, np.uint32, 14) & np.uint32(0x1F1F)
    same = np.repeat(samples.random_bits(WARPS, np.uint32, 15) % np.uint32(32), LANES)
    plain = np.full(WARPS * LANES, 0x1F, np.uint32)
    cases = []
    for mode in ("up", "down", "bfly", "idx"):
        body = "\n".join(_load(k, f"%r{k}") for k in (1, 2, 3))
        body += (
            f"\nshfl.sync.{mode}.b32 %r4|%q1, %r1, %r2, %r3, 0xffffffff; selp.u32 %r5, 1, 0, %q1;"
        )
        body += _store(4, "%r4") + _store(5, "%r5")
        cases.append(_case(f"shfl.{mode}.any", body, [value, by, control], 2, full))
        clamp = np.zeros_like(plain) if mode == "up" else plain
        cases.append(_case(f"shfl.{mode}.uniform", body, [value, same, clamp], 2, full))
    body = (
        _load(1, "%r1")
        + "bfind.u32 %r2, %r50;\nshfl.sync.idx.b32 %r4|%q1, %r1, %r2, 31, %r50; selp.u32 %r5, 1, 0, %q1;"
    )
    cases.append(_case("shfl.idx.members", body + _store(2, "%r4") + _store(3, "%r5"), [value], 2))
    return cases


def votes() -> list[Case]:
    """vote over predicates that are often all true or all false."""
    mixed = samples.random_bits(WARPS * LANES, np.uint32, 16) & np.uint32(1)
    rows = mixed.reshape(WARPS, LANES).copy()
    rows[::3], rows[1::3] = 0, 1
    body = (
        _load(1, "%r1")
        + "setp.ne.u32 %q1, %r1, 0; vote.sync.ballot.b32 %r2, %q1, %r50;"
        + _store(2, "%r2")
    )
    for k, mode in enumerate(("any", "all", "uni")):
        body += f"vote.sync.{mode}.pred %q2, %q1, %r50; selp.u32 %r{3 + k}, 1, 0, %q2;" + _store(
            3 + k, f"%r{3 + k}"
        )
    negated = (
        _load(1, "%r1")
        + "setp.ne.u32 %q1, %r1, 0; vote.sync.ballot.b32 %r2, !%q1, %r50;"
        + _store(2, "%r2")
    )
    return [
        _case("vote.all_modes", body, [rows.ravel()], 4),
        _case("vote.ballot.negated", negated, [rows.ravel()], 1),
    ]


def matches() -> list[Case]:
    """match over few distinct values."""
    few = samples.random_bits(WARPS * LANES, np.uint32, 17) % np.uint32(3)
    rows = few.reshape(WARPS, LANES).copy()
    rows[::4] = 7
    body = (
        _load(1, "%r1")
        + "match.any.sync.b32 %r2, %r1, %r50; match.all.sync.b32 %r3|%q1, %r1, %r50; selp.u32 %r4, 1, 0, %q1;"
    )
    stores = "".join(_store(2 + k, f"%r{2 + k}") for k in range(3))
    wide = (
        _load(1, "%r1")
        + "mov.b64 %rd1, {%r60, %r1}; match.any.sync.b64 %r2, %rd1, %r50; match.all.sync.b64 %r3|%q1, %rd1, %r50; selp.u32 %r4, 1, 0, %q1;"
    )
    return [
        _case("match.b32", body + stores, [rows.ravel()], 3),
        _case("match.b64", wide + stores, [rows.ravel()], 3),
    ]


def reductions() -> list[Case]:
    """redux on integers."""
    value = np.resize(
        np.concatenate([samples.U32_SPECIALS, samples.random_bits(5000, np.uint32, 18)]),
        WARPS * LANES,
    )
    cases = []
    for op, kinds in {
        "add": ("u32", "s32"),
        "min": ("u32", "s32"),
        "max": ("u32", "s32"),
        "and": ("b32",),
        "or": ("b32",),
        "xor": ("b32",),
    }.items():
        for kind in kinds:
            body = _load(1, "%r1") + f"redux.sync.{op}.{kind} %r2, %r1, %r50;" + _store(2, "%r2")
            cases.append(_case(f"redux.{op}.{kind}", body, [value], 1))
    return cases


def cases() -> list[Case]:
    """All warp operations."""
    return [*elect(), *shuffles(), *votes(), *matches(), *reductions()]
