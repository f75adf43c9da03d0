"""Facts of the compiled fp8 kernels: no spill, the right instructions, the scale of v."""

from __future__ import annotations

import re

import pytest

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from tests.kernel.artifacts import compiled, sass

FP8 = DType.FP8_E4M3
SPECS = [
    KernelSpec.for_attention(FP8, 64, return_lse=True),
    KernelSpec.for_attention(FP8, 64, causal=True, return_lse=True, group=2),
    KernelSpec.for_attention(FP8, 128, return_lse=True),
    KernelSpec.for_attention(FP8, 192, causal=True, return_lse=True),
    Depth512Spec.for_attention(FP8, 256, causal=True, return_lse=True, group=2),
    Depth512Spec.for_attention(FP8, 512, causal=True, return_lse=True),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_no_role_spills(spec: KernelSpec | Depth512Spec) -> None:
    assert [line for line in sass(spec) if re.search(r"\b(LDL|STL)\b", line)] == []


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_all_mmas_are_of_the_fp8_kind(spec: KernelSpec | Depth512Spec) -> None:
    ptx = compiled(spec).ptx
    kinds = set(re.findall(r"kind::(\w+)", ptx))
    assert kinds == {"f8f6f4"}
    assert "cvt.rn.bf16x2.f32" in ptx


@pytest.mark.parametrize("spec", SPECS[:4], ids=lambda s: s.name)
def test_every_probability_is_rounded_once(spec: KernelSpec) -> None:
    """Two softmax groups, BN keys a row, two keys an instruction."""
    conversions = compiled(spec).ptx.count("cvt.rn.satfinite.e4m3x2.f32")
    assert conversions == 2 * spec.config.BN // 2


def test_the_scale_of_v_is_the_last_parameter() -> None:
    header = compiled(SPECS[2]).ptx.split(".visible .entry")[1].split(")")[0]
    assert header.rstrip().splitlines()[-1].split()[1] == ".f32"
    assert len(re.findall(r"\.param", header)) == len(SPECS[2].params.params)
