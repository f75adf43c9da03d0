"""What the table of kernels says of Hopper."""

from __future__ import annotations

from typing import Any

import pytest

import fa4_cute
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import Choice, choose


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"head_dim": 264}, ("sm_90a", "8 to 256", "head_dim=256")),
        ({"head_dim": 128, "dtype": "fp32"}, ("fp32", "bf16, fp16, fp8_e4m3")),
        ({"head_dim": 72, "dtype": "fp8_e4m3"}, ("72", "16 bytes", "80")),
        ({"head_dim": 128, "pair_cta": True}, ("pair_cta=True", "SM90MHA", "pair_cta=False")),
        (
            {"head_dim": 64, "head_dim_v": 128},
            ("head_dim_v=128 exceeds head_dim=64", "head_dim_v=64"),
        ),
        (
            {"head_dim": 192, "head_dim_v": 128, "rope_dtype": "bf16"},
            ("rope_dtype=bf16", "SM90MHA", "columns of q and k"),
        ),
        (
            {"head_dim": 64, "num_splits": 2, "split": "cluster"},
            ("split", "SM90MHA", "split='workspace'"),
        ),
        (
            {"head_dim": 64, "scheduler": "dynamic"},
            ("scheduler='dynamic'", "launch control", "SM90MHA", "scheduler='persistent'"),
        ),
    ],
)
def test_what_hopper_cannot_do_is_said(sizes: dict[str, Any], words: tuple[str, ...]) -> None:
    found = fa4_cute.can_implement(arch="sm_90a", **sizes)
    assert not found
    for word in words:
        assert word in f"{found.reason}; {found.nearest}"


def test_hopper_serves_every_head_dim_up_to_256() -> None:
    for head_dim in range(1, 257):
        posed = Problem("bf16", 1, 128, 128, 4, 2, head_dim, head_dim, arch="sm_90a")
        result = choose(posed)
        assert isinstance(result, Choice) is (head_dim % 8 == 0)
        assert not isinstance(result, Choice) or result.row.name == "SM90MHA"


def test_hopper_serves_fp8_of_whole_units_of_16_bytes() -> None:
    for head_dim in range(16, 257, 8):
        for head_dim_v in (head_dim, 16):
            posed = Problem("fp8_e4m3", 1, 128, 128, 4, 2, head_dim, head_dim_v, arch="sm_90a")
            is_served = head_dim % 16 == 0
            assert isinstance(choose(posed), Choice) is is_served


def test_hopper_takes_fp8() -> None:
    sizes = {"seqlen_q": 512, "batch": 16, "heads_q": 8, "heads_k": 8}
    text = fa4_cute.explain(head_dim=128, dtype="fp8_e4m3", arch="sm_90a", **sizes)
    assert "kernel SM90MHA (fa4_sm90_fp8_e4m3_d128_g1_persistent)" in text
    assert "3 slots of V before it is transposed" in text
    assert "transpose" in text
    many: dict[str, Any] = {"seqlen_q": 4096, "seqlen_k": 16384}
    assert fa4_cute.can_implement(head_dim=128, dtype="fp8_e4m3", arch="sm_90a", **many)
    assert fa4_cute.can_implement(
        head_dim=64, dtype="fp8_e4m3", token_scales=True, arch="sm_90a", **many
    )
    for head_dim_v in (128, 144, 256):
        assert fa4_cute.can_implement(
            head_dim=256, head_dim_v=head_dim_v, dtype="fp8_e4m3", arch="sm_90a"
        )


def test_hopper_takes_a_narrower_v() -> None:
    text = fa4_cute.explain(head_dim=192, head_dim_v=128, seqlen_q=65, arch="sm_90a")
    assert "kernel SM90MHA (fa4_sm90_bf16_d192v128_g1)" in text
    assert "head dim 192/128" in text
