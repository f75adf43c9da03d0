"""One attention problem run on the virtual SM100, and the exact answer to hold it against."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from fa4_cute.host.run import simulator
from fa4_cute.host.run.launch import AttentionCall, Operand, pack_launch
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import CAUSAL, NULL
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.tensor_maps import OperandLayout
from fa4_cute.plan.spec.variant import Partition, Variant
from tests.kernel.artifacts import compiled

TORCH_TYPES = {
    DType.BF16: torch.bfloat16,
    DType.FP16: torch.float16,
    DType.FP8_E4M3: torch.float8_e4m3fn,
}


@dataclass(frozen=True)
class Case:
    """Shapes and options of one problem."""

    seqlen_q: int
    seqlen_k: int
    head_dim: int = 64
    heads: int = 1
    kv_heads: int = 1
    batch: int = 1
    causal: bool = False
    dtype: DType = DType.BF16
    scale: float | None = None
    num_qo: int = 2
    pair_cta: bool = False
    num_partitions: int = 1

    @property
    def softmax_scale(self) -> float:
        return 1 / math.sqrt(self.head_dim) if self.scale is None else self.scale

    def __str__(self) -> str:
        mask = "causal" if self.causal else "full"
        return (
            f"{self.dtype.value}-d{self.head_dim}-{mask}-b{self.batch}-h{self.heads}/"
            f"{self.kv_heads}-q{self.seqlen_q}-k{self.seqlen_k}"
            f"{'-1q' if self.num_qo == 1 else ''}{'-pair' if self.pair_cta else ''}"
            f"{f'-cluster{self.num_partitions}' if self.num_partitions > 1 else ''}"
        )


def attention(case: Case, q, k, v, dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (output, log-sum-exp) computed in ``dtype``; rows without keys give 0 and -inf."""
    group = case.heads // case.kv_heads
    k, v = (x.repeat_interleave(group, 2) for x in (k, v))
    q, k, v = (x.to(dtype) for x in (q, k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * case.softmax_scale
    if case.causal:
        rows, columns = torch.arange(case.seqlen_q)[:, None], torch.arange(case.seqlen_k)[None]
        hidden = columns > rows + case.seqlen_k - case.seqlen_q
        scores = scores.masked_fill(hidden, -math.inf)
    probabilities = torch.nan_to_num(torch.softmax(scores, -1), 0.0)
    output = torch.einsum("bhqk,bkhd->bqhd", probabilities, v)
    return output, torch.logsumexp(scores.double(), -1)


def inputs(case: Case, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return seeded normal q, k and v."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(case.seqlen_q, case.heads), (case.seqlen_k, case.kv_heads)]
    shapes.append(shapes[1])
    made = [torch.randn(case.batch, n, h, case.head_dim, generator=generator) for n, h in shapes]
    q, k, v = (x.to(TORCH_TYPES[case.dtype]) for x in made)
    return q, k, v


def run_kernel(
    case: Case, q, k, v, *, rewrite: Callable[[str], str] = str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the compiled kernel on NaN-filled outputs; returns (output, log-sum-exp).

    ``rewrite`` may change the PTX first, to see what a fault in it leads to.
    """
    in_cluster = case.num_partitions > 1
    variant = Variant(
        CAUSAL if case.causal else NULL,
        return_lse=True,
        partition=Partition.CLUSTER if in_cluster else Partition.NONE,
        num_partitions=case.num_partitions,
    )
    spec = KernelSpec.for_attention(
        case.dtype,
        case.head_dim,
        group=case.heads // case.kv_heads,
        variant=variant,
        num_qo=case.num_qo,
        pair_cta=case.pair_cta,
    )
    o = torch.full(q.shape, math.nan, dtype=TORCH_TYPES[case.dtype.output])
    lse = torch.full((case.batch, case.heads, case.seqlen_q), math.nan)
    call = AttentionCall(
        *map(operand, (q, k, v, o)),
        case.softmax_scale,
        lse.data_ptr(),
        num_splits=case.num_partitions,
    )
    artifact = compiled(spec)
    buffers = [*map(buffer, (q, k, v)), buffer(o, writable=True), buffer(lse, writable=True)]
    packed = pack_launch(spec, call)
    simulator.launch(rewrite(artifact.ptx), artifact.kernel_name, packed, buffers)
    return o, lse


def operand(x: torch.Tensor) -> Operand:
    return Operand(x.data_ptr(), OperandLayout(tuple(x.shape), tuple(x.stride())))


def buffer(x: torch.Tensor, *, writable: bool = False) -> simulator.HostBuffer:
    storage = x.untyped_storage()
    return simulator.HostBuffer(storage.data_ptr(), storage.nbytes(), writable)


def check(case: Case, q, k, v, *, run=run_kernel) -> None:
    """Assert output and log-sum-exp against float64, with plain PyTorch's error as the measure."""
    output, lse = run(case, q, k, v)
    exact, exact_lse = attention(case, q, k, v, torch.float64)
    plain, _ = attention(case, q, k, v, TORCH_TYPES[case.dtype])
    assert torch.isfinite(output).all()
    error, allowed = (output - exact).abs(), (plain - exact).abs()
    assert error.max() <= 2 * allowed.max() + 1e-6
    # Row by row: a single wrong row cannot hide behind the largest error of the tensor.
    assert (error.amax(-1) <= 2 * allowed.amax(-1) + allowed.max()).all()
    assert torch.equal(torch.isinf(lse), torch.isinf(exact_lse))
    seen = torch.isfinite(exact_lse)
    torch.testing.assert_close(lse[seen].double(), exact_lse[seen], atol=2e-4, rtol=1e-4)
