"""The machine code of a sample of the fixed kernels is the recorded one."""

from __future__ import annotations

import pytest

from testing import ptx_hashes
from testing.kernels import KERNELS

SAMPLE = (
    "2q d64 everything",
    "2q d192/128 rope persistent",
    "1q d128 fp8 tokens persistent",
    "cluster d64 page64 sink",
    "pair_cta d128 persistent split",
    "depth512 d512 fp8 tokens persistent",
    "sm90 d256 everything",
    "combine bf16 d128 lse",
)


def test_every_kernel_has_a_hash() -> None:
    assert list(ptx_hashes.recorded()) == list(KERNELS)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
def test_the_machine_code_is_the_recorded_one(name: str) -> None:
    assert ptx_hashes.ptx_hash(name) == ptx_hashes.recorded()[name]


def test_a_changed_kernel_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ptx_hashes, "masked_ptx", lambda name: "mov.b32 %r1, 0;")
    assert ptx_hashes.main(["combine fp16 d64"]) == 1
    assert "combine fp16 d64: differs" in capsys.readouterr().out
