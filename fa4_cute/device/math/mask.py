"""Masking of scores in registers: columns that a row does not see become minus infinity.

Minus infinity, not a large finite number: no finite score can then fall below the mask. Limits are
columns relative to the tile and may lie outside of it. A branch skips the selects where the whole
warp sees all columns; its limits are the same in all threads, so it never diverges.
"""

from collections.abc import Callable, Sequence

from cutlass import Float32, Int32

from ...plan.facts.wgmma import Columns
from ...plan.masks.key_tiles import WORD_COLUMNS
from ..ptx import emit, f32

_MINUS_INF = "0fFF800000"

Span = tuple[Int32 | None, Int32]
"""First visible column, None when that is known to be 0 or less, and the column after the last."""
Rows = Sequence[Sequence[Float32]]
"""Scores of each of the rows that a thread holds elements of."""


def mask_columns(
    rows: Rows,
    columns: Columns,
    limits: Sequence[Int32],
    warp_limit: Int32,
    *,
    packed: bool,
    keeps_nan: bool = False,
) -> list[list[Float32]]:
    """Return the scores of ``columns`` of the thread's rows with those >= its limit set to -inf.

    Args:
        rows: of each row one score per column, in place.
        columns: columns of the scores within their key tile.
        limits: number of visible columns of the tile for each row; may be <= 0.
        warp_limit: the smallest limit of the warp, the same in all its threads.
        packed: the device has packed floats; then neighbouring columns of one row are asked for.
        keeps_nan: a NaN that a row sees stays one; else, with packed floats, it becomes infinity.

    DSL: ``cutlass.select_`` under a Python ``if`` emits a comparison and a selection for each
    column, two operations of the compiler under a branch that carries all scores; the text is one.
    """
    values = [value for row in rows for value in row]
    count = len(values)
    skip = [
        f"setp.ge.s32 skip, ${2 * count + len(rows)}, {columns.stop};",
        "@skip bra UNMASKED;",
    ]
    predicates = "skip" if packed else "skip, visible"
    if packed:
        lines = _bounded(count, columns[0], keeps_nan=keeps_nan)
    else:
        lines = _compared(len(rows), columns)
    text = f"{{\n\t.reg .pred {predicates};\n\t"
    text += "\n\t".join([*skip, *lines]) + "\nUNMASKED:\n\t}"
    found = emit(text, (Float32,) * count, (*values, *limits, warp_limit), tied=count)
    return _split(found, len(rows))


def _compared(num_rows: int, columns: Columns) -> list[str]:
    """Return the lines that mask each column by a comparison and a selection."""
    each = len(columns)
    count = num_rows * each
    lines = []
    for i in range(count):
        row, column = divmod(i, each)
        lines.append(f"setp.gt.s32 visible, ${2 * count + row}, {columns[column]};")
        lines.append(f"selp.f32 ${i}, ${count + i}, {_MINUS_INF}, visible;")
    return lines


def _bounded(count: int, first_column: int, *, keeps_nan: bool) -> list[str]:
    """Return the lines that mask a row's ``count`` columns by the smaller of score and bound.

    A bound is infinity, minus infinity from the limit on: four times the distance to the limit less
    a half, times 2**127. Packed multiplications and additions of two columns take no cycle of the
    ALU, which a comparison and a selection keep busy for four of each column. ``min`` gives the
    bound where a score is NaN: hidden it vanishes, visible the row's maximum becomes infinite and
    the row NaN. With ``keeps_nan`` a bound is NaN in place of infinity, by minus infinity added to
    it: ``min`` then gives the score, whatever that is (PTX ISA, "min").
    """
    limit, four = f"${2 * count}", f32(4.0)
    lines = [
        ".reg .f32 edge, low, high;",
        ".reg .b64 edges, bounds, step, huge;",
        f"cvt.rn.f32.s32 edge, {limit};",
        *(
            f"fma.rn.f32 {half}, edge, {four}, {f32(-2.0 - 4.0 * (first_column + i))};"
            for i, half in enumerate(("low", "high"))
        ),
        "mov.b64 edges, {low, high};",
        f"mov.b64 step, {{{f32(-8.0)}, {f32(-8.0)}}};",
        f"mov.b64 huge, {{{f32(2.0**127)}, {f32(2.0**127)}}};",
    ]
    if keeps_nan:
        lines += [".reg .b64 least;", f"mov.b64 least, {{{_MINUS_INF}, {_MINUS_INF}}};"]
    for i in range(0, count, 2):
        if i:
            lines.append("add.rn.f32x2 edges, edges, step;")
        lines += [
            "mul.rn.f32x2 bounds, edges, huge;",
            *["add.rn.f32x2 bounds, bounds, least;"] * keeps_nan,
            "mov.b64 {low, high}, bounds;",
            f"min.f32 ${i}, ${count + i}, low;",
            f"min.f32 ${i + 1}, ${count + i + 1}, high;",
        ]
    return lines


def mask_spans(
    rows: Rows, columns: Columns, spans: Sequence[Sequence[Span]], warp_spans: Sequence[Span]
) -> list[list[Float32]]:
    """Return the scores of ``columns`` of the thread's rows, -inf where no span holds the column.

    Args:
        rows: of each row one score per column, in place.
        columns: columns of the scores within their key tile.
        spans: what each row sees.
        warp_spans: what all rows of the warp see through each term of the mask.
    """
    masked: list[list[Float32]] = [[] for _ in rows]
    for start in range(columns.start, columns.stop, WORD_COLUMNS):
        word = range(start, min(start + WORD_COLUMNS, columns.stop))
        inside = [i for i in range(len(columns)) if columns[i] in word]
        part = [[row[i] for i in inside] for row in rows]
        bits = [columns[i] - start for i in inside]
        for row, found in zip(masked, _mask_word(part, bits, word, spans, warp_spans), strict=True):
            row += found
    return masked


def _mask_word(
    rows: Rows,
    bits: Sequence[int],
    word: range,
    spans: Sequence[Sequence[Span]],
    warp_spans: Sequence[Span],
) -> list[list[Float32]]:
    """Mask scores of up to 32 columns of each row through a visibility word, by ``bits`` of it.

    DSL: as for :func:`mask_columns`.
    """
    values = [value for row in rows for value in row]
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
    for i in range(count):
        row, column = divmod(i, len(bits))
        if column == 0:
            lines.append("mov.b32 word, 0;")
            for span in spans[row]:
                lines += _word_of_span(span, first, operand)
                lines.append("or.b32 word, word, bits;")
        lines.append(f"and.b32 bits, word, {1 << bits[column]};")
        lines.append("setp.ne.b32 visible, bits, 0;")
        lines.append(f"selp.f32 ${i}, ${count + i}, {_MINUS_INF}, visible;")
    text = "{\n\t.reg .pred skip, visible;\n\t.reg .b32 word, bits, low;\n\t"
    text += "\n\t".join(lines) + "\nUNMASKED:\n\t}"
    found = emit(text, (Float32,) * count, (*values, *operands), tied=count)
    return _split(found, len(rows))


def _split(values: list[Float32], num_rows: int) -> list[list[Float32]]:
    each = len(values) // num_rows
    return [values[i : i + each] for i in range(0, len(values), each)]


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
