"""Random problems through the public call: any sizes, strides, scales and landing orders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import fa4_cute
from testing.reference.attention import compare
from tests.host.test_flash_attn import strided


@dataclass(frozen=True)
class Drawn:
    """One random problem; ``kernel`` is element type, head dim, group, and whether it is causal."""

    kernel: tuple[torch.dtype, int, int, bool]
    kv_heads: int
    batch: int
    seqlen_q: int
    seqlen_k: int
    scale: float | None
    memory: str
    seed: int

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(self.seed)
        dtype, head_dim, group, _ = self.kernel
        of_q = (self.batch, self.seqlen_q, self.kv_heads * group, head_dim)
        of_k = (self.batch, self.seqlen_k, self.kv_heads, head_dim)
        q, k, v = (torch.randn(s, generator=generator).to(dtype) for s in (of_q, of_k, of_k))
        return q, strided(k, self.memory), strided(v, self.memory)


lengths = st.one_of(st.integers(0, 300), st.sampled_from((1, 127, 128, 129, 255, 256, 257, 513)))
KERNELS = (
    (torch.bfloat16, 40, 3, True),
    (torch.bfloat16, 64, 4, False),
    (torch.bfloat16, 128, 1, True),
    (torch.float16, 64, 3, False),
    (torch.float16, 128, 4, True),
)
"""Every value of every part, also beside each other; one of them is compiled in seconds."""
problems = st.builds(
    Drawn,
    kernel=st.sampled_from(KERNELS),
    kv_heads=st.integers(1, 2),
    batch=st.integers(1, 2),
    seqlen_q=lengths,
    seqlen_k=lengths,
    scale=st.one_of(st.none(), st.floats(-1, 1, width=32)),
    memory=st.sampled_from(("heads first", "packed", "every second row", "columns strided")),
    seed=st.integers(0, 2**31),
)


@pytest.mark.slow
@given(drawn=problems)
# No shrinking: each attempt may compile a kernel.
@settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
)
def test_any_problem(drawn: Drawn) -> None:
    operands = drawn.inputs()
    options: dict[str, Any] = {"causal": drawn.kernel[-1], "softmax_scale": drawn.scale}
    out, lse = fa4_cute.flash_attn(*operands, **options, return_lse=True)
    compare(out, lse, operands, **options).check()
    with fa4_cute.simulator_options(mode="random", seed=drawn.seed):
        again, lse_again = fa4_cute.flash_attn(*operands, **options, return_lse=True)
    assert torch.equal(again, out)
    assert torch.equal(lse_again, lse)
