"""Scales per token on the virtual SM100: right for any sign and tile, and never read too early.

With the features they go with: pages, packed keys, persistent CTAs, rope columns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.host.ask.request import Options, request
from fa4_cute.host.ask.scales import GivenScales
from fa4_cute.host.choose.support import Choice, choose
from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.host.run.launch import pack_launch
from fa4_cute.host.run.operands import describe_call
from fa4_cute.plan.barriers.mbars import FA4MiscMBars
from fa4_cute.plan.config.config import FA4Config
from sm100sim.options import Check, run_options
from testing.reference.attention import attention_float64
from tests.kernel.feature_case import KERNELS, FeatureCase
from tests.kernel.feature_run import check as check_features

pytestmark = pytest.mark.slow

PAIR = {"pair_cta": True}
"""Two Q tiles per CTA of a pair; larger head dims have pairs of their own, without asking."""
ONE, TWO = ({"num_qo": n} for n in (1, 2))
CASES = [
    # head_dim, queries, keys, heads, key/value heads, causal
    (128, 300, 1100, 2, 1, True),
    (64, 200, 700, 3, 1, False),
    (192, 200, 500, 4, 2, True),
    (80, 1, 300, 8, 1, True),
    (16, 100, 1, 1, 1, False),
]


def operands(case: tuple[int, int, int, int, int, bool]) -> tuple[Any, ...]:
    """Return q, k, v and the scales of q and k; some are negative, some 0."""
    head_dim, seqlen_q, seqlen_k, heads, kv_heads, _ = case
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, n, h) for n, h in ((seqlen_q, heads), (seqlen_k, kv_heads), (seqlen_k, kv_heads))]
    q, k, v = (
        torch.randn(*shape, head_dim, generator=generator).to(torch.float8_e4m3fn)
        for shape in shapes
    )
    q_scale, k_scale = (torch.rand(shape, generator=generator) + 0.5 for shape in shapes[:2])
    q_scale[0, 0, 0], q_scale[1, -1, -1], k_scale[0, 0, 0] = -1.0, 0.0, -2.0
    return q, k, v, q_scale, k_scale


def check(out: Any, lse: Any, exact: Any) -> None:
    allowed = 2**-4 * exact.weight + 2**-8 * exact.out.abs() + 1e-3
    assert ((out - exact.out).abs() <= allowed).all()
    torch.testing.assert_close(lse.double(), exact.lse, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("case", "kernel"),
    [
        *(pytest.param(*getattr(c, "values", (c,)), n, marks=getattr(c, "marks", ()))
          for c in CASES for n in (ONE, TWO)),
        # of a pair: several key tiles, both CTAs with queries; a peer without; packed heads
        ((128, 700, 1100, 2, 1, True), PAIR),
        ((80, 1, 300, 8, 1, True), PAIR),
        ((96, 300, 500, 3, 1, False), PAIR),
        ((256, 200, 700, 2, 1, True), {}),
        ((512, 70, 900, 2, 1, False), {}),
        ((384, 150, 600, 3, 1, True), {}),
        ((208, 1, 300, 8, 1, True), {}),
    ],
    ids=str,
)  # fmt: skip
def test_scores_are_scaled_by_row_and_key(
    case: tuple[int, int, int, int, int, bool], kernel: dict[str, Any]
) -> None:
    q, k, v, q_scale, k_scale = operands(case)
    exact = attention_float64(
        q.float() * q_scale[..., None], k.float() * k_scale[..., None], v.float(), causal=case[-1]
    )
    for mode, seed in (("fast", 0), ("late", 0), ("random", 3)):
        with run_options(checks=Check.ALL, mode=mode, seed=seed):
            out, lse = fa4_cute.flash_attn(
                q, k, v, causal=case[-1], return_lse=True, q_scale=q_scale, k_scale=k_scale,
                **kernel,
            )  # fmt: skip
        report = fa4_cute.last_report()
        assert report is not None
        assert not report.findings
        check(out, lse, exact)


def test_one_operand_may_have_one_scale() -> None:
    q, k, v, q_scale, _ = operands(CASES[0])  # type: ignore[arg-type]
    out, lse = fa4_cute.flash_attn(
        q, k, v, causal=True, return_lse=True, q_scale=q_scale, k_scale=0.5, v_scale=3.0
    )
    exact = attention_float64(
        q.float() * q_scale[..., None], k.float() * 0.5, v.float() * 3, causal=True
    )
    check(out, lse, exact)


def findings(spec: Any, asked: Any) -> int:
    """Run a freshly compiled ``spec`` under all watchers; returns what they object to."""
    artifact = compile_kernel(spec)
    call = describe_call(asked.problem, asked.inputs, asked.tensors)
    packed = pack_launch(spec, call.described)
    with run_options(checks=Check.ALL, mode="random", seed=3, raise_on_fault=False):
        fa4_cute.host.run.simulator.launch(
            artifact.ptx, artifact.kernel_name, packed, call.host_buffers()
        )
    report = fa4_cute.last_report()
    assert report is not None
    return len(report.findings)


def test_a_slot_that_only_the_mma_frees_is_overwritten_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, k, v, q_scale, k_scale = operands(CASES[0])  # type: ignore[arg-type]
    asked = request((q, k, v), Options(scales=GivenScales(q_scale, k_scale)))
    choice = choose(asked.problem)
    assert isinstance(choice, Choice)
    assert findings(choice.spec, asked) == 0
    barriers = FA4Config.misc_mbars.fget  # type: ignore[attr-defined]

    def without_readers(config: FA4Config) -> FA4MiscMBars:
        mbars: FA4MiscMBars = replace(barriers(config), num_scale_readers=0)
        return mbars

    monkeypatch.setattr(FA4Config, "misc_mbars", property(without_readers))
    monkeypatch.setattr("fa4_cute.roles.softmax.release_scales", lambda ctx, tile: None)
    assert findings(choice.spec, asked) > 0


TOGETHER = (
    ("two Q tiles", "ragged page16 causal"),
    ("one Q tile", "ragged window"),
    ("two Q tiles", "persistent ragged cache"),
    ("two Q tiles per CTA of a pair", "ragged page16 causal"),
    ("CTA pair", "ragged page64 causal"),
    ("CTA pair", "ragged sink"),
    # three loads for every score: few columns at a time
    *((kernel, "persistent function") for kernel in KERNELS),
    ("one Q tile", "page256 ragged split"),
    ("two Q tiles", "page256 bias softcap"),
    ("two Q tiles per CTA of a pair", "cache split union"),
    ("CTA pair", "page256 ragged union"),
)


@pytest.mark.parametrize(("kernel", "names"), TOGETHER)
def test_they_go_with_the_features(kernel: str, names: str) -> None:
    """Groups of two heads are packed into rows; scales of rows that do not count are NaN."""
    check_features(FeatureCase.of({"tokens", *names.split()}, kernel))


@pytest.mark.parametrize("kernel", [ONE, TWO, PAIR], ids=str)
@pytest.mark.parametrize("scheduler", ["tile", "persistent"])
@pytest.mark.parametrize("own", [True, False])
def test_scores_with_rope_columns_are_scaled_as_a_whole(
    own: bool, scheduler: str, kernel: dict[str, Any]
) -> None:
    queries = 600 if kernel is PAIR else 150
    q, k, v, q_scale, k_scale = operands((128, queries, 600, 2, 2, True))
    generator = torch.Generator().manual_seed(1)
    rope = [torch.randn(*x.shape[:-1], 64, generator=generator).bfloat16() for x in (q, k)]
    wide = [torch.cat((x.float(), r.float()), -1) for x, r in zip((q, k), rope, strict=True)]
    options: dict[str, Any] = {"q_rope": rope[0], "k_rope": rope[1]}
    if not own:
        q, k = (x.to(torch.float8_e4m3fn) for x in wide)
        wide, options = [q.float(), k.float()], {}
    with run_options(checks=Check.ALL, mode="random", seed=2):
        out, lse = fa4_cute.flash_attn(
            q, k, v, causal=True, return_lse=True, q_scale=q_scale, k_scale=k_scale,
            scheduler=scheduler, **kernel, **options,
        )  # fmt: skip
    report = fa4_cute.last_report()
    assert report is not None
    assert not report.findings
    scaled = (x * s[..., None] for x, s in zip(wide, (q_scale, k_scale), strict=True))
    check(out, lse, attention_float64(*scaled, v.float(), causal=True))


PAIRS = pytest.mark.parametrize(
    ("head_dim", "roles"), [(128, "fa4_cute.roles."), (256, "fa4_cute.roles.depth512_")]
)


def pair_problem(head_dim: int) -> tuple[Any, Any]:
    """A CTA pair with more key tiles than buffers: its specification, and the call."""
    q, k, v, q_scale, k_scale = operands((head_dim, 400, 900, 1, 1, False))
    given = Options(scales=GivenScales(q_scale, k_scale), pair_cta=head_dim == 128)
    asked = request((q, k, v), given)
    choice = choose(asked.problem)
    assert isinstance(choice, Choice)
    return choice.spec, asked


@PAIRS
def test_a_pair_reads_scales_that_have_arrived(
    monkeypatch: pytest.MonkeyPatch, head_dim: int, roles: str
) -> None:
    spec, asked = pair_problem(head_dim)
    assert findings(spec, asked) == 0

    def at_once(ctx: Any, line: Any, tile: Any, first: Any = 0) -> Any:
        slot, _ = token_scales.ring_place(ctx, tile)
        keys = token_scales.scale_buffer(ctx, slot) + first * 4
        return token_scales.TileScales(keys, token_scales.query_scale_address(ctx, line))

    from fa4_cute.operands import token_scales

    monkeypatch.setattr(f"{roles}softmax.wait_for_scales", at_once)
    assert findings(spec, asked) > 0


@PAIRS
def test_a_pair_keeps_scales_until_they_have_been_read(
    monkeypatch: pytest.MonkeyPatch, head_dim: int, roles: str
) -> None:
    spec, asked = pair_problem(head_dim)

    def at_once(ctx: Any, tile: Any) -> None:
        slot, _ = token_scales.ring_place(ctx, tile)
        arrived = spec.config.misc_mbars.scale_ring.producer_mbar(slot)
        ctx.barriers.expect(arrived, ctx.layout.k_scale_stride_bytes)
        token_scales.load_key_scales(ctx, slot, tile, ctx.barriers.address_of(arrived))

    from fa4_cute.operands import token_scales

    monkeypatch.setattr(f"{roles}load.fill_scale_buffer", at_once)
    assert findings(spec, asked) > 0
