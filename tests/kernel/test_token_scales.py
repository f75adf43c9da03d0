"""Scales per token on the virtual SM100: right for any sign and tile, and protected by the ring."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.host.compiler import compile_kernel
from fa4_cute.host.launch import pack_launch
from fa4_cute.host.operands import describe_call
from fa4_cute.host.reference import attention_float64
from fa4_cute.host.request import Options, request
from fa4_cute.host.scales import GivenScales
from fa4_cute.host.support import Choice, choose
from fa4_cute.plan.config import FA4Config
from fa4_cute.plan.mbars import FA4MiscMBars
from sm100sim.options import Check, run_options

CASES = [
    # head_dim, queries, keys, heads, key/value heads, causal
    (128, 300, 1100, 2, 1, True),
    (64, 200, 700, 3, 1, False),
    pytest.param((192, 200, 500, 4, 2, True), marks=pytest.mark.slow),
    pytest.param((80, 1, 300, 8, 1, True), marks=pytest.mark.slow),
    pytest.param((16, 100, 1, 1, 1, False), marks=pytest.mark.slow),
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


@pytest.mark.parametrize("num_qo", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_scores_are_scaled_by_row_and_key(
    case: tuple[int, int, int, int, int, bool], num_qo: int
) -> None:
    q, k, v, q_scale, k_scale = operands(case)
    exact = attention_float64(
        q.float() * q_scale[..., None], k.float() * k_scale[..., None], v.float(), causal=case[-1]
    )
    for mode, seed in (("fast", 0), ("late", 0), ("random", 3)):
        with run_options(checks=Check.ALL, mode=mode, seed=seed):
            out, lse = fa4_cute.flash_attn(
                q, k, v, causal=case[-1], return_lse=True, q_scale=q_scale, k_scale=k_scale,
                num_qo=num_qo,
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
        fa4_cute.simulator.launch(
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
