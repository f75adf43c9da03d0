"""What CuTe makes of an MMA: its tiled MMA, its layouts, and the machine words that it emits.

Nothing of ``fa4_cute.device`` is used here: a kernel is traced that multiplies by ``cute.gemm``,
and the operands of its ``tcgen05.mma`` are read from the PTX. Tiles lie at fixed addresses, so that
every operand is a constant there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import cutlass
import cutlass.utils.blackwell_helpers as sm100
from cutlass import Float32, Int32, cute
from cutlass.cute.nvgpu import OperandMajorMode, tcgen05
from cutlass.cute.typing import AddressSpace

from fa4_cute.host.compile.compiler import compile_traced
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SwizzleMode
from fa4_cute.plan.facts.umma import MmaPlan

ELEMENTS: Final = {
    DType.BF16: cutlass.BFloat16,
    DType.FP16: cutlass.Float16,
    DType.FP8_E4M3: cutlass.Float8E4M3FN,
}
_ATOMS: Final = {
    (SwizzleMode.B128, False): tcgen05.SmemLayoutAtomKind.K_SW128,
    (SwizzleMode.B64, False): tcgen05.SmemLayoutAtomKind.K_SW64,
    (SwizzleMode.B128, True): tcgen05.SmemLayoutAtomKind.MN_SW128,
    (SwizzleMode.B64, True): tcgen05.SmemLayoutAtomKind.MN_SW64,
}
A_ADDRESS: Final = 0x6000
B_ADDRESS: Final = 0x13000
A_COLUMN: Final = 64
D_COLUMN: Final = 256
_MMA = re.compile(
    r"tcgen05\.mma\.cta_group::(\d)\.kind::(\w+)\S* \[(\S+)\], (\S+), (\S+), (\S+), \{.*\}, (\S+);"
)
_CONSTANT = re.compile(r"mov\.(?:b32|b64|pred)\s+(%\w+), (-?\d+);")


@dataclass(frozen=True)
class Instruction:
    """One ``tcgen05.mma`` of CuTe: every operand as an unsigned number."""

    cta_group: int
    kind: str
    d: int
    a: int
    b: int
    idesc: int
    accumulate: bool


@dataclass(frozen=True)
class Witness:
    """CuTe's words for one MMA plan.

    Attributes:
        instructions: one per K block that is multiplied.
        accumulator: (shape, stride) of D in Tensor Memory; a unit is a 32-bit column.
        a_in_tmem: (shape, stride) of A in Tensor Memory; a unit is an element. None when A is in
            shared memory.
    """

    instructions: tuple[Instruction, ...]
    accumulator: tuple[Any, Any]
    a_in_tmem: tuple[Any, Any] | None


def tiled_mma(plan: MmaPlan) -> Any:
    """Return CuTe's MMA for ``plan``."""
    element = ELEMENTS[plan.dtype]
    source = tcgen05.OperandSource.TMEM if plan.a is None else tcgen05.OperandSource.SMEM
    major = OperandMajorMode.MN if plan.b.mn_major else OperandMajorMode.K
    return sm100.make_trivial_tiled_mma(
        *(element, element, OperandMajorMode.K, major, Float32),
        tcgen05.CtaGroup.TWO if plan.cta_group == 2 else tcgen05.CtaGroup.ONE,
        (plan.m, plan.n),
        source,
    )


def operand_layout(plan: MmaPlan, mma: Any, *, is_a: bool) -> Any:
    """Return CuTe's shared-memory layout of A or B: ((MN, K of an MMA), 1, K blocks, 1)."""
    operand = plan.a if is_a else plan.b
    assert operand is not None
    shape = (
        mma.partition_shape_A((plan.m, operand.padded_k))
        if is_a
        else mma.partition_shape_B((plan.n, operand.padded_k))
    )
    atom = tcgen05.make_smem_layout_atom(
        _ATOMS[operand.swizzle, operand.mn_major], ELEMENTS[operand.dtype]
    )
    order = (2, 1, 3) if operand.mn_major else (1, 2, 3)
    return tcgen05.tile_to_mma_shape(atom, cute.append(shape, 1), order=order)


@lru_cache(maxsize=64)
def witness(plan: MmaPlan) -> Witness:
    """Trace CuTe's multiplication for ``plan`` and return what it emits."""
    element = ELEMENTS[plan.dtype]
    blocks = sorted({k for stage in range(plan.num_stages) for k in plan.k_blocks(stage)})
    layouts: dict[str, tuple[Any, Any]] = {}

    def fragment(mma: Any, *, is_a: bool, address: int) -> Any:
        layout = operand_layout(plan, mma, is_a=is_a)
        pointer = cute.make_ptr(element, address, mem_space=AddressSpace.smem, assumed_align=1024)
        tile = cute.make_tensor(cute.recast_ptr(pointer, swizzle_=layout.inner), layout.outer)
        return mma.make_fragment_A(tile) if is_a else mma.make_fragment_B(tile)

    def in_tensor_memory(layout: Any, dtype: Any, column: int) -> Any:
        pointer = cute.make_ptr(dtype, column, mem_space=AddressSpace.tmem, assumed_align=16)
        return cute.make_tensor(pointer, layout)

    def multiply() -> None:
        mma = tiled_mma(plan)
        if plan.a is None:
            shape = mma.partition_shape_A((plan.m, plan.b.padded_k))
            layout = mma.make_fragment_A(cute.append(shape, 1)).layout
            layouts["a"] = (layout.shape, layout.stride)
            a = in_tensor_memory(layout, element, A_COLUMN)
        else:
            a = fragment(mma, is_a=True, address=A_ADDRESS)
        b = fragment(mma, is_a=False, address=B_ADDRESS)
        layout = mma.make_fragment_C(mma.partition_shape_C((plan.m, plan.n))).layout
        layouts["d"] = (layout.shape, layout.stride)
        d = in_tensor_memory(layout, Float32, D_COLUMN)
        for k in blocks:
            mma.set(tcgen05.Field.ACCUMULATE, k != blocks[0])
            cute.gemm(mma, d, a[(None, None, k, 0)], b[(None, None, k, 0)], d)

    @cute.kernel
    def kernel() -> None:
        multiply()

    @cute.jit
    def host(unused: Int32) -> None:
        kernel().launch(
            grid=[plan.cta_group, 1, 1], block=[32, 1, 1], cluster=[plan.cta_group, 1, 1]
        )

    ptx, _, _ = compile_traced(lambda options: cute.compile(host, Int32(0), options=options))
    return Witness(tuple(_instructions(ptx)), layouts["d"], layouts.get("a"))


def _instructions(ptx: str) -> list[Instruction]:
    """Return the MMAs of ``ptx``, whose operands are registers set to constants just before."""
    values: dict[str, int] = {}
    found = []
    for line in ptx.splitlines():
        if constant := _CONSTANT.search(line):
            values[constant[1]] = int(constant[2])
        elif mma := _MMA.search(line):
            d, a, b, idesc, accumulate = (values[name.strip("[]")] for name in mma.groups()[2:])
            words = (d, a % 2**64, b % 2**64, idesc % 2**32)
            found.append(Instruction(int(mma[1]), mma[2], *words, accumulate != 0))
    return found
