"""Inline PTX: one function that turns text and values into an instruction of the traced kernel.

Every other device file states its PTX through :func:`emit`. Operands are numbered as in LLVM's
inline assembly: results first, then operands. A 32-bit value is passed in a ``.b32`` register, a
float in an ``.f32`` register, a 64-bit value in a ``.b64`` register.
"""

from collections.abc import Sequence

from cutlass import Float32, Int32, Int64
from cutlass._mlir.dialects import llvm
from cutlass.cutlass_dsl import T

_CONSTRAINT = {Int32: "r", Float32: "f", Int64: "l"}
_MLIR_TYPE = {Int32: T.i32, Float32: T.f32, Int64: T.i64}


def emit(
    text: str,
    results: Sequence[type] = (),
    operands: Sequence[object] = (),
    *,
    effects: bool = True,
    tied: int = 0,
) -> list:
    """Emit ``text`` and return its results.

    Args:
        text: PTX with ``$0``.. for the results and then the operands.
        results: types of the results, each ``Int32``, ``Float32`` or ``Int64``.
        operands: values of those types; Python integers count as ``Int32``.
        effects: False only for pure arithmetic, which the compiler may move, merge or drop.
        tied: the first ``tied`` operands share their register with the result of the same
            number: the instruction changes them in place, or orders itself before their uses.

    Returns:
        The results in order.
    """
    values = [Int32(v) if isinstance(v, int) else v for v in operands]
    codes = [f"={_CONSTRAINT[t]}" for t in results]
    codes += [str(i) if i < tied else _CONSTRAINT[type(v)] for i, v in enumerate(values)]
    types = [_MLIR_TYPE[t]() for t in results]
    single = types[0] if len(types) == 1 else None
    result = llvm.inline_asm(
        llvm.StructType.get_literal(types) if len(types) > 1 else single,
        [v.ir_value() for v in values],
        text,
        ",".join(codes) if effects is False else ",".join([*codes, "~{memory}"]),
        has_side_effects=effects,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
    )
    if single is not None:
        return [results[0](result)]
    return [t(llvm.extractvalue(m, result, [i])) for i, (t, m) in enumerate(zip(results, types))]
