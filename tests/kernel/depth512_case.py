"""One attention problem run by the CTA-pair kernel on the virtual SM100."""

import math
from collections.abc import Callable

import torch

from fa4_cute.host.run import simulator
from fa4_cute.host.run.launch import AttentionCall, pack_launch
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from tests.kernel.artifacts import compiled
from tests.kernel.attention_case import TORCH_TYPES, Case, attention, buffer, operand


def spec_of(case: Case, *, look_ahead: bool = True) -> Depth512Spec:
    """Return the kernel of a case."""
    return Depth512Spec.for_attention(
        case.dtype,
        case.head_dim,
        group=case.heads // case.kv_heads,
        causal=case.causal,
        return_lse=True,
        look_ahead=look_ahead,
    )


def run_pair(
    case: Case,
    q,
    k,
    v,
    *,
    look_ahead: bool = True,
    rewrite: Callable[[str], str] = str,
    more: tuple[torch.Tensor, ...] = (),
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the compiled kernel on NaN-filled outputs; returns (output, log-sum-exp).

    ``rewrite`` may change the PTX first; ``more`` is memory that a changed kernel may write.
    """
    spec = spec_of(case, look_ahead=look_ahead)
    o = torch.full(q.shape, math.nan, dtype=TORCH_TYPES[case.dtype.output])
    lse = torch.full((case.batch, case.heads, case.seqlen_q), math.nan)
    call = AttentionCall(*map(operand, (q, k, v, o)), case.softmax_scale, lse.data_ptr())
    artifact = compiled(spec)
    buffers = [*map(buffer, (q, k, v)), buffer(o, writable=True), buffer(lse, writable=True)]
    buffers += [buffer(x, writable=True) for x in more]
    packed = pack_launch(spec, call)
    simulator.launch(rewrite(artifact.ptx), artifact.kernel_name, packed, buffers)
    return o, lse


def errors(case: Case, q, k, v, output, lse) -> tuple[float, float, float]:
    """Return the largest errors against float64: ours, plain PyTorch's, the log-sum-exp's."""
    exact, exact_lse = attention(case, q, k, v, torch.float64)
    plain, _ = attention(case, q, k, v, TORCH_TYPES[case.dtype])
    seen = torch.isfinite(exact_lse)
    assert torch.equal(seen, torch.isfinite(lse))
    of_lse = (lse[seen] - exact_lse[seen]).abs().max().item() if seen.any() else 0.0
    return (output - exact).abs().max().item(), (plain - exact).abs().max().item(), of_lse
