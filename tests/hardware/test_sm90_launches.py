"""Many launches of the Hopper kernel: streams, threads, graphs, torch's compiler and registry.

The kernels are those of ``testing.hardware.sm90_sweep``: one compiled set serves both.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.nn.attention import (
    SDPBackend,
    activate_flash_attention_impl,
    restore_flash_attention_impl,
    sdpa_kernel,
)
from torch.nn.functional import scaled_dot_product_attention

import fa4_cute
import fa4_cute.integrations.torch_sdpa
from testing.arguments import arguments
from testing.cases import Case
from testing.hardware.sm90_sweep import CASES, called, computed
from tests.hardware.hopper import on_hopper

pytestmark = [pytest.mark.gpu, on_hopper]
THREADS = 4
LAUNCHES = 10_000
SHAPES = ((1, 77, 4, 128), (1, 129, 4, 128), (2, 300, 4, 64), (1, 512, 4, 256))
"""Shapes of Q, K and V; each thread takes them in turn."""
EQUAL_BITS = [case for case in CASES if case.head_dim in (64, 128, 256)][::4]


def tensors(shape: tuple[int, ...], seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).bfloat16().cuda() for _ in range(3)]


def test_ten_thousand_launches_over_streams_and_threads() -> None:
    problems = [tensors(shape, seed) for seed, shape in enumerate(SHAPES)]
    expected = [fa4_cute.flash_attn(*qkv, causal=True) for qkv in problems]
    torch.cuda.synchronize()

    def launch(thread: int) -> int:
        stream, wrong = torch.cuda.Stream(), torch.zeros((), dtype=torch.int64, device="cuda")
        stream.wait_stream(torch.cuda.default_stream())
        with torch.cuda.stream(stream):
            for i in range(LAUNCHES // THREADS):
                which = (i + thread) % len(SHAPES)
                out = fa4_cute.flash_attn(*problems[which], causal=True)
                wrong += (out != expected[which]).any()
        stream.synchronize()
        return int(wrong)

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(launch, range(THREADS))) == [0] * THREADS


def test_a_graph_is_replayed_with_other_values() -> None:
    q, k, v = tensors((1, 512, 4, 128), 1)
    out = torch.empty_like(q)
    fa4_cute.flash_attn(q, k, v, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fa4_cute.flash_attn(q, k, v, causal=True, out=out)
    for seed in range(2, 6):
        for target, source in zip((q, k, v), tensors((1, 512, 4, 128), seed), strict=True):
            target.copy_(source)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, fa4_cute.flash_attn(q, k, v, causal=True))


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_torch_compile(mode: str | None) -> None:
    q, k, v = tensors((1, 512, 4, 128), 3)

    def block(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return fa4_cute.flash_attn(q * 2, k, v, causal=True) + 1

    compiled = torch.compile(block, fullgraph=True, mode=mode)
    for _ in range(3):
        assert torch.equal(compiled(q, k, v), block(q, k, v))


def test_the_attention_of_torch_runs_here() -> None:
    q, k, v = (x.transpose(1, 2) for x in tensors((2, 300, 4, 64), 4))
    plain = scaled_dot_product_attention(q, k, v, is_causal=True)
    activate_flash_attention_impl("FA4_CUTE")
    try:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            ours = scaled_dot_product_attention(q, k, v, is_causal=True)
    finally:
        restore_flash_attention_impl()
    expected = fa4_cute.sdpa(q, k, v, is_causal=True)
    assert torch.equal(ours, expected)
    torch.testing.assert_close(ours, plain, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("case", EQUAL_BITS, ids=str)
def test_the_results_of_the_simulator(case: Case) -> None:
    """The same PTX by the simulator's exact model of the tensor cores.

    What may differ is the last bit of ``ex2.approx`` and ``lg2.approx``, for which the ISA gives a
    bound: elements of O that lie at the middle of two values of 16 bits are rounded another way.
    """
    given = arguments(case)
    with fa4_cute.simulator_options(exact_mma=True):
        out, lse = called(given, arch="sm_90a")
    on_chip, lse_on_chip = computed(given)
    assert out.dtype == on_chip.dtype
    torch.testing.assert_close(lse, lse_on_chip, rtol=1e-6, atol=2e-6)
    # Where a probability is rounded to 16 bits another way, O moves by half a unit of its value.
    apart = (out.float() - on_chip.float()).abs().amax()
    assert apart <= torch.finfo(out.dtype).eps * out.float().abs().amax()
    same = (out == on_chip).float().mean()
    assert same > 0.9, f"{float(same):.4f} of the elements have equal bits, largest gap {apart}"
