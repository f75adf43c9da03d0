"""Kernels of PyPI ``quack-kernels`` (row reductions, top-k, a persistent GEMM) on host memory.

The package's torch functions want CUDA tensors, so its kernel classes are called directly.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import cuda.bindings.driver as cuda_driver
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack
from quack.cross_entropy import CrossEntropy
from quack.rmsnorm import RMSNorm
from quack.softmax import Softmax, SoftmaxBackward
from quack.topk import TopK

from benchmarks.foreign.cases import Case, Outcome, normal, poisoned
from benchmarks.foreign.torch_on_host import cuda_tensors_on_host

SOURCE = "PyPI quack-kernels"
ELEMENTS = {
    torch.float32: cutlass.Float32,
    torch.bfloat16: cutlass.BFloat16,
    torch.float16: cutlass.Float16,
}
EPSILON = 1e-6
SM_COUNT = 4


def device_tensor(tensor: torch.Tensor, *, dynamic: bool = True) -> Any:
    """A DSL tensor over host memory; the last dimension is contiguous and may be assumed so."""
    view = from_dlpack(tensor, assumed_align=16)
    return view.mark_layout_dynamic(leading_dim=tensor.ndim - 1) if dynamic else view


def rows(tensor: torch.Tensor) -> Any:
    """A (rows, N) tensor with a run-time number of rows and a compile-time N, as quack wants it."""
    return from_dlpack(tensor, assumed_align=16).mark_compact_shape_dynamic(
        mode=0, stride_order=(0, 1)
    )


def call(kernel: Any, *arguments: Any) -> None:
    """Compile and launch a kernel object on the null stream."""
    stream = cuda_driver.CUstream(0)
    cute.compile(kernel, *arguments, stream)(*arguments, stream)


def rmsnorm(count: int, n: int, dtype: torch.dtype) -> Outcome:
    """Root-mean-square normalisation of ``count`` rows with weights and saved 1/rms."""
    x = normal(count, n, dtype=dtype, seed=1)
    weight = normal(n, dtype=torch.float32, seed=2)
    out, rstd = poisoned(count, n, dtype=dtype), poisoned(count, dtype=torch.float32)
    kernel = RMSNorm(ELEMENTS[dtype], n)
    call(
        kernel, rows(x), device_tensor(weight, dynamic=False), None, None, rows(out), None,
        device_tensor(rstd), None, cutlass.Float32(EPSILON),
    )  # fmt: skip
    inverse = (x.double().square().mean(-1) + EPSILON).rsqrt()
    expected = x.double() * inverse[:, None] * weight.double()
    return Outcome(out, expected, (Outcome(rstd, inverse),))


def softmax(count: int, n: int, dtype: torch.dtype) -> Outcome:
    """Softmax over rows."""
    x, out = normal(count, n, dtype=dtype, seed=3), poisoned(count, n, dtype=dtype)
    call(Softmax(ELEMENTS[dtype], n), rows(x), rows(out))
    return Outcome(out, x.double().softmax(-1))


def softmax_backward(count: int, n: int, dtype: torch.dtype) -> Outcome:
    """Gradient of the row softmax."""
    y = normal(count, n, dtype=torch.float32, seed=4).softmax(-1).to(dtype)
    dy, dx = normal(count, n, dtype=dtype, seed=5), poisoned(count, n, dtype=dtype)
    call(SoftmaxBackward(ELEMENTS[dtype], n), rows(dy), rows(y), rows(dx))
    yd, dyd = y.double(), dy.double()
    return Outcome(dx, yd * (dyd - (yd * dyd).sum(-1, keepdim=True)))


def cross_entropy(count: int, n: int, dtype: torch.dtype) -> Outcome:
    """Cross-entropy loss and log-sum-exp of ``count`` rows of logits."""
    x = normal(count, n, dtype=dtype, seed=6)
    target = torch.randint(n, (count,), generator=torch.Generator().manual_seed(7)).int()
    loss, lse = (poisoned(count, dtype=torch.float32) for _ in range(2))
    call(
        CrossEntropy(ELEMENTS[dtype], n), rows(x), device_tensor(target), None,
        device_tensor(loss), device_tensor(lse), None, None, cutlass.Int32(-100),
    )  # fmt: skip
    expected = x.double().logsumexp(-1)
    picked = x.double().gather(1, target.long()[:, None])[:, 0]
    return Outcome(loss, expected - picked, (Outcome(lse, expected),))


def topk(count: int, n: int, k: int) -> Outcome:
    """The k largest values of each row, in descending order, and their columns."""
    x = normal(count, n, dtype=torch.float32, seed=8)
    values = poisoned(count, k, dtype=torch.float32)
    indices = torch.full((count, k), -1, dtype=torch.int32)
    call(TopK(cutlass.Float32, n, k), rows(x), rows(values), rows(indices))
    expected, columns = x.double().topk(k, -1)
    # TopK keeps the column in the low mantissa bits, so values differ by that much.
    return Outcome(values, expected, (Outcome(indices, columns),))


def gemm(
    mnk: tuple[int, int, int],
    tile: tuple[int, int],
    cluster: tuple[int, ...],
    *,
    bias: bool = False,
    pingpong: bool = False,
) -> Outcome:
    """``quack.gemm.gemm``: D = A @ B^T (+ C) for bf16 A (m, k), B (n, k); persistent."""
    from quack.gemm import gemm as quack_gemm

    m, n, k = mnk
    a = normal(m, k, dtype=torch.bfloat16, seed=9)
    b = normal(n, k, dtype=torch.bfloat16, seed=10)
    c = normal(m, n, dtype=torch.bfloat16, seed=11) if bias else None
    out = poisoned(m, n, dtype=torch.bfloat16)
    with cuda_tensors_on_host(SM_COUNT, claim_cuda=True):
        quack_gemm(a, b, out, c, None, *tile, *cluster, pingpong=pingpong)
    expected = a.double() @ b.double().T
    return Outcome(out, expected if c is None else expected + c.double())


def _case(
    name: str, function: Callable[..., Outcome], *arguments: Any, tolerance: float = 5e-3
) -> Case:
    return Case(f"quack_{name}", SOURCE, tolerance, partial(function, *arguments))


CASES = [
    _case("rmsnorm_bf16", rmsnorm, 5, 1024, torch.bfloat16),
    _case("rmsnorm_f32_wide", rmsnorm, 3, 8192, torch.float32, tolerance=1e-5),
    _case("rmsnorm_cluster", rmsnorm, 2, 65536, torch.bfloat16),
    _case("softmax_bf16", softmax, 7, 512, torch.bfloat16),
    _case("softmax_f32", softmax, 3, 4096, torch.float32, tolerance=1e-5),
    _case("softmax_cluster", softmax, 2, 65536, torch.bfloat16),
    _case("softmax_backward", softmax_backward, 5, 1024, torch.bfloat16),
    _case("cross_entropy", cross_entropy, 5, 1024, torch.bfloat16),
    _case("topk", topk, 4, 256, 8, tolerance=1e-4),
    _case("gemm", gemm, (256, 256, 192), (128, 128), (1, 1)),
    _case("gemm_2cta", partial(gemm, bias=True), (512, 256, 128), (256, 128), (2, 1)),
    _case("gemm_ragged", gemm, (200, 136, 72), (128, 128), (1, 1)),
]
