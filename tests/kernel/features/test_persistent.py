"""Persistent CTAs: every query tile is right, whatever the number of CTAs that take them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import pytest
import torch

import fa4_cute
from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.host.run import simulator
from fa4_cute.host.run.launch import AttentionCall, pack_launch
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import CAUSAL, NULL, ChunkedMask, DenseBiasMask, Mask
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.depth512_spec import SMALLEST_DEPTH, Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Partition, Scheduler, Variant
from sm100sim.options import Check
from sm100sim.report import SimulationFault
from testing.reference.attention import compare
from tests.kernel.artifacts import compiled, sass
from tests.kernel.attention_case import TORCH_TYPES, buffer, operand

pytestmark = pytest.mark.slow

STRICT = Check.STRICT_FENCE | Check.STRICT_LD | Check.STRICT_LANES | Check.STRICT_SCOPE
ALL = {"checks": Check.ALL | STRICT}


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
    Case(500, 300, 256, 2, heads=1, dtype=DType.FP8_E4M3),
    Case(1100, 300, 128, 2, heads=1, pair_cta=True),
    Case(300, 300, 200, 1, heads=1, mask=ChunkedMask(160)),
    Case(200, 600, 384, 2, heads=1, mask=NULL, dtype=DType.FP8_E4M3),
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


MODES = [
    pytest.param(case, mode, id=f"{mode}-{case}")
    for case in CASES
    for mode in ("fast", "random", "late")
]


@pytest.mark.parametrize(("case", "mode"), MODES)
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


TWO_Q = Case(300, 300, 128, 1, batch=1)
D384 = Case(300, 600, 384, 2, heads=1)
D256_FP8 = Case(500, 510, 256, 2, heads=1, dtype=DType.FP8_E4M3)
PAIR = Case(1100, 300, 128, 2, heads=1, pair_cta=True)


def empty_rings(num_stages: int, _used: object, *, producer: bool):
    """Return the cursor of a ring that has not been used."""
    from fa4_cute.pipelines import RingState

    return (RingState.producer if producer else RingState.consumer)(num_stages)


LOST = {
    "wait before Q is loaded": ("roles.{role}load.wait_until_stored", lambda *_: None),
    "wait before O is overwritten": ("roles.{role}correction.wait_until_stored", lambda *_: None),
    "parity of earlier key tiles": ("progress.Progress.steps_of", lambda *_: 0),
    "parity of earlier corrections": ("progress.Progress.corrections_of", lambda *_: 0),
    "place in the rings": ("pipelines.RingState.after", empty_rings),
    "last wait for the slots": ("roles.load.drain", lambda *_: None),
}
"""What a fault in the passage from one query tile to the next leaves out, where, and what is there
instead."""
LOSERS = [
    pytest.param(lost, case, id=f"{lost}-{case}")
    for lost in LOST
    for case in (TWO_Q, D384, D256_FP8, PAIR)
    # A pair leaves together, when all commits have arrived.
    if lost != "last wait for the slots" or case is TWO_Q
]


def objections(case: Case, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compile ``case`` as it is patched now, and return the first that shows that it is broken."""
    expected, _, _, _ = run(case, Scheduler.PERSISTENT)
    broken = compile_kernel(case.spec())
    monkeypatch.setattr("tests.kernel.test_persistent.compiled", lambda _: broken)
    options = {"mode": "random", "max_idle_instructions": 1_000_000, **ALL}
    for seed in range(3):
        try:
            o, _, report, _ = run(case, Scheduler.PERSISTENT, seed=seed, **options)
        except SimulationFault as fault:
            return [finding.code for finding in fault.report.findings]
        found = [finding.code for finding in report.findings]
        found += [] if torch.equal(o, expected) else ["values"]
        if found:
            return found
    return []


@pytest.mark.parametrize(("lost", "case"), LOSERS)
def test_what_keeps_query_tiles_apart_is_needed(
    lost: str, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator finds a kernel without it: a race, a deadlock, or other values."""
    place, instead = LOST[lost]
    role = "depth512_" if case.head_dim >= SMALLEST_DEPTH else ""
    compiled(case.spec())  # the kernel as it should be
    monkeypatch.setattr(f"fa4_cute.{place.format(role=role)}", instead)
    assert objections(case, monkeypatch)


PERSISTENT = {"scheduler": Scheduler.PERSISTENT, "return_lse": True}
PAGED = {"ragged_q": True, "used_k": True, "page_size": 16, "sink": True}
SPLIT = {"partition": Partition.WORKSPACE, "ragged_q": True, "ragged_k": True}
VARIANTS = (
    Variant(mask=CAUSAL, **PERSISTENT),
    Variant(mask=CAUSAL, **PERSISTENT, **PAGED),
    Variant(mask=DenseBiasMask(0) & ChunkedMask(70), **PERSISTENT, **SPLIT),
)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "_".join(v.name_parts))
@pytest.mark.parametrize("head_dim", [256, 512])
@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8_E4M3])
def test_no_role_of_a_pair_spills(dtype: DType, head_dim: int, variant: Variant) -> None:
    spec = Depth512Spec.for_attention(dtype, head_dim, variant=variant)
    assert [line for line in sass(spec) if re.search(r"\b(LDL|STL)\b", line)] == []
