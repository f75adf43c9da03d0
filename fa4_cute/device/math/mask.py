"""Masking of scores in registers: columns that a row does not see become minus infinity.

Minus infinity, not a large finite number: no finite score can then fall below the mask. Limits are
columns relative to the tile and may lie outside of it. A branch skips the selects where the whole
warp sees all columns; its limits are the same in all threads, so it never diverges.
"""

from collections.abc import Callable, Sequence

from cutlass import Float32, Int32

from ...plan.facts.wgmma import Columns
from ...plan.masks.key_tiles import WORD_COLUMNS
from ..ptx import emit

_MINUS_INF = "0fFF800000"

Span = tuple[Int32 | None, Int32]
"""First visible column, None when that is known to be 0 or less, and the column after the last."""


def mask_columns(
    values: list[Float32], columns: Columns, limit: Int32, warp_limit: Int32
) -> list[Float32]:
    """Return the scores of ``columns`` with those >= ``limit`` set to -inf.

    Args:
        values: one score per column, in place.
        columns: columns of the scores within their key tile.
        limit: number of visible columns of the tile for this thread's row; may be <= 0.
        warp_limit: the smallest ``limit`` of the warp, the same in all its threads.

    DSL: ``cutlass.select_`` under a Python ``if`` emits the same instructions, from two
    operations of the compiler per column under a branch that carries all scores; the text is one.
    """
    count = len(values)
    lines = [
        f"setp.ge.s32 skip, ${2 * count + 1}, {columns.stop};",
        "@skip bra UNMASKED;",
    ]
    for i in range(count):
        lines.append(f"setp.gt.s32 visible, ${2 * count}, {columns[i]};")
        lines.append(f"selp.f32 ${i}, ${count + i}, {_MINUS_INF}, visible;")
    text = "{\n\t.reg .pred skip, visible;\n\t" + "\n\t".join(lines) + "\nUNMASKED:\n\t}"
    return emit(text, (Float32,) * count, (*values, limit, warp_limit), tied=count)


def mask_spans(
    values: list[Float32], columns: Columns, spans: Sequence[Span], warp_spans: Sequence[Span]
) -> list[Float32]:
    """Return the scores of ``columns``, -inf where no span holds the column.

    Args:
        values: one score per column, in place.
        columns: columns of the scores within their key tile.
        spans: what the thread's row sees.
        warp_spans: what all rows of the warp see through each term of the mask.
    """
    masked: list[Float32] = []
    for start in range(columns.start, columns.stop, WORD_COLUMNS):
        word = range(start, min(start + WORD_COLUMNS, columns.stop))
        part = {columns[i]: v for i, v in enumerate(values) if columns[i] in word}
        masked += _mask_word(part, word, spans, warp_spans)
    return masked


def _mask_word(
    values: dict[int, Float32], word: range, spans: Sequence[Span], warp_spans: Sequence[Span]
) -> list[Float32]:
    """Mask scores, by column, of up to 32 columns through one visibility word: a bit per column.

    DSL: as for :func:`mask_columns`.
    """
    count, first = len(values), word.start
    operands: list[Int32] = []

    def operand(value: Int32) -> str:
        operands.append(value)
        return f"${2 * count + len(operands) - 1}"

    lines = []
    for start, stop in warp_spans:
        lines.append(f"setp.ge.s32 skip, {operand(stop)}, {word.stop};")
        if start is not None:
            lines.append(f"setp.le.and.s32 skip, {operand(start)}, {first}, skip;")
        lines.append("@skip bra UNMASKED;")
    lines.append("mov.b32 word, 0;")
    for span in spans:
        lines += _word_of_span(span, first, operand)
        lines.append("or.b32 word, word, bits;")
    for i, column in enumerate(values):
        lines.append(f"and.b32 bits, word, {1 << column - first};")
        lines.append("setp.ne.b32 visible, bits, 0;")
        lines.append(f"selp.f32 ${i}, ${count + i}, {_MINUS_INF}, visible;")
    text = "{\n\t.reg .pred skip, visible;\n\t.reg .b32 word, bits, low;\n\t"
    text += "\n\t".join(lines) + "\nUNMASKED:\n\t}"
    return emit(text, (Float32,) * count, (*values.values(), *operands), tied=count)


def _word_of_span(span: Span, first: int, operand: Callable[[Int32], str]) -> list[str]:
    """Return the lines that set ``bits`` to the visibility of the 32 columns from ``first`` on."""
    start, stop = span
    lines = _leading_bits("bits", operand(stop), first)
    if start is not None:
        lines += _leading_bits("low", operand(start), first)
        lines += ["not.b32 low, low;", "and.b32 bits, bits, low;"]
    return lines


def _leading_bits(register: str, limit: str, first: int) -> list[str]:
    """Set the bits of the columns below ``limit``; a shift by 32 or more leaves all of them set."""
    return [
        f"sub.s32 {register}, {limit}, {first};",
        f"max.s32 {register}, {register}, 0;",
        f"shl.b32 {register}, 1, {register};",
        f"sub.s32 {register}, {register}, 1;",
    ]


def visibility_word(span: Span, first_column: int) -> Int32:
    """Return one bit per column from ``first_column`` on, set where ``span`` holds the column.

    DSL: ``<<`` on ``Int32`` emits ``shl.b32``, but the compiler may assume that nobody shifts by
    32 or more; here such a shift has to give 0, as it does in PTX.
    """
    operands: list[Int32] = []

    def operand(value: Int32) -> str:
        operands.append(value)
        return f"${len(operands)}"

    lines = _word_of_span(span, first_column, operand)
    text = "{\n\t.reg .b32 bits, low;\n\t" + "\n\t".join(lines) + "\n\tmov.b32 $0, bits;\n\t}"
    return emit(text, (Int32,), operands, effects=False)[0]


def where_visible(word: Int32, column: int, value: Float32) -> Float32:
    """Return ``value`` where bit ``column`` of ``word`` is set, else minus infinity.

    DSL: ``cutlass.select_`` emits the same three instructions apart from one another, which moves
    them: a kernel with every feature and one Q tile then spills 19 registers, with this text none.
    """
    text = (
        "{\n\t.reg .pred visible;\n\t.reg .b32 bit;\n\t"
        f"and.b32 bit, $1, {1 << column};\n\tsetp.ne.b32 visible, bit, 0;\n\t"
        f"selp.f32 $0, $2, {_MINUS_INF}, visible;\n\t}}"
    )
    return emit(text, (Float32,), (word, value), effects=False)[0]
