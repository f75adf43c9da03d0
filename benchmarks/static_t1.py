"""T1 of the softmax loop, from machine code: "S ready" to "three quarters of P handed over".

    python -m benchmarks.static_t1

In FlashAttention-4's schedule P overwrites S, so S -> softmax -> 3/4 of P -> P V -> next S is one
serial chain per Q tile, and T1 is its only part that software shapes. Printed are the fewest stall
cycles a softmax warp spends on it (and until all of P is handed over), for the kernels of this
package and, when PyPI ``flash-attn-4`` is installed, for its own build by the same compiler. The
numbers are static lower bounds, not measurements.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.sass_paths import Instruction, disassemble, fewest_stalls, spills

HEAD_DIMS = (64, 128, 192)
FLASH_ATTENTION_4_KEYS = 128
"""Keys per tile of that package's forward kernel (its default ``n_block_size``)."""
FEWEST_EXPONENTIALS = 16
"""A softmax tile has at least this many; correction and epilogue have none."""


@dataclass(frozen=True)
class SoftmaxLoop:
    """Stall cycles from the wait for S to the two hand-overs of P."""

    three_quarters: int
    all_of_p: int


def nvdisasm() -> str:
    """Return the path of nvdisasm (on PATH, or package ``nvidia-cuda-nvdisasm``).

    Raises:
        FileNotFoundError: when there is none.
    """
    found = shutil.which("nvdisasm")
    package = importlib.util.find_spec("nvidia")
    for root in package.submodule_search_locations or () if package else ():
        for candidate in Path(root).glob("*/bin/nvdisasm"):
            found = found or str(candidate)
    if found is None:
        raise FileNotFoundError("nvdisasm: install the package nvidia-cuda-nvdisasm")
    return found


def softmax_loops(code: list[Instruction]) -> Iterator[SoftmaxLoop]:
    """Yield the softmax tiles of a kernel, in code order.

    A tile starts at a wait that is followed by a load from Tensor Memory; a hand-over is an arrival
    right behind the completion of stores to Tensor Memory.
    """
    starts = [i for i in _matching(code, r"TRYWAIT") if _next_of(code, i, r"LDTM", 6)]
    for i, start in enumerate(starts):
        end = starts[i + 1] if i + 1 < len(starts) else len(code)
        fences = _matching(code, r"FENCE\.VIEW\.ASYNC\.T", start, end)
        arrivals = [_next_of(code, fence, r"SYNCS\.ARRIVE", 40) for fence in fences]
        handed = [arrival for arrival in arrivals if arrival]
        if len(handed) < 2:
            continue
        if len(_matching(code, r"MUFU\.EX2", start, handed[0])) < FEWEST_EXPONENTIALS:
            continue
        cost = fewest_stalls(code, start)
        yield SoftmaxLoop(cost[handed[0]], cost[handed[1]])


def _matching(
    code: list[Instruction], pattern: str, start: int = 0, end: int | None = None
) -> list[int]:
    stop = len(code) if end is None else end
    return [i for i in range(start, stop) if re.search(pattern, code[i].text)]


def _next_of(code: list[Instruction], index: int, pattern: str, reach: int) -> int | None:
    found = _matching(code, pattern, index + 1, min(index + 1 + reach, len(code)))
    return found[0] if found else None


def own_kernel(head_dim: int) -> bytes:
    """Return the cubin of this package's bf16 non-causal kernel."""
    from fa4_cute.host.compile.compiler import compile_kernel
    from fa4_cute.plan.facts.dtypes import DType
    from fa4_cute.plan.spec.kernel_spec import KernelSpec

    return compile_kernel(KernelSpec.for_attention(DType.BF16, head_dim)).cubin


def flash_attention_4(head_dim: int) -> bytes:
    """Return the cubin of the bf16 non-causal forward kernel of PyPI ``flash-attn-4``."""
    from benchmarks.foreign.flash_attention_4_cubin import forward_cubin

    return forward_cubin(head_dim)


def own_keys(head_dim: int) -> int:
    """Return the keys per tile of this package's kernel."""
    from fa4_cute.plan.config.config import FA4Config
    from fa4_cute.plan.facts.dtypes import DType

    return FA4Config.for_attention(DType.BF16, head_dim).BN


def line(name: str, head_dim: int, keys: int, build: Callable[[int], bytes]) -> str:
    """Return one row of the table."""
    code = disassemble(build(head_dim), nvdisasm())
    loops = list(softmax_loops(code))
    best = min(loops, key=lambda loop: loop.three_quarters, default=None)
    if best is None:
        return f"{name:<13} d{head_dim:<4} no softmax loop recognised"
    per_128 = best.three_quarters * 128 / keys
    return (
        f"{name:<13} d{head_dim:<4} keys per tile {keys:>3}   T1 {best.three_quarters:>5}   "
        f"per 128 keys {per_128:>5.0f}   all of P {best.all_of_p:>5}   "
        f"spill instructions {spills(code)}"
    )


def main() -> None:
    """Print the table."""
    print("static stall cycles of one softmax warp and key tile, bf16, no mask")
    for head_dim in HEAD_DIMS:
        print(line("fa4_cute", head_dim, own_keys(head_dim), own_kernel))
    if importlib.util.find_spec("flash_attn") is None:
        print("flash-attn-4  not installed")
        return
    for head_dim in (64, 128):
        print(line("flash-attn-4", head_dim, FLASH_ATTENTION_4_KEYS, flash_attention_4))


if __name__ == "__main__":
    main()
