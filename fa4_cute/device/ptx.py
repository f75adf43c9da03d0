"""Inline PTX: one function that turns text and values into an instruction of the traced kernel.

A device file uses an operation of the DSL where one emits the instruction that is wanted, and
states the rest as PTX text through :func:`emit`; ``docs/why_ptx.md`` lists both. Operands are
numbered as in LLVM's inline assembly: results first, then operands. A 32-bit value is passed in a
``.b32`` register, a float in an ``.f32`` register, a 64-bit value in a ``.b64`` register.
"""

import struct
from collections.abc import Sequence
from typing import Any

from cutlass import Float32, Int32, Int64

from .dsl import dsl_user_op, inline_asm

_CONSTRAINT = {Int32: "r", Float32: "f", Int64: "l"}


@dsl_user_op
def emit(
    text: str,
    results: Sequence[type] = (),
    operands: Sequence[object] = (),
    *,
    effects: bool = True,
    tied: int = 0,
    loc: Any = None,
) -> list[Any]:
    """Emit ``text`` and return its results.

    Args:
        text: PTX with ``$0``.. for the results and then the operands.
        results: types of the results, each ``Int32``, ``Float32`` or ``Int64``.
        operands: values of those types; Python integers count as ``Int32``.
        effects: False only for pure arithmetic, which the compiler may move, merge or drop.
        tied: the first ``tied`` operands share their register with the result of the same
            number: the instruction changes them in place, or orders itself before their uses.
        loc: source line of the instruction; the DSL gives that of the caller.

    Returns:
        The results in order.
    """
    values = [Int32(v) if isinstance(v, int) else v for v in operands]
    codes = [f"={_CONSTRAINT[t]}" for t in results]
    codes += [str(i) if i < tied else _CONSTRAINT[type(v)] for i, v in enumerate(values)]
    if effects:
        codes.append("~{memory}")
    return inline_asm(text, ",".join(codes), results, values, effects=effects, loc=loc)


def f32(value: float) -> str:
    """Return the PTX literal of a float32."""
    return "0f" + struct.pack(">f", value).hex().upper()
