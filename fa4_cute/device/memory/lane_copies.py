"""Copies of 16 bytes from global to shared memory that a lane asks for and does not wait for.

PTX ISA, "cp.async" and "cp.async.mbarrier.arrive".
"""

from cutlass import Int32, Int64, cute

from ..pointers import shared
from ..ptx import emit

BYTES = 16


def copy(target: Int32, source: Int64, valid: Int32) -> None:
    """Start to copy 16 bytes from ``source`` to shared address ``target``, through the L2 alone.

    With ``valid`` of 0 nothing is read, and zeros are written.

    DSL: ``cute.nvgpu.cpasync.CopyG2SOp`` is an atom of copies between tensors with layouts.
    """
    emit(
        "{\n\t.reg .pred valid;\n\t.reg .b32 size;\n\tsetp.ne.b32 valid, $2, 0;\n\t"
        f"selp.b32 size, {BYTES}, 0, valid;\n\t"
        f"cp.async.cg.shared.global [$0], [$1], {BYTES}, size;\n\t}}",
        (),
        (target, source, valid),
    )


def arrive_after(barrier: Int32) -> None:
    """Arrive on the mbarrier at ``barrier``, each calling thread once, when its copies so far are
    done; the barrier's count includes these arrivals.
    """
    cute.arch.cp_async_mbarrier_arrive_noinc(shared(barrier))
