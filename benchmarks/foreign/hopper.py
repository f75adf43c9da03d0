"""Kernels of PyPI ``flash-attn-4`` and ``quack-kernels`` for Hopper (sm_90a).

The same public functions as for Blackwell; with ``CUTE_DSL_ARCH=sm_90a`` the device says that its
compute capability is 9.0, and the packages take their Hopper kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from benchmarks.foreign import flash_attention_4_api as fa4
from benchmarks.foreign import quack_kernels as quack
from benchmarks.foreign.cases import Case, Outcome

ARCH: Final = "sm_90a"


def _fa4(name: str, run: Callable[[], Outcome], tolerance: float = 5e-3) -> Case:
    return Case(f"fa4_hopper_{name}", fa4.SOURCE, tolerance, run, arch=ARCH)


def _quack(name: str, run: Callable[[], Outcome]) -> Case:
    return Case(f"quack_hopper_{name}", quack.SOURCE, 5e-3, run, arch=ARCH)


CASES = [
    _fa4("d64", partial(fa4.forward, (256, 256, 2, 2, 64))),
    _fa4("d96", partial(fa4.forward, (256, 300, 1, 1, 96))),
    _fa4("d128", partial(fa4.forward, (512, 512, 2, 2, 128))),
    _fa4("d128_causal_gqa", partial(fa4.forward, (512, 512, 4, 2, 128), causal=True)),
    _fa4("d128_ragged", partial(fa4.forward, (333, 271, 2, 1, 128))),
    _fa4("d128_decode", partial(fa4.forward, (1, 500, 4, 1, 128))),
    _fa4("d192", partial(fa4.forward, (256, 256, 1, 1, 192))),
    _fa4("d256", partial(fa4.forward, (256, 256, 1, 1, 256))),
    _fa4("window", partial(fa4.sliding_window, 100, 20)),
    _fa4("varlen", partial(fa4.varlen, (200, 71, 256), causal=False)),
    _fa4("varlen_causal", partial(fa4.varlen, (200, 71, 256), causal=True)),
    _fa4("backward_d64", partial(fa4.backward, 64, causal=False), 1e-2),
    _fa4("backward_d128_causal", partial(fa4.backward, 128, causal=True), 1e-2),
    _quack("gemm", partial(quack.gemm, (256, 256, 192), (128, 128), (1, 1))),
    _quack("gemm_cluster", partial(quack.gemm, (512, 256, 128), (128, 128), (2, 1), bias=True)),
    _quack("gemm_wide", partial(quack.gemm, (256, 512, 128), (128, 256), (1, 1))),
    _quack("gemm_pingpong", partial(quack.gemm, (256, 256, 192), (64, 128), (1, 1), pingpong=True)),
    _quack("gemm_ragged", partial(quack.gemm, (200, 136, 72), (128, 128), (1, 1))),
]
