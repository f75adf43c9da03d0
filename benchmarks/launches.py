"""Attention launches that a benchmark repeats with other PTX or other options.

A launch is prepared once through the public call and kept as plain data: request, buffers, output.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from fa4_cute.host import cache
from fa4_cute.host.launch import pack_launch
from fa4_cute.host.operands import describe_call
from fa4_cute.host.problem import Problem, dtype_name
from fa4_cute.host.support import choose, require
from sm100sim.host.launch_request import LaunchRequest
from sm100sim.memory import Allocation
from sm100sim.options import RunOptions
from sm100sim.report import Report
from sm100sim.run import run


@dataclass(frozen=True)
class Case:
    """One call; sizes as in (batch, seqlen, heads, head_dim).

    `growth` lets the scores rise from key to key, so that the running maximum moves in every tile.
    `num_qo` fixes the Q tiles per CTA of head dims that have the choice: small problems would all
    take one.
    """

    seqlen_q: int
    seqlen_k: int
    head_dim: int
    heads: int = 1
    kv_heads: int = 1
    causal: bool = False
    dtype: torch.dtype = torch.bfloat16
    growth: float = 0.0
    num_qo: int = 2

    @property
    def name(self) -> str:
        """Short and unique."""
        kind = dtype_name(self.dtype)
        mask = "causal" if self.causal else "full"
        heads = f"h{self.heads}/{self.kv_heads}"
        tiles = " 1q" if self.num_qo == 1 else ""
        return f"{kind} d{self.head_dim} {mask} {heads} {self.seqlen_q}x{self.seqlen_k}{tiles}"

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return q, k and v of normal deviates."""
        generator = torch.Generator().manual_seed(0)
        shapes = [(1, self.seqlen_q, self.heads, self.head_dim)]
        shapes += [(1, self.seqlen_k, self.kv_heads, self.head_dim)] * 2
        q, k, v = (torch.randn(s, generator=generator) for s in shapes)
        k *= 1 + self.growth * torch.arange(self.seqlen_k)[None, :, None, None]
        return q.to(self.dtype), k.to(self.dtype), v.to(self.dtype)


class Launch:
    """A prepared launch; `execute` repeats it."""

    def __init__(self, case: Case) -> None:
        """Compile (or load) the kernel of `case` and pack its parameters."""
        self.case, self._inputs = case, case.inputs()
        problem = Problem.from_tensors(*self._inputs, causal=case.causal, return_lse=True)
        choice: Any = require(choose(replace(problem, num_qo=case.num_qo)))
        self.spec = choice.spec
        artifact = cache.compiled(choice.spec)
        self._call = describe_call(problem, self._inputs)
        packed = pack_launch(choice.spec, self._call.described)
        self.buffers = [
            Allocation(b.address, b.size, b.writable) for b in self._call.host_buffers()
        ]
        self.request = LaunchRequest(
            ptx=artifact.ptx, kernel=artifact.kernel_name, grid=packed.plan.grid,
            block=packed.plan.block, cluster=packed.plan.cluster,
            smem_bytes=packed.plan.smem_bytes, params=packed.params,
        )  # fmt: skip

    def execute(self, options: RunOptions, ptx: str | None = None) -> tuple[Report, list[bytes]]:
        """Run with NaN-filled outputs; returns the report and the bits of O and LSE."""
        outputs = [self._call.out, self._call.lse]
        for tensor in outputs:
            tensor.fill_(float("nan"))
        request = self.request if ptx is None else replace(self.request, ptx=ptx)
        report = run(request, options, self.buffers)
        return report, [t.contiguous().view(torch.uint8).numpy().tobytes() for t in outputs]
