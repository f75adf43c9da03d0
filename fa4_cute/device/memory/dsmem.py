"""Shared memory of the other CTAs of a cluster: addresses, loads, arrivals.

A shared-memory address names a variable in one CTA; ``mapa`` gives the same variable in another
(PTX ISA, "mapa"). The other CTA must still be running, and only barriers order what it wrote.
"""

from cutlass import Float32, Int32

from ..ptx import emit

_VECTOR = 4


def load_f32x2(address: Int32) -> list[Float32]:
    """Return two floats from an 8-byte aligned cluster address (PTX ISA, "ld").

    DSL: ``cute.arch.load`` refuses addresses in other CTAs (address space ``dsmem``).
    """
    return emit("ld.shared::cluster.v2.f32 {$0, $1}, [$2];", (Float32,) * 2, (address,))


def load_f32x4(address: Int32) -> list[Float32]:
    """Return four floats from a 16-byte aligned cluster address.

    DSL: as for :func:`load_f32x2`.
    """
    return emit(
        "ld.shared::cluster.v4.f32 {$0, $1, $2, $3}, [$4];", (Float32,) * _VECTOR, (address,)
    )


def arrive_in_all(mbarrier: Int32, num_ctas: int) -> None:
    """Arrive once on ``mbarrier`` of each of ``num_ctas`` CTAs: lane ``i`` does in CTA ``i``.

    A release at cluster scope. It covers what the other lanes wrote too, because the warp barrier
    in front orders their writes before the arriving lanes, and a release is cumulative (PTX ISA,
    "bar.warp.sync" and "Memory Consistency Model", causality order). All 32 threads must come here.

    DSL: ``cute.arch.mbarrier_arrive`` takes its scope as a private type, keeps the count in a
    register, and has no predicate for the lanes that have no CTA to arrive in.
    """
    emit(
        "{\n\t.reg .pred chosen;\n\t.reg .b32 lane, remote;\n\t"
        "bar.warp.sync -1;\n\tmov.u32 lane, %laneid;\n\t"
        f"setp.lt.u32 chosen, lane, {num_ctas};\n\t"
        "@chosen mapa.shared::cluster.u32 remote, $0, lane;\n\t"
        "@chosen mbarrier.arrive.release.cluster.shared::cluster.b64 _, [remote];\n\t}",
        (),
        (mbarrier,),
    )
