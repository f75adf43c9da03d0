"""Zero the rows of an operand tile in shared memory before the tensor cores read it."""

import cutlass
from cutlass import Int32, cute

from ...plan.facts.hardware import UNIT_BYTES
from ..ids import lane_index
from ..ptx import emit


@cute.jit
def zero_rows(
    chunk: Int32,
    first: Int32,
    num_rows: cutlass.Constexpr[int],
    row_bytes: cutlass.Constexpr[int],
) -> None:
    """Zero rows ``first .. num_rows`` of a chunk of rows of ``row_bytes``. One whole warp.

    ``chunk`` is a shared address of any CTA of the cluster.
    """
    lanes_per_row = row_bytes // UNIT_BYTES
    step = cute.arch.WARP_SIZE // lanes_per_row
    lane = lane_index()
    line = chunk + lane * UNIT_BYTES
    for row in cutlass.range(first, num_rows, step, unroll=1):
        _zero_unit(line + row * row_bytes, num_rows - row - lane // lanes_per_row)


def _zero_unit(address: Int32, rows_left: Int32) -> None:
    """Zero 16 bytes unless the lane's row lies past the last one.

    DSL: ``cute.arch.store`` has no predicate and refuses addresses in other CTAs.
    """
    emit(
        "{\n\t.reg .pred inside;\n\tsetp.gt.s32 inside, $1, 0;\n\t"
        "@inside st.shared::cluster.v4.b32 [$0], {0, 0, 0, 0};\n\t}",
        (),
        (address, rows_left),
    )


def publish_to_tensor_cores() -> None:
    """Order the warp's stores before the MMAs that its elected lane issues next.

    Every lane fences its own stores, then the lanes meet (PTX ISA, "membar / fence", proxy fences).
    """
    cute.arch.fence_proxy("async.shared", space="cluster")
    cute.arch.sync_warp()
