"""Attention launches that a benchmark repeats with other PTX or other options.

A launch is prepared once through the public call and kept as plain data: requests, buffers, output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol
from unittest import mock

import torch

import fa4_cute
from fa4_cute.host.ask.problem import dtype_name
from fa4_cute.host.ask.request import Request
from fa4_cute.host.choose.support import choose, require
from fa4_cute.host.compile import cache
from fa4_cute.host.run import compute
from fa4_cute.host.run.launch import PackedLaunch, pack_combine, pack_launch
from fa4_cute.host.run.operands import describe_call
from sm100sim.host.launch_request import LaunchRequest
from sm100sim.memory import Allocation
from sm100sim.options import RunOptions
from sm100sim.report import Report
from sm100sim.run import run
from tests.kernel.feature_case import Builder, FeatureCase

SMS = 2
"""SMs for persistent kernels: few, so that a CTA takes several query tiles."""


class AnyCase(Protocol):
    """What a launch is made of."""

    @property
    def name(self) -> str:
        """Short and unique."""
        ...

    @property
    def num_qo(self) -> int | None:
        """Q tiles per CTA where the kernel has a choice; None: as the call chooses."""
        ...

    @property
    def pair_cta(self) -> bool:
        """Whether two CTAs share each MMA where the kernel has a choice."""
        ...

    def call(self) -> None:
        """Make the public call."""
        ...


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
    pair_cta: bool = False

    @property
    def name(self) -> str:
        """Short and unique."""
        kind = dtype_name(self.dtype)
        mask = "causal" if self.causal else "full"
        heads = f"h{self.heads}/{self.kv_heads}"
        tiles = " 1q" if self.num_qo == 1 else " pair" if self.pair_cta else ""
        return f"{kind} d{self.head_dim} {mask} {heads} {self.seqlen_q}x{self.seqlen_k}{tiles}"

    def inputs(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return q, k and v of normal deviates."""
        generator = torch.Generator().manual_seed(0)
        shapes = [(1, self.seqlen_q, self.heads, self.head_dim)]
        shapes += [(1, self.seqlen_k, self.kv_heads, self.head_dim)] * 2
        q, k, v = (torch.randn(s, generator=generator) for s in shapes)
        k *= 1 + self.growth * torch.arange(self.seqlen_k)[None, :, None, None]
        return q.to(self.dtype), k.to(self.dtype), v.to(self.dtype)

    def call(self) -> None:
        """Make the public call."""
        fa4_cute.flash_attn(*self.inputs(), causal=self.causal, return_lse=True)


@dataclass(frozen=True)
class Featured:
    """A call with features.

    `head_dim_v` makes v narrower: the last columns of q and k are rope columns, and `rope` their
    element type where they are tensors of their own. `growth` is that of :class:`Case`, for dense
    keys; `sharpness` is a factor of the queries, which also moves the maxima.
    """

    features: frozenset[str]
    head_dim: int
    lengths: tuple[tuple[int, int], ...]
    heads: int = 4
    kv_heads: int = 2
    dtype: torch.dtype = torch.bfloat16
    num_qo: int | None = None
    pair_cta: bool = False
    head_dim_v: int | None = None
    rope: torch.dtype | None = None
    growth: float = 0.0
    sharpness: float = 1.0

    @property
    def name(self) -> str:
        """Short and unique."""
        depth = f"d{self.head_dim}" + (f"/{self.head_dim_v}" if self.head_dim_v else "")
        extra = [f"{self.num_qo}q"] if self.num_qo else []
        extra += ["pair"] * self.pair_cta
        extra += [f"{dtype_name(self.rope)}_rope"] if self.rope else []
        features = "+".join(sorted(self.features)) or "plain"
        lengths = ",".join(f"{q}x{k}" for q, k in self.lengths)
        return " ".join([dtype_name(self.dtype), depth, features, *extra, lengths])

    @property
    def names(self) -> frozenset[str]:
        """The features, among them that which the element type stands for."""
        return self.features | ({"fp8"} if self.dtype is torch.float8_e4m3fn else set())

    def call(self) -> None:
        """Make the public call."""
        sizes = (self.head_dim, torch.float32, self.heads, self.kv_heads, self.lengths)
        builder = Builder(FeatureCase(self.names, *sizes))
        q, k, v = (x.float() for x in builder.inputs())
        q *= self.sharpness
        if self.growth:
            k *= 1 + self.growth * torch.arange(k.shape[-3])[:, None, None]
        options = builder.options
        v = v[..., : self.head_dim_v]
        if self.rope:
            options["q_rope"], options["k_rope"] = (
                x[..., self.head_dim_v :].to(self.rope) for x in (q, k)
            )
            q, k = (x[..., : self.head_dim_v] for x in (q, k))
        ragged = "cu_seqlens_q" in options
        function = fa4_cute.flash_attn_varlen if ragged else fa4_cute.flash_attn
        function(*(x.to(self.dtype) for x in (q, k, v)), return_lse=True, **options)


