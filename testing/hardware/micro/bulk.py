"""cp.async, cp.async.bulk and cp.reduce.async.bulk between global and shared memory."""

from __future__ import annotations

import numpy as np

from testing.hardware.case import Case
from testing.hardware.micro import samples
from testing.hardware.micro.shared import BASE, DATA, SMEM, bounded_wait, dump, fill, init, only

SIZE = 4096
REDUCTIONS = [
    *[(op, kind) for op in ("add", "min", "max") for kind in ("u32", "s32", "u64", "f16", "bf16")],
    ("min", "s64"), ("max", "s64"), ("add", "f32"), ("add", "f64"), ("inc", "u32"), ("dec", "u32"),
    *[(op, kind) for op in ("and", "or", "xor") for kind in ("b32", "b64")],
]  # fmt: skip


def loads() -> list[Case]:
    """Global to shared, sizes and offsets in multiples of 16."""
    out, data = [], samples.random_bits(SIZE // 4, np.uint32, 91)
    for size, source, target in (
        (16, 0, 0),
        (32, 16, 48),
        (1008, 144, 1024),
        (4096, 0, 0),
        (48, 4048, 16),
        (2064, 16, 16),
    ):
        issue = init() + f"mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], {size};"
        issue += f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+{DATA + target}], [%p0+{source}], {size}, [%r1];"
        body = (
            BASE
            + fill(SIZE)
            + only(0, issue)
            + bounded_wait()
            + dump(SIZE)
            + f"st.global.b32 [%p1+{SIZE}], %r9;"
        )
        out.append(
            Case(
                f"load {size} B",
                "bulk",
                body,
                (data,),
                (np.full(SIZE + 4, 0xA5, np.uint8),),
                shared=SMEM,
                smem=DATA + SIZE,
                group="bulk loads",
            )
        )
    return out


def _to_global(
    name: str,
    group: str,
    mods: str,
    source: np.ndarray,
    old: np.ndarray,
    size: int,
    place: tuple[int, int],
) -> Case:
    issue = f"{mods} [%p1+{place[1]}], [%r1+{DATA + place[0]}], {size}; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
    body = BASE + fill(SIZE, "F", "%p0") + only(0, issue)
    return Case(name, "bulk", body, (source,), (old,), shared=SMEM, smem=DATA + SIZE, group=group)


def _values(kind: str, seed: int) -> np.ndarray:
    if kind == "f32":
        count = SIZE // 4 - len(samples.F32_SPECIALS)
        return np.concatenate(
            [np.roll(samples.F32_SPECIALS, seed), samples.random_f32(count, 100, 140, seed)]
        )
    if kind == "f64":
        return (
            samples.random_f32(SIZE // 8, 100, 150, seed)
            .view(np.float32)
            .astype(np.float64)
            .view(np.uint32)
        )
    return samples.random_bits(SIZE // 4, np.uint32, seed)


def stores() -> list[Case]:
    """Shared to global, plain and reducing."""
    out = []
    for size, source, target in ((16, 0, 0), (48, 16, 160), (4096, 0, 0), (1040, 2000, 992)):
        out.append(
            _to_global(
                f"store {size} B",
                "bulk stores",
                "cp.async.bulk.global.shared::cta.bulk_group",
                _values("u32", 3),
                _values("u32", 4),
                size,
                (source, target),
            )
        )
    for op, kind in REDUCTIONS:
        noftz = ".noftz" if kind in ("f16", "bf16") and op == "add" else ""
        mods = f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{op}{noftz}.{kind}"
        out.append(
            _to_global(
                f"{op}.{kind}",
                "bulk reductions",
                mods,
                _values(kind, 5),
                _values(kind, 6),
                SIZE,
                (0, 0),
            )
        )
    return out


def small() -> list[Case]:
    """cp.async of 4, 8, 16 bytes per thread, with source sizes and ignored sources."""
    out, data = [], samples.random_bits(SIZE // 4, np.uint32, 92)
    address = "mul.lo.u32 %r6, %r0, {size}; add.u32 %r7, %r1, %r6; cvt.u64.u32 %rd2, %r6; add.s64 %rd2, %rd2, %p0;"
    for size, cache in ((4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")):
        forms = {"whole": "", "partial": ", %r8", "ignore": ", %q3"}
        for name, operand in forms.items():
            issue = (
                address.format(size=size)
                + f"rem.u32 %r8, %r0, {size + 1}; and.b32 %r9, %r0, 1; setp.eq.u32 %q3, %r9, 1;"
            )
            issue += f"cp.async.{cache}.shared.global [%r7+{DATA}], [%rd2], {size}{operand}; cp.async.commit_group; cp.async.wait_group 0; bar.warp.sync -1;\n"
            body = BASE + fill(1024) + issue + dump(1024)
            out.append(
                Case(
                    f"cp.async.{cache} {size} {name}",
                    "bulk",
                    body,
                    (data,),
                    (np.full(1024, 0xA5, np.uint8),),
                    shared=SMEM,
                    smem=DATA + 1024,
                    group="cp.async",
                )
            )
    return out


def cases() -> list[Case]:
    """All copies without a tensor map."""
    return [*loads(), *stores(), *small()]
