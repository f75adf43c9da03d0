"""Sequences of different lengths, packed or paged, for a kernel given by its specification.

Whatever lies in memory beside the rows of a sequence is NaN, so that a row that is read although it
does not count shows in the result.
"""

import math
from dataclasses import dataclass

import torch

from fa4_cute.host.run import simulator
from fa4_cute.host.run.launch import AttentionCall, pack_launch
from fa4_cute.plan.facts.hardware import SM_COUNT
from fa4_cute.plan.launch.launch import AttentionSizes
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from tests.kernel.artifacts import compiled
from tests.kernel.attention_case import TORCH_TYPES, buffer, operand

TAIL = 200
"""Poisoned rows behind packed keys."""


@dataclass(frozen=True)
class Sequences:
    """Lengths, and the kernel: its variant says how the operands are laid out."""

    spec: KernelSpec
    queries: tuple[int, ...]
    keys: tuple[int, ...]
    kv_heads: int = 1
    num_sms: int = SM_COUNT

    @property
    def heads(self) -> int:
        return self.kv_heads * self.spec.config.group

    @property
    def softmax_scale(self) -> float:
        return 1 / math.sqrt(self.spec.config.qk_depth)

    def rows(self, lengths: tuple[int, ...], heads: int, depth: int, seed: int) -> list:
        """Return seeded normal rows of each sequence, in the kernel's element type."""
        generator = torch.Generator().manual_seed(seed)
        dtype = TORCH_TYPES[self.spec.config.qkv_dtype]
        return [torch.randn(n, heads, depth, generator=generator).to(dtype) for n in lengths]


def offsets(lengths: tuple[int, ...]) -> torch.Tensor:
    return torch.tensor([0, *torch.tensor(lengths).cumsum(0)], dtype=torch.int32)


def paged(case: Sequences, rows: list[list], seed: int) -> tuple[list, torch.Tensor]:
    """Return caches with the rows of each operand in pages dealt at random, and the page table."""
    size = case.spec.variant.page_size
    counts = [-(-n // size) for n in case.keys]
    pages = torch.randperm(sum(counts) + 3, generator=torch.Generator().manual_seed(seed))
    shapes = [(len(pages), size, *r[0].shape[1:]) for r in rows]
    caches = [torch.full(s, math.nan).to(r[0].dtype) for s, r in zip(shapes, rows, strict=True)]
    # Entries that no key needs name pages that do not exist.
    table = torch.full((len(case.keys), max(counts) + 1), 2**30, dtype=torch.int32)
    unused = iter(pages.tolist())
    for b, count in enumerate(counts):
        for i in range(count):
            table[b, i] = page = next(unused)
            for cache, of_operand in zip(caches, rows, strict=True):
                part = of_operand[b][i * size : (i + 1) * size]
                cache[page, : len(part)] = part
    return caches, table


def packed_keys(rows: list) -> torch.Tensor:
    tail = torch.full((TAIL, *rows[0].shape[1:]), math.nan).to(rows[0].dtype)
    return torch.cat([*rows, tail])[None]


def run(case: Sequences, q: list, k: list, v: list) -> tuple[list, list]:
    """Run the kernel; returns outputs and log-sum-exps (heads, queries) of the sequences."""
    variant, extras = case.spec.variant, {}
    assert variant.ragged_q
    queries = torch.cat(q)[None]
    o = torch.full((*queries.shape[:3], v[0].shape[-1]), math.nan, dtype=queries.dtype)
    lse = torch.full((case.heads, queries.shape[1]), math.nan)
    extras["cu_seqlens_q"] = offsets(case.queries)
    if variant.page_size:
        (keys, values), extras["page_table"] = paged(case, [k, v], seed=9)
        extras["seqused_k"] = torch.tensor(case.keys, dtype=torch.int32)
    else:
        keys, values = packed_keys(k), packed_keys(v)
        extras["cu_seqlens_k"] = offsets(case.keys)
    numbers = {name: x.data_ptr() for name, x in extras.items()}
    numbers |= {"o": o.data_ptr(), "total_q": queries.shape[1]}
    if variant.page_size:
        numbers["pages_per_row"] = extras["page_table"].shape[1]
    call = AttentionCall(
        *map(operand, (queries, keys, values, o)),
        case.softmax_scale,
        lse.data_ptr(),
        extras=tuple(numbers.items()),
        longest=AttentionSizes(
            len(case.keys), max(case.queries), max(case.keys), case.heads, case.kv_heads
        ),
    )
    artifact = compiled(case.spec)
    buffers = [*map(buffer, (queries, keys, values, *extras.values()))]
    buffers += [buffer(o, writable=True), buffer(lse, writable=True)]
    packed = pack_launch(case.spec, call, num_sms=case.num_sms)
    simulator.launch(artifact.ptx, artifact.kernel_name, packed, buffers)
    return list(o[0].split(case.queries)), list(lse.split(case.queries, -1))


def check(case: Sequences) -> None:
    """Assert every sequence's result against float64, plain PyTorch's error as the measure."""
    config = case.spec.config
    q = case.rows(case.queries, case.heads, config.qk_depth, 1)
    k = case.rows(case.keys, case.kv_heads, config.qk_depth, 2)
    v = case.rows(case.keys, case.kv_heads, config.ov_depth, 3)
    for output, lse, *operands in zip(*run(case, q, k, v), q, k, v, strict=True):
        if not len(output):
            continue
        exact, exact_lse = attention(case, *operands, torch.float64)
        plain, _ = attention(case, *operands, output.dtype)
        assert torch.isfinite(output).all()
        assert (output - exact).abs().max() <= 2 * (plain - exact).abs().max() + 1e-6
        seen = torch.isfinite(exact_lse)
        assert torch.equal(torch.isfinite(lse), seen)
        torch.testing.assert_close(lse[seen].double(), exact_lse[seen], atol=2e-4, rtol=1e-4)


def attention(case: Sequences, q, k, v, dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (output, log-sum-exp) of one sequence, computed in ``dtype``; causal or full."""
    k, v = (x.repeat_interleave(case.spec.config.group, 1) for x in (k, v))
    q, k, v = (x.to(dtype) for x in (q, k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) * case.softmax_scale
    if case.spec.causal:
        rows, columns = torch.arange(len(q))[:, None], torch.arange(len(k))[None]
        scores = scores.masked_fill(columns > rows + len(k) - len(q), -math.inf)
    probabilities = torch.nan_to_num(torch.softmax(scores, -1), 0.0)
    output = torch.einsum("hqk,khd->qhd", probabilities, v)
    return output, torch.logsumexp(scores.double(), -1)
