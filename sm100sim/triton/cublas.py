"""What Triton's programs ask of cuBLAS, on the host: the library's kernels are machine code."""

from __future__ import annotations

from typing import Any


def _product(a: Any, b: Any) -> Any:
    """A times the transpose of B, [M, K] and [N, K], in f32."""
    return a.float() @ b.float().T


class CublasLt:
    """Stands for `triton._C.libtriton.nvidia.cublas.CublasLt`, of which no launch is recorded."""

    def __init__(self, workspace: Any) -> None:
        """`workspace`: device memory for the library; not used."""

    def matmul(self, a: Any, b: Any, c: Any) -> None:
        """C = A times the transpose of B."""
        c.copy_(_product(a, b))

    def gemm(self, a: Any, b: Any, c: Any, d: Any, alpha: float, beta: float) -> None:
        """D = alpha times that product, plus beta times C."""
        d.copy_(alpha * _product(a, b) + beta * c.float())

    def block_scaled_matmul_mxfp8(self, *_operands: Any) -> None:
        """Refused.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("cuBLAS's block-scaled products: the library is machine code")

    block_scaled_matmul_nvfp4 = block_scaled_matmul_mxfp8
