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
from collections.abc import Callable

from testing.sass import disassemble, softmax_loops, spills

HEAD_DIMS = (64, 128, 192)
FLASH_ATTENTION_4_KEYS = 128
"""Keys per tile of that package's forward kernel (its default ``n_block_size``)."""
def own_kernel(head_dim: int) -> bytes:
    """Return the cubin of this package's bf16 non-causal kernel."""
    from fa4_cute.host.compile.cache import compiled
    from fa4_cute.plan.facts.dtypes import DType
    from fa4_cute.plan.spec.kernel_spec import KernelSpec

    return compiled(KernelSpec.for_attention(DType.BF16, head_dim)).cubin


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
    code = disassemble(build(head_dim))
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
