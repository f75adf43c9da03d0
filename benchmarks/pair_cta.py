"""Numbers of the CTA-pair kernel: errors against float64, overlap, and facts of its machine code.

    python -m benchmarks.pair_cta

Prints the tables and writes out/pair_cta.json, which ``benchmarks.results_page`` reads. Errors come
from runs on the virtual SM100, overlap from its modelled timeline. T1 is a static lower bound: the
fewest stall cycles of a softmax warp from "S ready" to "P handed over". Nothing here was measured
on a chip.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import torch

import fa4_cute
from examples.pair_pictures import overlap, run
from fa4_cute.host.compile import cache
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from testing.reference.attention import attention_float64, attention_plain
from testing.sass import disassemble, pair_loop, spills

HEAD_DIMS = (200, 256, 384, 512)
GROUPS = (1, 4, 8)
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
LENGTHS = (150, 450)
OVERLAP_KEYS = 4096
RESULT = Path("out/pair_cta.json")


def normal(seqlen: int, heads: int, head_dim: int, dtype: torch.dtype) -> torch.Tensor:
    """Return normal deviates of shape (1, seqlen, heads, head_dim)."""
    return torch.randn(1, seqlen, heads, head_dim).to(dtype)


def errors() -> Iterator[tuple[str, ...]]:
    """Yield head dim, type, mask and group with our largest error and plain PyTorch's."""
    yield "head dim", "dtype", "mask", "group", "max error", "plain PyTorch", "ratio"
    for head_dim, (name, dtype), causal, group in product(
        HEAD_DIMS, DTYPES.items(), (False, True), GROUPS
    ):
        torch.manual_seed(0)
        q = normal(LENGTHS[0], group, head_dim, dtype)
        k, v = (normal(LENGTHS[1], 1, head_dim, dtype) for _ in range(2))
        out = fa4_cute.flash_attn(q, k, v, causal=causal)
        exact = attention_float64(q, k, v, causal=causal).out
        plain = attention_plain(q, k, v, causal=causal)
        ours, theirs = ((x.double() - exact).abs().max().item() for x in (out, plain))
        mask = "causal" if causal else "full"
        yield (
            str(head_dim), name, mask, str(group),
            f"{ours:.2e}", f"{theirs:.2e}", f"{ours / theirs:.2f}",
        )  # fmt: skip


def overlaps() -> Iterator[tuple[str, ...]]:
    """Yield modelled cycles and overlap of one long work tile, in turn and with look-ahead."""
    yield "head dim", "issue order", "cycles", "tensor cores busy", "softmax hidden"
    for head_dim in (256, 512):
        rows = 256 if head_dim == 256 else 128
        q = normal(rows, 1, head_dim, torch.bfloat16)
        k, v = (normal(OVERLAP_KEYS, 1, head_dim, torch.bfloat16) for _ in range(2))
        for look_ahead in (False, True):
            _, report, _ = run(q, k, v, look_ahead=look_ahead)
            cycles, busy, hidden = overlap(report).values()
            order = "S one tile ahead" if look_ahead else "in turn"
            yield str(head_dim), order, f"{cycles:,}", f"{busy:.1%}", f"{hidden:.1%}"


def machine_code() -> Iterator[tuple[str, ...]]:
    """Yield registers, spills, T1 and counts of instructions of both depths."""
    yield "head dim", "setmaxnreg", "spills", "T1", "MMA instructions", "instructions"
    for head_dim in (256, 512):
        spec = Depth512Spec.for_attention(DType.BF16, head_dim)
        code = disassemble(cache.compiled(spec).cubin)
        texts = [instruction.text for instruction in code]
        budgets = [re.search(r"USETMAXREG.*0x([0-9a-f]+)", text) for text in texts]
        registers = "/".join(str(int(found[1], 16)) for found in budgets if found)
        yield (
            str(head_dim), registers, str(spills(code)), str(pair_loop(code).all_of_p),
            str(sum("UTCHMMA" in text for text in texts)), str(len(code)),
        )  # fmt: skip


def main() -> None:
    """Print all tables and write the report."""
    tables = {"machine_code": machine_code(), "overlap": overlaps(), "errors": errors()}
    found = {name: list(rows) for name, rows in tables.items()}
    for name, rows in found.items():
        print(name.replace("_", " "))
        for row in rows:
            print("".join(f"{cell:18}" for cell in row))
    report = {"lengths": LENGTHS, "overlap_keys": OVERLAP_KEYS, **found}
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
