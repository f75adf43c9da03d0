"""Problems with queries and keys wider than the values: what lies beyond are rope columns."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from fa4_cute.host.run import simulator
from fa4_cute.host.run.launch import AttentionCall, pack_launch
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SM_COUNT
from fa4_cute.plan.masks.masks import CAUSAL, NULL
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Scheduler, Variant
from tests.kernel.artifacts import compiled
from tests.kernel.attention_case import TORCH_TYPES, buffer, operand


@dataclass(frozen=True)
class MlaCase:
    """Shapes and options of one problem.

    ``rope_dtype`` makes rope columns tensors of their own; ``num_sms`` CTAs, if given, are
    persistent.
    """

    seqlen_q: int
    seqlen_k: int
    qk_depth: int = 192
    ov_depth: int = 128
    heads: int = 1
    kv_heads: int = 1
    batch: int = 1
    causal: bool = False
    dtype: DType = DType.BF16
    rope_dtype: DType = DType.INVALID
    num_qo: int = 2
    num_sms: int = 0
    pair_cta: bool = False

    @cached_property
    def spec(self) -> KernelSpec:
        return KernelSpec.for_attention(
            self.dtype,
            self.qk_depth,
            head_dim_v=self.ov_depth,
            rope_dtype=self.rope_dtype,
            group=self.heads // self.kv_heads,
            num_qo=self.num_qo,
            pair_cta=self.pair_cta,
            variant=Variant(
                mask=CAUSAL if self.causal else NULL,
                return_lse=True,
                scheduler=Scheduler.PERSISTENT if self.num_sms else Scheduler.TILE,
            ),
        )

    @property
    def softmax_scale(self) -> float:
        return 1 / math.sqrt(self.qk_depth)

    def __str__(self) -> str:
        lengths = f"b{self.batch}-h{self.heads}/{self.kv_heads}-q{self.seqlen_q}-k{self.seqlen_k}"
        return f"{self.spec.name.removeprefix('fa4_sm100_')}-{lengths}"


Operands = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(case: MlaCase, seed: int = 0) -> Operands:
    """Return seeded normal q, k, v in float32; q and k hold their rope columns last."""
    generator = torch.Generator().manual_seed(seed)
    shapes = (
        (case.seqlen_q, case.heads, case.qk_depth),
        (case.seqlen_k, case.kv_heads, case.qk_depth),
        (case.seqlen_k, case.kv_heads, case.ov_depth),
    )
    q, k, v = (torch.randn(case.batch, *shape, generator=generator) for shape in shapes)
    return rounded(case, q), rounded(case, k), v.to(TORCH_TYPES[case.dtype]).float()


def rounded(case: MlaCase, x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` with the values that the kernel's operands hold."""
    nope, rope = parts(case, x)
    return torch.cat([part.float() for part in (nope, *rope)], -1)


def parts(case: MlaCase, x: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Return the operand, and its rope columns where they are apart."""
    dtype = TORCH_TYPES[case.dtype]
    if not case.spec.config.rope_apart:
        return x.to(dtype).contiguous(), ()
    cut = case.spec.config.nope_depth()
    rope = x[..., cut:].to(TORCH_TYPES[case.rope_dtype])
    return x[..., :cut].to(dtype).contiguous(), (rope.contiguous(),)


def run(
    case: MlaCase, q, k, v, *, rewrite: Callable[[str], str] = str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the compiled kernel on NaN-filled outputs; returns (output, log-sum-exp)."""
    (q, q_rope), (k, k_rope) = parts(case, q), parts(case, k)
    v, rope = v.to(TORCH_TYPES[case.dtype]), (*q_rope, *k_rope)
    shape = (case.batch, case.seqlen_q, case.heads, case.ov_depth)
    o = torch.full(shape, math.nan, dtype=TORCH_TYPES[case.dtype.output])
    lse = torch.full((case.batch, case.heads, case.seqlen_q), math.nan)
    call = AttentionCall(
        *map(operand, (q, k, v, o)),
        case.softmax_scale,
        lse.data_ptr(),
        extras=(("o", o.data_ptr()),) if case.num_sms else (),
        rope=tuple(map(operand, rope)),
    )
    artifact = compiled(case.spec)
    buffers = [*map(buffer, (q, k, v, *rope)), buffer(o, writable=True), buffer(lse, writable=True)]
    packed = pack_launch(case.spec, call, num_sms=case.num_sms or SM_COUNT)
    simulator.launch(rewrite(artifact.ptx), artifact.kernel_name, packed, buffers)
    return o, lse


def attention(case: MlaCase, q, k, v, dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (output, log-sum-exp) computed in ``dtype``."""
    group = case.heads // case.kv_heads
    k, v = (x.repeat_interleave(group, 2) for x in (k, v))
    q, k, v = (x.to(dtype) for x in (q, k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * case.softmax_scale
    if case.causal:
        rows, columns = torch.arange(case.seqlen_q)[:, None], torch.arange(case.seqlen_k)[None]
        scores = scores.masked_fill(columns > rows + case.seqlen_k - case.seqlen_q, -math.inf)
    probabilities = torch.nan_to_num(torch.softmax(scores, -1), 0.0)
    output = torch.einsum("bhqk,bkhd->bqhd", probabilities, v)
    return output, torch.logsumexp(scores.double(), -1)


def check(case: MlaCase, q, k, v) -> None:
    """Assert output and log-sum-exp against float64, with plain PyTorch's error as the measure."""
    output, lse = run(case, q, k, v)
    exact, exact_lse = attention(case, q, k, v, torch.float64)
    seen = torch.isfinite(exact_lse)
    assert torch.equal(torch.isfinite(lse), seen)
    torch.testing.assert_close(lse[seen].double(), exact_lse[seen], atol=2e-4, rtol=1e-4)
    assert torch.isfinite(output).all()
    error = (output - exact).abs()
    if case.dtype is DType.FP8_E4M3:
        # P has four bits of precision, and errors of many keys average out.
        cosine = torch.nn.functional.cosine_similarity(output.double(), exact, -1)
        assert cosine[exact.norm(dim=-1) > 0].min() >= 0.999
        return
    plain, _ = attention(case, q, k, v, TORCH_TYPES[case.dtype])
    allowed = (plain - exact).abs()
    assert error.max() <= 2 * allowed.max() + 1e-6
    assert (error.amax(-1) <= 2 * allowed.amax(-1) + allowed.max()).all()
