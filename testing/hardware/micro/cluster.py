"""Clusters: mapa, distributed shared memory, remote arrivals, cluster barrier, multicast."""

from __future__ import annotations

from typing import Any

import numpy as np

from testing.hardware.case import Case, filled
from testing.hardware.micro import samples
from testing.hardware.micro.shared import BASE, DATA, SMEM, bounded_wait, dump, fill, init, only
from testing.hardware.micro.tma import shape

START = (
    BASE
    + "mov.u32 %r20, %cluster_ctarank; mov.u32 %r21, %cluster_nctarank; add.u32 %r22, %r20, 1; rem.u32 %r22, %r22, %r21; mapa.shared::cluster.u32 %r23, %r1, %r22;\n"
)
"""%r20 rank, %r21 CTAs, %r22 the next CTA's rank, %r23 its dynamic shared memory."""

SYNC = "barrier.cluster.arrive; barrier.cluster.wait;\n"


def _case(
    name: str, body: str, count: int, outputs: tuple[np.ndarray, ...], **more: object
) -> Case:
    options: dict[str, Any] = {
        "grid": count,
        "cluster": count,
        "shared": SMEM,
        "smem": DATA + 2048,
        "group": name.split(" ")[0],
        **more,
    }
    return Case(f"{name} of {count}", "cluster", START + body + SYNC, outputs=outputs, **options)


def addresses(count: int) -> Case:
    """Ranks, mapa, getctarank of own and mapped addresses, and differences of addresses."""
    body = (
        "getctarank.shared::cluster.u32 %r3, %r23; getctarank.shared::cluster.u32 %r4, %r1; mapa.shared::cluster.u32 %r5, %r1, %r20;"
        "getctarank.shared::cluster.u32 %r6, %r5; cvt.u64.u32 %rd1, %r1; cvta.shared.u64 %rd2, %rd1; mapa.u64 %rd3, %rd2, %r22; getctarank.u64 %r7, %rd3;"
        "mapa.shared::cluster.u32 %r8, %r23, %r20; sub.u32 %r8, %r8, %r5; shr.u32 %r9, %r23, 24; and.b32 %r10, %r23, 0xFFFFFF; and.b32 %r11, %r5, 0xFFFFFF; sub.u32 %r10, %r10, %r11;"
        "mov.u32 %r11, %cluster_ctaid.x; mov.u32 %r12, %nclusterid.x; mov.u32 %r13, %cluster_nctaid.x;"
        "mad.lo.u32 %r30, %r20, 48, 0; cvt.u64.u32 %rd4, %r30; add.s64 %rd4, %rd4, %p0;"
    )  # fmt: skip
    values = (3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 20, 21)
    body += "".join(f"st.global.b32 [%rd4+{4 * k}], %r{r};" for k, r in enumerate(values))
    return _case("mapa", only(0, body), count, (filled(12 * count, np.uint32),))


def exchange(count: int) -> Case:
    """Every CTA writes the next one's memory with st, atom and red; reads it with ld."""
    body = (
        fill(256) + SYNC + "shl.b32 %r3, %r0, 2; add.u32 %r4, %r23, %r3; mad.lo.u32 %r5, %r20, 1000, %r0;"
        f"st.shared::cluster.b32 [%r4+{DATA}], %r5; atom.shared::cluster.add.u32 %r6, [%r4+{DATA + 128}], %r5;" + SYNC
        + f"ld.shared::cluster.b32 %r7, [%r4+{DATA}]; mad.lo.u32 %r8, %r20, 32, %r0; mad.wide.u32 %rd5, %r8, 8, %p1; st.global.v2.b32 [%rd5], {{%r6, %r7}};"
        "shl.b32 %r24, %r20, 8;" + dump(256, "%p0", "%r24")
    )  # fmt: skip
    return _case("dsmem", body, count, (filled(256 * count), filled(64 * count, np.uint32)))