def asked_by(call: Callable[[], None]) -> Request:
    """What a public call would launch.

    Raises:
        RuntimeError: the call launches nothing, or several times.
    """
    found: list[Request] = []

    def noted(asked: Request, _spec: Any) -> tuple[None, None]:
        found.append(asked)
        return None, None

    with mock.patch.object(compute, "_launch", noted):
        call()
    if len(found) != 1:
        raise RuntimeError(f"{len(found)} launches: a case must make one")
    return found[0]


def arguments_of(call: Callable[[], None]) -> tuple[tuple[torch.Tensor, ...], dict[str, Any]]:
    """Inputs and options of a public call, which is not made."""
    found: list[tuple[tuple[torch.Tensor, ...], dict[str, Any]]] = []

    def noted(*inputs: torch.Tensor, **options: Any) -> None:
        options.pop("return_lse", None)
        found.append((inputs, options))

    with mock.patch.multiple(fa4_cute, flash_attn=noted, flash_attn_varlen=noted):
        call()
    (only,) = found
    return only


def _request(artifact: Any, packed: PackedLaunch) -> LaunchRequest:
    return LaunchRequest(
        ptx=artifact.ptx, kernel=artifact.kernel_name, grid=packed.plan.grid,
        block=packed.plan.block, cluster=packed.plan.cluster,
        smem_bytes=packed.plan.smem_bytes, params=packed.params,
    )  # fmt: skip


class Described:
    """A call before its kernels are compiled.

    Attributes:
        problem: what was asked for, its keys split as the chosen kernel splits them.
        spec: the attention kernel.
        call: its tensors.
        packed: parameters and grid of its launch.
    """

    def __init__(self, case: AnyCase) -> None:
        """Choose the kernel of `case` and pack its parameters."""
        # The inputs live as long as the call that has their addresses.
        self._asked = asked_by(case.call)
        asked = replace(self._asked.problem, num_qo=case.num_qo, pair_cta=case.pair_cta)
        choice: Any = require(choose(asked))
        self.spec = choice.spec
        self.problem = asked.with_partition(self.spec.variant.partition)
        self.call = describe_call(self.problem, self._asked.inputs, self._asked.tensors)
        self.packed = pack_launch(self.spec, self.call.described, num_sms=SMS)


class Launch:
    """A prepared call; `execute` repeats it.

    Attributes:
        case: what was called.
        spec: the attention kernel.
        requests: its launch and, when the keys are split, that of the combine kernel.
        subject: which of them another PTX replaces.
    """

    def __init__(self, case: AnyCase, subject: int = 0) -> None:
        """Compile (or load) the kernels of `case` and pack their parameters."""
        self.case, self.subject = case, subject
        self._described = described = Described(case)
        self.spec, self._call = described.spec, described.call
        self.requests = [_request(cache.compiled(self.spec), described.packed)]
        shares = self._call.shares(described.problem)
        if shares is not None:
            self.requests.append(_request(cache.compiled(shares.spec), pack_combine(shares)))
        self.buffers = [
            Allocation(b.address, b.size, b.writable) for b in self._call.host_buffers()
        ]

    @property
    def request(self) -> LaunchRequest:
        """The launch whose PTX can be replaced."""
        return self.requests[self.subject]

    @property
    def results(self) -> tuple[torch.Tensor, torch.Tensor]:
        """O and LSE, as the latest :meth:`execute` left them."""
        return self._call.out, self._call.lse

    def execute(self, options: RunOptions, ptx: str | None = None) -> tuple[Report, list[bytes]]:
        """Run with NaN-filled outputs.

        Returns:
            The report of the subject, or of the first launch that is not clean; the bits of O and
            LSE.
        """
        outputs = [self._call.out, self._call.lse]
        for tensor in [*outputs, *(self._call.partial or ())]:
            tensor.fill_(float("nan"))
        requests = list(self.requests)
        if ptx is not None:
            requests[self.subject] = replace(self.request, ptx=ptx)
        reports = [run(request, options, self.buffers) for request in requests]
        unclean = [report for report in reports if report.verdict != "clean"]
        report = unclean[0] if unclean else reports[self.subject]
        return report, [t.contiguous().view(torch.uint8).numpy().tobytes() for t in outputs]
