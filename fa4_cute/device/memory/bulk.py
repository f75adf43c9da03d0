"""Bulk copies without a tensor map: contiguous bytes to shared memory, counted on an mbarrier."""

from cutlass import Int32, Int64

from ..ptx import emit


def load_bytes(destination: Int32, source: Int64, num_bytes: int, mbarrier: Int32) -> None:
    """Load ``num_bytes``, a multiple of 16, between 16-byte aligned addresses. One lane.

    PTX ISA: "cp.async.bulk".

    DSL: ``cpasync.CopyBulkG2SOp`` finds the destination's cluster address with ``mapa`` first and
    keeps the byte count in a register, after an election and a branch.
    """
    emit(
        "{\n\t.reg .pred leader;\n\telect.sync _|leader, -1;\n\t"
        "@leader cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
        f"[$0], [$1], {num_bytes}, [$2];\n\t}}",
        (),
        (destination, source, mbarrier),
    )