def arrivals(count: int) -> Case:
    """Each thread arrives at the next CTA's barrier; the remote expect and complete, and st.async."""
    body = (
        only(0, init(34), "I") + fill(256) + SYNC + "mbarrier.arrive.shared::cluster.b64 _, [%r23];\n"
        + only(0, f"""mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%r23], 24; mov.u32 %r5, 77; mad.lo.u32 %r5, %r20, 5, %r5;
st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r23+{DATA}], %r5, [%r23];
st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r23+{DATA + 16}], {{%r5, %r20, %r21, %r22}}, [%r23];
red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32 [%r23+{DATA + 64}], %r5, [%r23];""", "X")
        + only(1, "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r23], 1;", "Y") + bounded_wait()
        + "shl.b32 %r24, %r20, 8;" + dump(256, "%p0", "%r24") + "mad.wide.u32 %rd5, %r20, 4, %p1; st.global.b32 [%rd5], %r9;"
    )  # fmt: skip
    return _case("arrive", body, count, (filled(256 * count), filled(count, np.uint32)))


def copies(count: int) -> list[Case]:
    """cp.async.bulk from shared memory to the next CTA, plain and reducing."""
    out = []
    forms = {"plain": "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"}
    for op, kind in (
        ("add", "u32"),
        ("add", "s32"),
        ("add", "u64"),
        ("min", "s32"),
        ("max", "u32"),
        ("inc", "u32"),
        ("dec", "u32"),
        ("and", "b32"),
        ("xor", "b32"),
    ):
        forms[f"{op}.{kind}"] = (
            f"cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.{op}.{kind}"
        )
    for name, mods in forms.items():
        body = (
            only(0, init(), "I") + "shl.b32 %r25, %r20, 10; cvt.u64.u32 %rd6, %r25; add.s64 %rd6, %rd6, %p0;" + fill(1024, "F", "%rd6") + SYNC
            + only(0, f"mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], 512; {mods} [%r23+{DATA + 512}], [%r1+{DATA}], 512, [%r23];", "X")
            + bounded_wait() + dump(1024, "%p1", "%r25") + "mad.wide.u32 %rd5, %r20, 4, %p2; st.global.b32 [%rd5], %r9;"
        )  # fmt: skip
        data = samples.random_bits(256 * count, np.uint32, 95)
        out.append(
            _case(
                f"copy {name}",
                body,
                count,
                (filled(1024 * count), filled(count, np.uint32)),
                inputs=(data,),
            )
        )
    return out


def multicast(count: int, mask: int, tensor: bool) -> Case:
    """CTA 0 copies into every CTA of the mask; each of them waits at its own barrier."""
    args = shape("BFLOAT16", (100, 20), (64, 8), swizzle=3)
    size = 1024
    place = f"[%r1+{DATA}]"
    if tensor:
        copy = f"cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster {place}, [%m0, {{40, 15}}], [%r1], %h1;"
    else:
        copy = f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster {place}, [%p0], {size}, [%r1], %h1;"
    body = (
        only(0, init(), "I") + fill(size) + only(0, f"mbarrier.arrive.expect_tx.shared.b64 %rd9, [%r1], {size};", "E") + SYNC
        + f"mov.b16 %h1, {mask}; setp.ne.u32 %q5, %r20, 0; @%q5 bra NO;\n" + only(0, copy, "X") + f"NO: mov.u32 %r9, 2; shr.u32 %r26, {mask}, %r20; and.b32 %r26, %r26, 1; setp.eq.u32 %q6, %r26, 0; @%q6 bra OUT;\n"
        + bounded_wait() + "OUT:" + SYNC + f"mul.lo.u32 %r25, %r20, {size};" + dump(size, "%p1", "%r25")
        + "mad.wide.u32 %rd5, %r20, 4, %p2; st.global.b32 [%rd5], %r9;"
    )  # fmt: skip
    data = samples.random_bits(2048, np.uint32, 96)
    maps = (args,) if tensor else ()
    kind = "tensor" if tensor else "bulk"
    return _case(
        f"multicast {kind} mask {mask}",
        body,
        count,
        (filled(size * count), filled(count, np.uint32)),
        inputs=(data,),
        maps=maps,
    )


def cases() -> list[Case]:
    """Clusters of 2, 4 and 8 CTAs."""
    out: list[Case] = []
    for count in (2, 4, 8):
        out += [addresses(count), exchange(count), arrivals(count)]
    out += [*copies(2), *copies(4)]
    for count, masks in ((2, (1, 2, 3)), (4, (1, 6, 9, 15)), (8, (0xA5, 0xFF))):
        out += [multicast(count, mask, tensor) for mask in masks for tensor in (True, False)]
    return out
