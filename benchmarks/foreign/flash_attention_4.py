"""FlashAttention-4 forward kernels (PyPI ``flash-attn-4``) on host memory.

The package's own interface wants CUDA tensors, so its kernel class is driven through a host
function of ours, which takes global pointers and builds the tensors that the class expects.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import cuda.bindings.driver as cuda_driver
import cutlass
import torch
from cutlass import cute
from cutlass.cute.runtime import make_ptr
from flash_attn.cute.flash_fwd_sm100 import FlashAttentionForwardSm100

from benchmarks.foreign.cases import Case, Outcome, normal, poisoned
from testing.reference.exact import attention_float64

SOURCE = "PyPI flash-attn-4"


@dataclass(frozen=True)
class Problem:
    """Shapes and kernel choices of one run; the package's interface makes such choices."""

    head_dim: int
    seqlen_q: int = 256
    seqlen_k: int = 256
    heads: int = 1
    heads_kv: int = 1
    batch: int = 1
    causal: bool = False
    two_cta: bool = False
    persistent: bool = False
    pack_gqa: bool = False
    head_dim_v: int | None = None
    dtype: torch.dtype = torch.bfloat16
    q_stage: int = 2


class AttentionCall:
    """The host function: global pointers in, one launch of the package's kernel."""

    def __init__(self, kernel: Any) -> None:
        """Keeps the package's kernel object."""
        self.kernel = kernel

    @cute.jit
    def __call__(
        self,
        pointers: tuple[cute.Pointer, cute.Pointer, cute.Pointer, cute.Pointer, cute.Pointer],
        scale: cutlass.Float32,
        sizes: tuple[cutlass.Int32, cutlass.Int32, cutlass.Int32, cutlass.Int32, cutlass.Int32],
        dims: cutlass.Constexpr,
        stream: cuda_driver.CUstream,
    ) -> None:
        """Build (batch, seqlen, heads, head_dim) tensors and launch."""
        q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr = pointers
        batch, seqlen_q, seqlen_k, heads, heads_kv = sizes
        dim, dim_v = dims
        rows = (batch, seqlen_q, heads, dim)
        keys = (batch, seqlen_k, heads_kv, dim)
        values = (batch, seqlen_k, heads_kv, dim_v)
        out = (batch, seqlen_q, heads, dim_v)
        order = (3, 2, 1, 0)
        self.kernel(
            cute.make_tensor(q_ptr, cute.make_ordered_layout(rows, order=order)),
            cute.make_tensor(k_ptr, cute.make_ordered_layout(keys, order=order)),
            cute.make_tensor(v_ptr, cute.make_ordered_layout(values, order=order)),
            cute.make_tensor(o_ptr, cute.make_ordered_layout(out, order=order)),
            cute.make_tensor(
                lse_ptr, cute.make_ordered_layout((batch, heads, seqlen_q), order=(2, 1, 0))
            ),
            scale,
            stream=stream,
        )


def gmem_pointer(tensor: torch.Tensor, element_type: Any, align: int = 16) -> Any:
    """A global-memory pointer to a host tensor's first element."""
    return make_ptr(element_type, tensor.data_ptr(), cute.AddressSpace.gmem, assumed_align=align)


def run(problem: Problem) -> Outcome:
    """Run the forward kernel for one problem and give its output and log-sum-exp."""
    p, dim_v = problem, problem.head_dim_v or problem.head_dim
    q = normal(p.batch, p.seqlen_q, p.heads, p.head_dim, dtype=p.dtype, seed=1)
    k = normal(p.batch, p.seqlen_k, p.heads_kv, p.head_dim, dtype=p.dtype, seed=2)
    v = normal(p.batch, p.seqlen_k, p.heads_kv, dim_v, dtype=p.dtype, seed=3)
    out = poisoned(p.batch, p.seqlen_q, p.heads, dim_v, dtype=p.dtype)
    lse = poisoned(p.batch, p.heads, p.seqlen_q, dtype=torch.float32)
    scale = 1 / math.sqrt(p.head_dim)
    kernel = FlashAttentionForwardSm100(
        p.head_dim,
        dim_v,
        qhead_per_kvhead=p.heads // p.heads_kv,
        is_causal=p.causal,
        pack_gqa=p.pack_gqa,
        q_stage=p.q_stage,
        is_static_persistent=p.persistent,
        use_2cta_instrs=p.two_cta,
    )
    element = cutlass.BFloat16 if p.dtype == torch.bfloat16 else cutlass.Float16
    pointers = [gmem_pointer(t, element) for t in (q, k, v, out)]
    pointers.append(gmem_pointer(lse, cutlass.Float32))
    sizes = tuple(
        cutlass.Int32(n) for n in (p.batch, p.seqlen_q, p.seqlen_k, p.heads, p.heads_kv)
    )
    stream = cuda_driver.CUstream(0)
    dims = (p.head_dim, dim_v)
    arguments = [tuple(pointers), cutlass.Float32(scale), sizes]
    compiled = cute.compile(AttentionCall(kernel), *arguments, dims, stream)
    compiled(*arguments, stream)
    exact = attention_float64(q, k, v, causal=p.causal, softmax_scale=scale)
    return Outcome(out, exact.out, (Outcome(lse, exact.lse),))


PROBLEMS = {
    "d64": Problem(64),
    "d96": Problem(96),
    "d128": Problem(128),
    "d128_causal": Problem(128, causal=True, seqlen_q=384, seqlen_k=384),
    "d64_causal": Problem(64, causal=True),
    "d64_fp16": Problem(64, dtype=torch.float16),
    "d128_ragged": Problem(128, seqlen_q=333, seqlen_k=271),
    "d128_causal_ragged": Problem(128, seqlen_q=211, seqlen_k=333, causal=True),
    "d128_gqa": Problem(128, heads=4, heads_kv=2, batch=2),
    "d128_pack_gqa": Problem(128, heads=4, heads_kv=1, pack_gqa=True),
    "d128_persistent": Problem(128, heads=2, batch=2, persistent=True, seqlen_k=512),
    "d128_2cta": Problem(128, two_cta=True, seqlen_q=512),
    "d64_1q": Problem(64, q_stage=1, seqlen_q=128),
    "d192_dv128": Problem(192, head_dim_v=128),
    "d192_dv128_2cta": Problem(192, head_dim_v=128, two_cta=True, seqlen_q=512),
    "d256_2cta": Problem(256, two_cta=True, q_stage=1),
    "d256_1cta": Problem(256, q_stage=1),
}

CASES = [
    Case(f"fa4_fwd_{name}", SOURCE, 5e-3, partial(run, problem))
    for name, problem in PROBLEMS.items()
]
