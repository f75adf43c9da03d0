"""8 x 8 matrices between shared memory and the lanes of a warp, and bytes within words.

A matrix has eight rows of 16 bytes; lane ``t`` holds one 32-bit word of each. Lane ``8 i + r`` of a
call names row ``r`` of matrix ``i`` (PTX ISA, "ldmatrix", "stmatrix").
"""

from collections.abc import Sequence

from cutlass import Int32, cute

from ..ptx import emit

_MATRICES = 4


def load(address: Int32) -> list[Int32]:
    """Return the lane's words of four matrices. A whole warp.

    Args:
        address: shared address of the row that the lane names.

    DSL: as for :func:`load_transposed`.
    """
    return emit(
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {$0, $1, $2, $3}, [$4];",
        (Int32,) * _MATRICES,
        (address,),
    )


def load_transposed(address: Int32) -> list[Int32]:
    """Return the lane's words of four matrices of 16-bit elements, each transposed. A whole warp.

    Args:
        address: shared address of the row that the lane names.

    DSL: ``cute.nvgpu.warp.LdMatrix8x8x16bOp`` is an atom of copies between tensors with layouts.
    """
    return emit(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {$0, $1, $2, $3}, [$4];",
        (Int32,) * _MATRICES,
        (address,),
    )


def store(address: Int32, words: Sequence[Int32]) -> None:
    """Store four matrices of which the lane has ``words``. A whole warp.

    Args:
        address: shared address of the row that the lane names.
        words: its word of each matrix.

    DSL: as for :func:`load_transposed`.
    """
    text = "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};"
    emit(text, (), (address, *words))


def chosen_bytes(low: Int32, high: Int32, selector: Int32) -> Int32:
    """Return the four bytes that ``selector`` names, of ``low`` (0 to 3) and ``high`` (4 to 7)."""
    return Int32(cute.arch.prmt(low, high, selector))
