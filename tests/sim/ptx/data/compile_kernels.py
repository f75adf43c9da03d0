"""Compile the two CuTe DSL kernels whose PTX lies beside this file.

    CUTE_DSL_ARCH=sm_100a python tests/sim/ptx/data/compile_kernels.py

`scaled_add` is an ordinary guarded loop; `tmem_round_trip` has inline assembly with scopes and
labels of its own, mbarriers, an elected thread, Tensor Memory and vector operands.
"""

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("CUTE_DSL_ARCH", "sm_100a")

import cutlass
from cutlass import Float32, Int32, cute
from cutlass._mlir.dialects import llvm
from cutlass.cute.runtime import make_ptr
from cutlass.cutlass_dsl import T

WAIT = """{
    .reg .pred done;
TRY:
    mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1, 10000000; // a hint, not a limit
    @done bra READY;
    bra TRY;
READY:
}"""
FILL = """{
    .reg .b32 lane<4>; /* four columns
                          of this lane */
    mov.b32 lane0, $1; add.u32 lane1, $1, 1;
    add.u32 lane2, $1, 2; add.u32 lane3, $1, 3;
    tcgen05.st.sync.aligned.32x32b.x4.b32 [$0 + 0x0], {lane0, lane1,
        lane2, lane3};
    tcgen05.wait::st.sync.aligned;
}"""


def asm(text: str, constraints: str, *values: Int32) -> None:
    """Inline assembly without results."""
    llvm.inline_asm(
        None, [v.ir_value() for v in values], text, constraints,
        has_side_effects=True, is_align_stack=False, asm_dialect=llvm.AsmDialect.AD_ATT,
    )  # fmt: skip


@cute.kernel
def scaled_add(a: cute.Tensor, b: cute.Tensor, count: Int32, scale: Float32) -> None:
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    width, _, _ = cute.arch.block_dim()
    at = block * width + thread
    while at < count:
        if a[at] > 0.0:
            b[at] = a[at] * scale + b[at]
        else:
            b[at] = cute.math.exp2(b[at] - 1.5)
        at += width


@cute.kernel
def tmem_round_trip(out: cute.Tensor) -> None:
    thread, _, _ = cute.arch.thread_idx()
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = cutlass.memory.SmemAllocator()
    bars = smem.allocate_array(cutlass.Int64, 2)
    holder = smem.allocate_array(Int32, 1)
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_init(bars, 128)
            cute.arch.mbarrier_init(bars + 1, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.alloc_tmem(32, holder)
    cute.arch.barrier()
    base = cute.arch.retrieve_tmem_ptr(Float32, 16, holder).toint() + (warp << 21)
    asm(FILL, "r,r,~{memory}", base, thread)
    cute.arch.mbarrier_arrive(bars)
    asm(WAIT, "r,r,~{memory}", bars.toint(), Int32(0))
    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive(bars + 1)
    asm(WAIT, "r,r,~{memory}", (bars + 1).toint(), Int32(0))
    out[thread] = llvm_load(base)
    cute.arch.barrier()
    if warp == 0:
        cute.arch.dealloc_tmem(cute.arch.retrieve_tmem_ptr(Float32, 16, holder), 32)


def llvm_load(base: Int32) -> Int32:
    """First column of this warp's lanes."""
    text = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {$0}, [$1]; tcgen05.wait::ld.sync.aligned;"
    return Int32(
        llvm.inline_asm(
            T.i32(), [base.ir_value()], text, "=r,r,~{memory}",
            has_side_effects=True, is_align_stack=False, asm_dialect=llvm.AsmDialect.AD_ATT,
        )
    )  # fmt: skip


@cute.jit
def add_host(a: cute.Pointer, b: cute.Pointer, count: Int32, scale: Float32) -> None:
    layout = cute.make_layout(count)
    scaled_add(cute.make_tensor(a, layout), cute.make_tensor(b, layout), count, scale).launch(
        grid=[4, 1, 1], block=[128, 1, 1]
    )


@cute.jit
def trip_host(out: cute.Pointer) -> None:
    tmem_round_trip(cute.make_tensor(out, cute.make_layout(128))).launch(
        grid=[1, 1, 1], block=[128, 1, 1], smem=1024
    )


def main() -> None:
    here = Path(__file__).parent

    def pointer(kind: type) -> Any:
        return make_ptr(kind, 256, cute.AddressSpace.gmem, assumed_align=16)

    floats = pointer(Float32)
    compiled = {
        "scaled_add": cute.compile(
            add_host, floats, floats, Int32(1000), Float32(2), options="--keep-ptx"
        ),
        "tmem_round_trip": cute.compile(trip_host, pointer(Int32), options="--keep-ptx"),
    }
    for name, function in compiled.items():
        (here / f"{name}.ptx").write_text(function.__ptx__)


if __name__ == "__main__":
    main()
