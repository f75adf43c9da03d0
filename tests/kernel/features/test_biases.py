"""Biases as they lie in memory: of 16 and 32 bits, in vectors and one by one, in every kernel."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from fa4_cute.plan.facts.hardware import SM90A
from testing.reference.attention import compare
from tests.kernel.random_cases import also

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
KERNELS: tuple[dict[str, Any], ...] = (
    {"head_dim": 64, "num_qo": 2}, {"head_dim": 128, "num_qo": 1}, {"head_dim": 256},
    {"head_dim": 128, "num_qo": 2, "arch": SM90A},
)  # fmt: skip
MORE: tuple[dict[str, Any], ...] = (
    {"head_dim": 128, "num_qo": 2, "scheduler": "persistent"}, {"head_dim": 512},
    {"head_dim": 128, "num_splits": 2}, {"head_dim": 128, "num_qo": 1, "arch": SM90A},
    {"head_dim": 256, "arch": SM90A}, {"head_dim": 64, "num_qo": 2, "arch": SM90A},
    {"head_dim": 96, "num_qo": 2, "scheduler": "persistent", "arch": SM90A},
)  # fmt: skip
by_kernel = pytest.mark.parametrize("kernel", [*KERNELS, *also(*MORE)], ids=str)
TYPES = ((BF16, 16), (BF16, 8), (BF16, 1), (FP16, 16), (FP32, 8), (FP32, 4), (FP32, 1))
"""Element types, and how many a thread may load at once."""


def drawn(seqlens: tuple[int, int], head_dim: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    queries, keys = seqlens
    shapes = ((2, queries, 4), (2, keys, 2), (2, keys, 2))
    return [torch.randn(*shape, head_dim, generator=generator).bfloat16() for shape in shapes]


def bias_of(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Normal deviates, some of them minus infinity."""
    found = torch.randn(shape, generator=torch.Generator().manual_seed(5))
    return found.masked_fill(found < -2, -torch.inf).to(dtype)


def require_right(kernel: dict[str, Any], keys: int, bias: torch.Tensor, **call: Any) -> None:
    options = dict(kernel)
    q, k, v = drawn((bias.shape[2] if bias.shape[2] > 1 else 70, keys), options.pop("head_dim"))
    mask = masks.bias(bias)
    mask = mask & call.pop("mask") if "mask" in call else mask
    out, lse = fa4_cute.flash_attn(q, k, v, mask=mask, return_lse=True, **call, **options)
    found = compare(out, lse, (q, k, v), mask=mask, **call)
    assert not found.failures, found.failures


@pytest.mark.slow
@by_kernel
@pytest.mark.parametrize(("dtype", "at_once"), TYPES)
def test_every_type(kernel: dict[str, Any], dtype: torch.dtype, at_once: int) -> None:
    keys = 288 + at_once % 16
    bias = bias_of((1, 4, 150, keys), dtype)
    require_right(kernel, keys, bias, causal=at_once % 16 > 0)


@pytest.mark.slow
@by_kernel
@pytest.mark.parametrize("shape", [(2, 4, 90), (2, 1, 90), (1, 4, 1), (1, 1, 90)], ids=str)
def test_dimensions_of_one_stand_for_all(
    kernel: dict[str, Any], shape: tuple[int, int, int]
) -> None:
    require_right(kernel, 208, bias_of((*shape, 208), BF16))


@pytest.mark.slow
@by_kernel
def test_more_keys_than_the_sequence_has(kernel: dict[str, Any]) -> None:
    """What lies behind the last key is read with it, and hidden."""
    bias = bias_of((1, 4, 90, 320), BF16)
    bias[..., 300:] = torch.nan
    require_right(kernel, 300, bias, mask=masks.sliding_window(100, 30))


@pytest.mark.slow
@pytest.mark.parametrize("arch", [None, SM90A])
def test_a_call_tells_addresses_apart_that_vectors_need(arch: str | None) -> None:
    """The same tensors 2, 16 and 32 bytes further: one by one, 8 and 16 at once."""
    q, k, v = drawn((64, 128), 64)
    memory = bias_of((1, 4, 64 * 128 // 4 + 1, 16), BF16).flatten()
    first = -memory.data_ptr() % 32 // 2
    fa4_cute.clear_cache()
    for _ in range(2):
        for at in (0, 1, 8, 16, 0):
            bias = memory[first + at :][: 4 * 64 * 128].view(1, 4, 64, 128)
            mask = masks.bias(bias)
            out = fa4_cute.flash_attn(q, k, v, mask=mask, arch=arch)
            assert not compare(out, None, (q, k, v), mask=mask).failures


@pytest.mark.slow
def test_other_types_are_copied_and_gaps_between_keys_too() -> None:
    kernel = {"head_dim": 64, "num_qo": 2}
    require_right(kernel, 96, bias_of((1, 4, 70, 96), torch.float64))
    apart = bias_of((1, 4, 96, 70), BF16).transpose(2, 3)
    require_right(kernel, 96, apart)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [{"head_dim": 128, "num_qo": 2, "arch": SM90A}], ids=str)
def test_staged_biases_are_waited_for_however_late_they_come(kernel: dict[str, Any]) -> None:
    """Copies end as late as may be, and consumers read what is there."""
    with fa4_cute.simulator_options(mode="late"):
        require_right(kernel, 304, bias_of((1, 4, 150, 304), BF16))
