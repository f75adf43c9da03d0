"""``flash_attn`` on CPU tensors: the real kernel, compiled and executed on the virtual SM100."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fa4_cute
from testing.reference.attention import compare

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def inputs(
    seqlen_q: int, seqlen_k: int, *, batch: int = 1, heads: tuple[int, int] = (1, 1), d: int = 64,
    dtype: torch.dtype = torch.bfloat16,
) -> Tensors:  # fmt: skip
    generator = torch.Generator().manual_seed(seqlen_q * 1000 + seqlen_k)
    of_q, of_k = (batch, seqlen_q, heads[0], d), (batch, seqlen_k, heads[1], d)
    q, k, v = (torch.randn(shape, generator=generator).to(dtype) for shape in (of_q, of_k, of_k))
    return q, k, v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("seqlen_q", "seqlen_k"), [(1, 1), (130, 70), (70, 200), (257, 257)])
def test_against_float64(seqlen_q: int, seqlen_k: int, causal: bool) -> None:
    operands = inputs(seqlen_q, seqlen_k, batch=2, heads=(4, 2))
    out, lse = fa4_cute.flash_attn(*operands, causal=causal, return_lse=True)
    compare(out, lse, operands, causal=causal).check()
    report = fa4_cute.last_report()
    assert report is not None
    assert report.verdict == "clean"
    # Causal grids start with the heads: those of the longest query tiles run first.
    heads, tiles, sequences = report.grid if causal else (report.grid[i] for i in (1, 0, 2))
    assert (heads, sequences) == (2, 2)
    assert tiles in (-(-seqlen_q // 128), -(-seqlen_q // 64))


@pytest.mark.parametrize(
    ("head_dim", "dtype"),
    [
        (128, torch.float16),
        (200, torch.float16),
        *(pytest.param(d, torch.bfloat16, marks=pytest.mark.exhaustive) for d in (192, 512)),
    ],
)
def test_head_dims_of_both_kernels(head_dim: int, dtype: torch.dtype) -> None:
    operands = inputs(70, 130, heads=(4, 2), d=head_dim, dtype=dtype)
    out, lse = fa4_cute.flash_attn(*operands, causal=True, return_lse=True)
    compare(out, lse, operands, causal=True).check()


@pytest.mark.parametrize("scale", [-0.125, 0.0, 1.0, 1e-30, -1e-30, 30.0])
def test_every_finite_scale(scale: float) -> None:
    operands = inputs(40, 150, heads=(2, 1))
    out, lse = fa4_cute.flash_attn(*operands, softmax_scale=scale, causal=True, return_lse=True)
    compare(out, lse, operands, softmax_scale=scale, causal=True).check()


def test_without_lse_the_output_is_the_same() -> None:
    operands = inputs(100, 140)
    with_lse, _ = fa4_cute.flash_attn(*operands, return_lse=True)
    assert torch.equal(fa4_cute.flash_attn(*operands), with_lse)


def test_runs_repeat_bit_for_bit() -> None:
    operands = inputs(100, 140, heads=(2, 1))
    assert torch.equal(fa4_cute.flash_attn(*operands), fa4_cute.flash_attn(*operands))


def strided(tensor: torch.Tensor, kind: str) -> torch.Tensor:
    """The same values in other memory."""
    batch, seqlen, heads, d = tensor.shape
    if kind == "heads first":
        return tensor.transpose(1, 2).contiguous().transpose(1, 2)
    if kind == "packed":
        wide = torch.full((batch, seqlen, 3, heads, d), torch.nan, dtype=tensor.dtype)
        wide[:, :, 1] = tensor
        return wide[:, :, 1]
    if kind == "every second row":
        wide = torch.full((batch, 2 * seqlen, heads, d), torch.nan, dtype=tensor.dtype)
        wide[:, ::2] = tensor
        return wide[:, ::2]
    if kind == "columns strided":
        wide = torch.full((batch, seqlen, heads, 2 * d), torch.nan, dtype=tensor.dtype)
        wide[..., ::2] = tensor
        return wide[..., ::2]
    wide = torch.full((batch, seqlen, heads, d + 4), torch.nan, dtype=tensor.dtype)
    wide[..., 4:] = tensor
    return wide[..., 4:]


@pytest.mark.parametrize(
    "kind", ["heads first", "packed", "every second row", "columns strided", "misaligned"]
)
def test_strides_do_not_change_the_result(kind: str) -> None:
    operands = inputs(70, 90, batch=2, heads=(4, 2))
    expected, expected_lse = fa4_cute.flash_attn(*operands, causal=True, return_lse=True)
    views = tuple(strided(tensor, kind) for tensor in operands)
    for view, tensor in zip(views, operands, strict=True):
        assert torch.equal(view, tensor)
        assert not view.is_contiguous()
    out, lse = fa4_cute.flash_attn(*views, causal=True, return_lse=True)
    assert torch.equal(out, expected)
    assert torch.equal(lse, expected_lse)
    assert out.is_contiguous()


def test_expanded_heads_equal_gqa() -> None:
    q, k, v = inputs(40, 60, heads=(4, 1))
    spread = (q, k.expand(-1, -1, 4, -1), v.expand(-1, -1, 4, -1))
    compare(fa4_cute.flash_attn(*spread), None, (q, k, v)).check()


def test_inputs_are_unchanged() -> None:
    packed = torch.randn(1, 80, 3, 2, 64).bfloat16()
    before = packed.clone()
    fa4_cute.flash_attn(*packed.unbind(2), causal=True)
    assert torch.equal(packed, before)


def test_same_tensor_three_times() -> None:
    x = inputs(33, 33)[0]
    compare(fa4_cute.flash_attn(x, x, x), None, (x, x, x)).check()


def test_requires_grad_under_no_grad() -> None:
    q, k, v = inputs(10, 20)
    q.requires_grad_()
    with torch.no_grad():
        out = fa4_cute.flash_attn(q, k, v)
    assert not out.requires_grad
    compare(out, None, (q.detach(), k, v)).check()


def test_report_and_timeline_of_the_last_call() -> None:
    operands = inputs(40, 60)
    fa4_cute.flash_attn(*operands)
    plain = fa4_cute.last_report()
    assert plain is not None
    assert plain.instructions > 0
    assert not plain.events
    with fa4_cute.simulator_options(trace_cluster=0):
        fa4_cute.flash_attn(*operands)
    traced = fa4_cute.last_report()
    assert traced is not None
    assert traced.events
    assert traced.instructions == plain.instructions
    fa4_cute.flash_attn(operands[0][:0], operands[1][:0], operands[2][:0])
    assert fa4_cute.last_report() is traced


SECOND_PROCESS = """
import json, sys
import torch, fa4_cute
assert "cutlass" not in sys.modules
q = torch.ones(1, 40, 1, 64, dtype=torch.bfloat16)
out = fa4_cute.flash_attn(q, q, q)
assert torch.equal(out, q)
print(json.dumps([fa4_cute.cache_info().compiles, "cutlass" in sys.modules]))
"""


def test_a_second_process_neither_compiles_nor_imports_the_dsl(tmp_path: Path) -> None:
    results = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SECOND_PROCESS], cwd=ROOT, capture_output=True, text=True,
            timeout=300, env={**os.environ, "FA4_CUTE_CACHE_DIR": str(tmp_path)}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout.splitlines()[-1]))
    assert results == [[1, True], [0, False]]
