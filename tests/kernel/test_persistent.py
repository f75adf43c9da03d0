"""Persistent CTAs: every query tile is right, whatever the number of CTAs that take them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

import fa4_cute
from fa4_cute import simulator
from fa4_cute.host.launch import AttentionCall, pack_launch
from fa4_cute.host.reference import compare
from fa4_cute.plan.depth512_spec import SMALLEST_DEPTH, AttentionSpec, Depth512Spec
from fa4_cute.plan.dtypes import DType
from fa4_cute.plan.kernel_spec import KernelSpec
from fa4_cute.plan.masks import CAUSAL, NULL, ChunkedMask, Mask
from fa4_cute.plan.variant import Scheduler, Variant
from sm100sim.options import Check
from tests.kernel.artifacts import compiled
from tests.kernel.attention_case import TORCH_TYPES, buffer, operand

ALL = {"checks": Check.ALL | Check.STRICT_FENCE | Check.STRICT_LD}


@dataclass(frozen=True)
class Case:
    """One problem and the SMs that it runs on."""

    seqlen_q: int
    seqlen_k: int
    head_dim: int
    num_sms: int
    num_qo: int = 2
    batch: int = 2
    heads: int = 2
    mask: Mask = CAUSAL
    pair_cta: bool = False
    dtype: DType = DType.BF16

    def __str__(self) -> str:
        shape = f"q{self.seqlen_q}-k{self.seqlen_k}-d{self.head_dim}-{self.num_qo}q"
        pair = "-pair" if self.pair_cta else ""
        return f"{shape}-{self.dtype.value}-{self.mask.name}{pair}-sms{self.num_sms}"

    def spec(self, scheduler: Scheduler = Scheduler.PERSISTENT) -> AttentionSpec:
        variant = Variant(mask=self.mask, return_lse=True, scheduler=scheduler)
        if self.head_dim >= SMALLEST_DEPTH:
            return Depth512Spec.for_attention(self.dtype, self.head_dim, variant=variant)
        return KernelSpec.for_attention(
            self.dtype, self.head_dim, num_qo=self.num_qo, variant=variant, pair_cta=self.pair_cta
        )

    def inputs(self) -> list[torch.Tensor]:
        random = torch.Generator().manual_seed(0)
        lengths = (self.seqlen_q, self.seqlen_k, self.seqlen_k)
        q, k, v = (
            torch.randn(self.batch, n, self.heads, self.head_dim, generator=random)
            for n in lengths
        )
        # Maxima grow along the keys, so that O is rescaled.
        k *= torch.linspace(0.5, 6, self.seqlen_k)[:, None, None]
        return [x.to(TORCH_TYPES[self.dtype]) for x in (q, k, v)]


CASES = (
    Case(300, 300, 128, 1),
    Case(700, 500, 64, 3),
    Case(600, 200, 128, 1),
    Case(300, 300, 192, 2, mask=NULL),
    Case(300, 600, 128, 2, num_qo=1, mask=ChunkedMask(160)),
    Case(600, 200, 64, 1, num_qo=1),
    # Pairs of CTAs: one pair for everything, and two that take an odd number of query tiles.
    Case(600, 300, 256, 2, heads=1),
    Case(300, 600, 512, 5, heads=1),
    Case(300, 300, 200, 1, heads=1, mask=ChunkedMask(160)),
    Case(200, 600, 384, 2, heads=1, mask=NULL, dtype=DType.FP8_E4M3),
    Case(500, 300, 256, 2, heads=1, dtype=DType.FP8_E4M3),
    Case(1100, 300, 128, 2, heads=1, pair_cta=True),
    Case(600, 600, 72, 4, pair_cta=True),
    Case(600, 300, 128, 2, heads=1, pair_cta=True, dtype=DType.FP8_E4M3),
)


def run(case: Case, scheduler: Scheduler, rewrite=str, **options):
    """Return O, LSE and the report of a launch on NaN-filled outputs; ``rewrite`` changes PTX."""
    q, k, v = case.inputs()
    spec = case.spec(scheduler)
    o = torch.full_like(q, math.nan, dtype=TORCH_TYPES[case.dtype.output])
    lse = torch.full((case.batch, case.heads, case.seqlen_q), math.nan)
    extras = (("o", o.data_ptr()),) if scheduler is Scheduler.PERSISTENT else ()
    scale = 1 / math.sqrt(case.head_dim)
    call = AttentionCall(*map(operand, (q, k, v, o)), scale, lse.data_ptr(), extras)
    buffers = [*map(buffer, (q, k, v)), buffer(o, writable=True), buffer(lse, writable=True)]
    packed = pack_launch(spec, call, num_sms=case.num_sms)
    artifact = compiled(spec)
    with simulator.simulator_options(**options):
        report = simulator.launch(rewrite(artifact.ptx), artifact.kernel_name, packed, buffers)
    return o, lse, report, packed


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("mode", ["fast", "random", "late"])
def test_bits_are_those_of_one_tile_a_cta(case: Case, mode: str) -> None:
    plain, plain_lse, _, _ = run(case, Scheduler.TILE)
    o, lse, report, packed = run(case, Scheduler.PERSISTENT, mode=mode, seed=5, **ALL)
    assert report.verdict == "clean", report.findings
    size = case.spec().cluster_size
    assert packed.plan.grid == (max(size, case.num_sms // size * size), 1, 1)
    assert packed.plan.scalars["num_work"] > packed.plan.grid[0] // size
    assert torch.equal(o, plain)
    assert torch.equal(lse, plain_lse)


def test_the_result_is_attention() -> None:
    case = Case(300, 500, 128, 2)
    o, lse, _, _ = run(case, Scheduler.PERSISTENT)
    q, k, v = case.inputs()
    compare(o, lse, (q, k, v), causal=True).check()


def test_more_query_tiles_than_sms_in_the_public_call() -> None:
    random = torch.Generator().manual_seed(1)
    shape = (41, 5, 4, 16)
    q, k, v = (torch.randn(shape, generator=random).bfloat16() for _ in range(3))
    o, lse = fa4_cute.flash_attn(q, k, v, causal=True, scheduler="persistent", return_lse=True)
    compare(o, lse, (q, k, v), causal=True).check()
    assert torch.equal(o, fa4_cute.flash_attn(q, k, v, causal=True))


@pytest.mark.parametrize("lost", [r"stored", r"drain"])
def test_what_keeps_query_tiles_apart_is_needed(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wait for stored outputs, or without the last wait for slots, a race is found."""
    from fa4_cute import persistent
    from fa4_cute.host.compiler import compile_kernel
    from fa4_cute.roles import correction, load

    if lost == "stored":
        for module in (load, correction, persistent):
            monkeypatch.setattr(module, "wait_until_stored", lambda *_: None)
    else:
        monkeypatch.setattr(load, "drain", lambda *_: None)
    case = Case(300, 300, 128, 1, batch=1)
    broken = compile_kernel(case.spec())
    monkeypatch.setattr("tests.kernel.test_persistent.compiled", lambda _: broken)
    findings = []
    options = {"mode": "random", "raise_on_fault": False, **ALL}
    for seed in range(3):
        findings += run(case, Scheduler.PERSISTENT, seed=seed, **options)[2].findings
    assert findings
