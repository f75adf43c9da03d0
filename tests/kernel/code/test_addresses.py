"""Tensors beyond 2**31 bytes: addresses are formed in 64 bits.

Once as a fact of the PTX: 32-bit arithmetic on the way to an address counts rows, keys, heads and
pages, never bytes or elements. And by calls whose tensors reach that far: memory that nobody
touches takes no room.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.host.run import operands
from fa4_cute.host.run.launch import Splits
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import CAUSAL, DenseBiasMask, PaddingMask
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.extras import ScoreMod
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Partition, Variant
from testing.sass import compiled
from tests.kernel.random_cases import also

BF16, FP8 = DType.BF16, DType.FP8_E4M3
REGISTER = re.compile(r"%r\d+\b")
WIDENED = re.compile(r"(?:cvt\.[su]64\.[su]32|mul\.wide\.[su]32|mad\.wide\.[su]32)\s+%rd\d+, (.*);")


def table(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score + aux[0][head, q_idx] + aux[1][batch, q_idx, kv_idx]


MOD = ScoreMod("table", "addresses", (2, 3), table)
EVERYTHING: dict[str, Any] = {"return_lse": True, "sink": True, "score_mod": MOD, "used_k": True}
VARIANTS = {
    "paged": Variant(
        CAUSAL & DenseBiasMask(0) & PaddingMask(0), ragged_q=True, page_size=16, **EVERYTHING
    ),
    "cache": Variant(DenseBiasMask(0), partition=Partition.WORKSPACE, **EVERYTHING),
    "tokens": Variant(CAUSAL, return_lse=True, token_scales=True),
}
SPECS: list[AttentionSpec] = [
    KernelSpec.for_attention(BF16, 128, group=4, variant=VARIANTS["paged"]),
    KernelSpec.for_attention(BF16, 64, group=4, variant=VARIANTS["cache"], num_qo=1),
    KernelSpec.for_attention(FP8, 64, variant=VARIANTS["tokens"]),
    Depth512Spec.for_attention(BF16, 512, group=2, variant=VARIANTS["paged"]),
    Depth512Spec.for_attention(BF16, 256, variant=VARIANTS["cache"]),
]


SOME = (SPECS[0], SPECS[3])


class Narrow:
    """The 32-bit definitions of a PTX text."""

    def __init__(self, ptx: str) -> None:
        self.lines = [" ".join(line.split("//")[0].split()) for line in ptx.splitlines()]
        self.definitions: dict[str, list[str]] = defaultdict(list)
        for line in self.lines:
            found = re.match(r"(?:@!?%p\d+ )?[a-z][\w.:]* (?:\{?)(%r\d+)", line)
            if found and not line.startswith(("st.", "bra", "mbarrier", "tcgen05.st")):
                self.definitions[found[1]].append(line)

    def widened(self) -> Iterable[str]:
        """Yield the registers that 64-bit values are made of."""
        for line in self.lines:
            found = WIDENED.match(line)
            if found:
                yield from REGISTER.findall(found[1])

    def products_before(self, register: str) -> set[str]:
        """Return the 32-bit multiplications that ``register`` comes from."""
        todo, seen, products = [register], {register}, set()
        while todo:
            for line in self.definitions[todo.pop()]:
                operands = line.split(",", 1)[1] if "," in line else ""
                if re.match(r"(?:@!?%p\d+ )?(?:mul\.lo|mad\.lo|shl)\.", line):
                    products.add(line)
                if re.match(r"(?:@!?%p\d+ )?(?:ld|mov\.u32 %r\d+, %)", line):
                    continue
                new = set(REGISTER.findall(operands)) - seen
                seen |= new
                todo += new
        return products

    def is_share(self, register: str, depth: int = 3) -> bool:
        """Whether ``register`` is a quotient, or the remainder or sum made of one."""
        lines = self.definitions[register]
        if any(line.startswith(("div.", "rem.")) for line in lines):
            return True
        sums = [line for line in lines if line.startswith(("sub.", "add.", "mul.lo.", "selp."))]
        behind = [r for line in sums for r in REGISTER.findall(line.split(",", 1)[1])]
        return depth > 0 and any(self.is_share(r, depth - 1) for r in behind)

    def is_bounded(self, product: str) -> bool:
        """Whether one of two factors is a share or a remainder: then it counts what was divided."""
        return any(self.is_share(r) for r in REGISTER.findall(product.split(",", 1)[1]))


def factor_of(line: str) -> int | None:
    """Return the constant that a multiplication multiplies by; None for two registers."""
    operands = line.rstrip(";").split(",")[1:]
    if "shl" in line:
        return 1 << int(operands[1], 0)
    constants = [int(x, 0) for x in operands[:2] if "%" not in x]
    return constants[0] if constants else None


@pytest.mark.slow
@pytest.mark.parametrize(
    "spec",
    [pytest.param(s, marks=() if s in SOME else pytest.mark.exhaustive) for s in SPECS],
    ids=lambda s: s.name,
)
def test_narrow_products_on_the_way_to_addresses_count_positions(spec: Any) -> None:
    narrow, config = Narrow(compiled(spec).ptx), spec.config
    counted = {config.PairBM_eff(), config.BM_eff(), config.BN, spec.tile_positions, config.group}
    # Lanes of a warp, two key tiles at once, keys of a box and of a page; and signs.
    counted |= {32, 64, 128, 2 * config.BN, spec.key_rows, max(1, spec.variant.page_size), 0}
    registers = set(narrow.widened())
    assert registers
    products = set().union(*(narrow.products_before(register) for register in registers))
    assert products
    for line in products:
        factor = factor_of(line)
        assert narrow.is_bounded(line) if factor is None else abs(factor) in counted, line


@pytest.mark.slow
def test_a_row_of_pages_counted_in_32_bits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(SPECS[0])  # imports the DSL
    monkeypatch.setattr("fa4_cute.operands.paging.Int64", lambda value: value)
    narrow = Narrow(compile_kernel(SPECS[0]).ptx)
    products = set().union(*(narrow.products_before(r) for r in narrow.widened()))
    assert any(factor_of(line) is None and not narrow.is_bounded(line) for line in products)


BOTH_FAMILIES = (128, *also(256))
"""One code forms these addresses in both; that of pages is different."""
FAR = 2**31
"""Bytes after which everything lies; what is in front is never touched and takes no memory."""


def far(shape: tuple[int, ...], at: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Return memory of ``shape`` in which only the rows from ``at`` on will be used."""
    made = torch.empty(shape, dtype=dtype)
    assert made[:at].numel() * made.element_size() >= FAR
    made[at:] = torch.randn(made[at:].shape, generator=torch.Generator().manual_seed(at))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [128, 256])
