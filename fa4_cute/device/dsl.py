"""What the kernels need of the DSL beyond its public names; the only file that imports those.

``cutlass._mlir`` holds the compiler's dialects and may change with every version of the DSL.
"""

from collections.abc import Sequence
from typing import Any

import cutlass._mlir.dialects.cute as _cute_ir
import cutlass._mlir.dialects.cute_nvgpu as _nvgpu_ir
from cutlass import Float32, Int32, Int64, cute
from cutlass._mlir.dialects import llvm
from cutlass.cute.typing import AddressSpace
from cutlass.cutlass_dsl import T
from cutlass.cutlass_dsl import dsl_user_op as dsl_user_op

_MLIR_TYPE = {Int32: T.i32, Float32: T.f32, Int64: T.i64}


def inline_asm(
    text: str, constraints: str, results: Sequence[type], operands: Sequence[Any], *, effects: bool,
    loc: Any = None,
) -> list[Any]:  # fmt: skip
    """Emit ``text`` as inline assembly of LLVM and return its results.

    The public ``cute.arch.inline_ptx`` copies every float operand by a ``mov.f32`` and cannot name
    a memory clobber, without which the compiler may move loads and stores across the text.

    Args:
        text: PTX with ``$0``.. for the results and then the operands.
        constraints: constraint string of LLVM.
        results: types of the results.
        operands: values of the DSL.
        effects: whether the text must stay where and as often as it is.
        loc: source line of the text.
    """
    types = [_MLIR_TYPE[t]() for t in results]
    single = types[0] if len(types) == 1 else None
    result = llvm.inline_asm(
        llvm.StructType.get_literal(types) if len(types) > 1 else single,
        [v.ir_value() for v in operands],
        text,
        constraints,
        has_side_effects=effects,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
        loc=loc,
    )
    if single is not None:
        return [results[0](result)]
    parts = [llvm.extractvalue(m, result, [i], loc=loc) for i, m in enumerate(types)]
    return [t(part) for t, part in zip(results, parts)]


@dsl_user_op
def tensor_map_address(
    atom: cute.CopyAtom, alignment: int, *, loc: Any = None, ip: Any = None
) -> Int64:
    """Return the generic address of the tensor map that a TMA atom parameter carries."""
    executable = _nvgpu_ir.atom_make_exec_tma(atom._trait.value, loc=loc, ip=ip)
    pointer_type = _cute_ir.PtrType.get(Int64.mlir_type, AddressSpace.generic, alignment)
    return _nvgpu_ir.get_tma_desc_addr(pointer_type, executable, loc=loc, ip=ip).toint()
