# ruff: noqa: E402 - the simulator is activated before the DSL is imported
"""A GEMM of CuTe DSL for sm_90a, compiled and run on the simulator; prints one JSON object.

Run as a script in a process of its own, with CUTE_DSL_ARCH=sm_90a: D = A B^T of bf16 matrices with
two warpgroups, A and B in shared memory in turns of 64 along K.
"""

from __future__ import annotations

import json
from typing import Any

import sm100sim

sm100sim.activate()

import cutlass
import torch
from cutlass import cute
from cutlass.cute.nvgpu import OperandMajorMode, warpgroup
from cutlass.cute.runtime import from_dlpack
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers as hopper

from sm100sim.options import Check, run_options

M, N, K, STEP, THREADS = 128, 96, 128, 64, 256


@cute.kernel
def kernel(
    mma: cute.TiledMma,
    a: cute.Tensor,
    b: cute.Tensor,
    c: cute.Tensor,
    a_layout: cute.ComposedLayout,
    b_layout: cute.ComposedLayout,
) -> None:
    """One CTA; every thread copies, then both warpgroups multiply."""
    thread, _, _ = cute.arch.thread_idx()
    smem = SmemAllocator()
    a_tile = smem.allocate_tensor(cutlass.BFloat16, a_layout.outer, 1024, a_layout.inner)
    b_tile = smem.allocate_tensor(cutlass.BFloat16, b_layout.outer, 1024, b_layout.inner)
    part = mma.get_slice(thread)
    a_part = mma.make_fragment_A(part.partition_A(a_tile))
    b_part = mma.make_fragment_B(part.partition_B(b_tile))
    c_part = part.partition_C(c)
    result = cute.make_rmem_tensor(c_part.shape, cutlass.Float32)
    mma.set(warpgroup.Field.ACCUMULATE, False)
    for step in cutlass.range_constexpr(K // STEP):
        for at in cutlass.range(thread, M * STEP, THREADS):
            a_tile[at // STEP, at % STEP, 0] = a[at // STEP, at % STEP + step * STEP]
        for at in cutlass.range(thread, N * STEP, THREADS):
            b_tile[at // STEP, at % STEP, 0] = b[at // STEP, at % STEP + step * STEP]
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.sync_threads()
        warpgroup.fence()
        for k in cutlass.range(cute.size(a_part, mode=[2]), unroll_full=True):
            cute.gemm(mma, result, a_part[None, None, k, 0], b_part[None, None, k, 0], result)
            mma.set(warpgroup.Field.ACCUMULATE, True)
        warpgroup.commit_group()
        warpgroup.wait_group(0)
        cute.arch.sync_threads()
    for k in cutlass.range_constexpr(cute.size(result)):
        c_part[k] = result[k]


@cute.jit
def gemm(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor) -> None:
    """C [M, N] f32 = A [M, K] bf16 times the transpose of B [N, K] bf16."""
    major = OperandMajorMode.K
    element = cutlass.BFloat16
    mma = hopper.make_trivial_tiled_mma(
        element, element, major, major, cutlass.Float32, (2, 1, 1), (64, N)
    )
    rows = LayoutEnum.ROW_MAJOR
    a_layout = hopper.make_smem_layout_a(rows, (M, N, STEP), element, 1)
    b_layout = hopper.make_smem_layout_b(rows, (M, N, STEP), element, 1)
    kernel(mma, a, b, c, a_layout, b_layout).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))


def main() -> None:
    """Compile once, run in each mode with all checks."""
    torch.manual_seed(0)
    a, b = torch.randn(M, K).bfloat16(), torch.randn(N, K).bfloat16()
    c = torch.zeros(M, N)
    arguments = [from_dlpack(x, assumed_align=16) for x in (a, b, c)]
    compiled = cute.compile(gemm, *arguments)
    found: dict[str, Any] = {
        "target": ".target sm_90a" in compiled.__ptx__,
        "wgmma": compiled.__ptx__.count("mma_async"),
    }
    for mode in ("fast", "late"):
        c.zero_()
        with run_options(checks=Check.ALL | Check.TO_THE_LETTER, mode=mode):
            compiled(*arguments)
        error = (c - (a.double() @ b.double().T)).abs().max()
        found[mode] = [sm100sim.last_report().verdict, float(error)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
