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

from fa4_cute.host.compiler import compile_kernel
from fa4_cute.plan.depth512_spec import Depth512Spec
from fa4_cute.plan.dtypes import DType
from fa4_cute.plan.kernel_spec import KernelSpec
from fa4_cute.plan.masks import CAUSAL, DenseBiasMask, PaddingMask
from fa4_cute.plan.variant import Partition, ScoreMod, Variant
from tests.kernel.artifacts import compiled

BF16, FP8 = DType.BF16, DType.FP8_E4M3
REGISTER = re.compile(r"%r\d+\b")
WIDENED = re.compile(r"(?:cvt\.[su]64\.[su]32|mul\.wide\.[su]32|mad\.wide\.[su]32)\s+%rd\d+, (.*);")
ADDRESS = re.compile(r"(?:ld|st)\.global\S* .*\[(%rd\d+)")


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
SPECS = [
    KernelSpec.for_attention(BF16, 128, group=4, variant=VARIANTS["paged"]),
    KernelSpec.for_attention(BF16, 64, group=4, variant=VARIANTS["cache"], num_qo=1),
    KernelSpec.for_attention(FP8, 64, variant=VARIANTS["tokens"]),
    Depth512Spec.for_attention(BF16, 512, group=2, variant=VARIANTS["paged"]),
    Depth512Spec.for_attention(BF16, 256, variant=VARIANTS["cache"]),
]


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

    def products_behind(self, register: str) -> set[str]:
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


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_narrow_products_on_the_way_to_addresses_count_positions(spec: Any) -> None:
    narrow, config = Narrow(compiled(spec).ptx), spec.config
    counted = {config.PairBM_eff(), config.BM_eff(), config.BN, spec.tile_positions, config.group}
    # Lanes of a warp, two key tiles at once, keys of a box and of a page; and signs.
    counted |= {32, 64, 128, 2 * config.BN, spec.key_rows, max(1, spec.variant.page_size), 0}
    registers = set(narrow.widened())
    assert registers
    products = set().union(*(narrow.products_behind(register) for register in registers))
    assert products
    for line in products:
        factor = factor_of(line)
        assert narrow.is_bounded(line) if factor is None else abs(factor) in counted, line


def test_a_row_of_pages_counted_in_32_bits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(SPECS[0])  # imports the DSL
    monkeypatch.setattr("fa4_cute.paging.Int64", lambda value: value)
    narrow = Narrow(compile_kernel(SPECS[0]).ptx)
    products = set().union(*(narrow.products_behind(r) for r in narrow.widened()))
    assert any(factor_of(line) is None and not narrow.is_bounded(line) for line in products)