def test_pages_beyond_2_31_bytes(head_dim: int) -> None:
    """Keys, values and scattered pages of them lie after 2**31 bytes of their tensors."""
    page_bytes = 64 * 2 * head_dim * 2
    first = FAR // page_bytes + 1
    k, v = (far((first + 4, 64, 2, head_dim), first) for _ in "kv")
    q = torch.randn(1, 4, 4, head_dim, generator=torch.Generator().manual_seed(1)).bfloat16()
    order = torch.tensor([[2, 0, 3, 1]], dtype=torch.int32)
    used = torch.tensor([230], dtype=torch.int32)
    found = fa4_cute.flash_attn(q, k, v, page_table=order + first, seqused_k=used, return_lse=True)
    near = fa4_cute.flash_attn(
        q, k[first:].clone(), v[first:].clone(), page_table=order, seqused_k=used, return_lse=True
    )
    for x, y in zip(found, near, strict=True):
        assert torch.equal(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", BOTH_FAMILIES)
def test_queries_and_outputs_beyond_2_31_bytes(head_dim: int) -> None:
    """The last sequence of a packed batch; those before it are so long that it lies far after them.

    Its rows are written one by one, since a box would reach past their end.
    """
    heads, last = 8, 3
    first = FAR // (heads * head_dim * 2) + 1
    q = far((first + last, heads, head_dim), first)
    k, v = (torch.randn(40, 1, head_dim).bfloat16() for _ in "kv")
    # What the offsets leave out in front is nobody's: the call computes the last rows alone.
    starts = torch.tensor([first, first + last], dtype=torch.int32)
    keys = torch.tensor([0, 40], dtype=torch.int32)
    options: dict[str, Any] = {"cu_seqlens_k": keys, "return_lse": True}
    out, lse = fa4_cute.flash_attn_varlen(
        q, k, v, cu_seqlens_q=starts, unchecked=True, max_seqlen_q=last, max_seqlen_k=40, **options
    )
    near = torch.tensor([0, last], dtype=torch.int32)
    expected = fa4_cute.flash_attn_varlen(q[first:].clone(), k, v, cu_seqlens_q=near, **options)
    assert torch.equal(out[first:], expected[0])
    assert torch.equal(lse[:, first:], expected[1])


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", BOTH_FAMILIES)
def test_splits_beyond_2_31_bytes(head_dim: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partial results of the second and third split, written by one kernel and read by another."""
    generator = torch.Generator().manual_seed(4)
    sizes = ((1, n, 2, head_dim) for n in (10, 400, 400))
    q, k, v = (torch.randn(size, generator=generator).bfloat16() for size in sizes)
    near = fa4_cute.flash_attn(q, k, v, num_splits=3, return_lse=True)
    rows = 20  # whole blocks of the second kernel
    far_rows = FAR // (head_dim * 4) + rows
    made: list[torch.Tensor] = []

    def apart(problem: Any, out: torch.Tensor, workspace: Any) -> tuple[torch.Tensor, torch.Tensor]:
        # Rows between the splits are nobody's, and the second kernel is started for the first.
        made.append(torch.empty(3, far_rows, head_dim))
        return made[0], torch.empty(3, far_rows)

    monkeypatch.setattr(operands, "new_partial", apart)
    monkeypatch.setattr(operands, "Splits", lambda spec, _, values: Splits(spec, rows, values))
    found = fa4_cute.flash_attn(q, k, v, num_splits=3, return_lse=True)
    assert made[0][1].data_ptr() - made[0].data_ptr() > FAR
    for x, y in zip(found, near, strict=True):
        assert torch.equal(x, y)


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", BOTH_FAMILIES)
def test_biases_and_tables_beyond_2_31_bytes(head_dim: int) -> None:
    """Strides of a bias and of an auxiliary tensor that leave 32 bits, counted in elements."""
    generator = torch.Generator().manual_seed(3)
    q, k, v = (torch.randn(2, 70, 2, head_dim, generator=generator).bfloat16() for _ in "qkv")
    stride = 2**31 + 64
    store = torch.empty(stride + 70 * 70 * 2, dtype=torch.float32)
    spread = store.as_strided((2, 2, 70, 70), (stride, 70 * 70, 70, 1))
    spread.copy_(torch.randn(2, 2, 70, 70, generator=generator))
    near = spread.clone(memory_format=torch.contiguous_format)

    def both(bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return fa4_cute.flash_attn(
            q, k, v, mask=masks.bias(bias), score_mod=tabled, aux_tensors=(bias,), return_lse=True
        )

    for x, y in zip(both(spread), both(near), strict=True):
        assert torch.equal(x, y)
        assert not x.isnan().any()


def tabled(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score - aux[0][batch, head, q_idx, kv_idx]
