"""Scores of one row per thread: from Tensor Memory to modified and masked registers, and the max.

Scores stay raw, and the softmax scale enters with the exponential, unless something is added to
them: a score modifier or a bias. Then they are scaled first, in natural units, changed, and
brought to powers of two, and ``line.scale`` is 1.
"""

import math
from dataclasses import dataclass, field

from cutlass import Float32, Int32

from .device import gmem, tmem
from .device import softmax as rows
from .device.mask import mask_columns, mask_spans, visibility_word, where_visible
from .plan.column_plan import ColumnPlan
from .plan.masks import Term
from .plan.variant import aux_strides, bias_strides
from .sequence import DEVICE
from .token_scales import TileScales, scaled
from .visibility import RowView

LOG2_E = math.log2(math.e)
LN_2 = math.log(2.0)


def load_columns(line, columns: range) -> list[Float32]:
    """Start loading ``columns`` of S; ``line.scores`` is its address in the warp's lanes."""
    return tmem.load(line.scores + columns.start, len(columns))


def softmax_scale(spec, magnitude: Float32) -> Float32:
    """Return the factor that the exponential applies to a score; ``magnitude`` is the call's."""
    return Float32(1.0) if spec.variant.modifies_scores else magnitude


@dataclass(frozen=True)
class TileView:
    """One key tile as a thread's row sees it.

    Attributes:
        ctx, line: the CTA and the row.
        first_key: key of the thread's first column.
        scales: scales of the tile's keys and of the row, or None.
        view: visible columns.
    """

    ctx: object
    line: object
    first_key: Int32
    scales: TileScales | None = None
    view: RowView = field(init=False)

    def __post_init__(self) -> None:
        """Bring the row's limits to this tile."""
        object.__setattr__(self, "view", self.line.view.relative_to(self.first_key))


def masked(values: list[Float32], columns: range, tile: TileView) -> list[Float32]:
    """Wait for ``values``; return those of ``columns``, modified, -inf where the row is blind."""
    variant = tile.ctx.spec.variant
    values = tmem.wait_loads(values)
    if tile.scales is not None:
        values = scaled(values, columns, tile.scales)
    if variant.modifies_scores:
        values = modified(values, columns, tile)
    if len(variant.terms) > 1 and variant.bias_slots:
        # The biases of the terms differ, and so what is visible has been decided with them.
        return values
    own, warp = tile.view.own, tile.view.warp
    if len(own) == 1 and own[0].start is None:
        return mask_columns(values, columns.start, own[0].stop, warp[0].stop)
    spans = [[(i.start, i.stop) for i in intervals] for intervals in (own, warp)]
    return mask_spans(values, columns.start, *spans)


def modified(values: list[Float32], columns: range, tile: TileView) -> list[Float32]:
    """Return ``values`` scaled, through the score modifier, with biases, times log2(e)."""
    ctx, line = tile.ctx, tile.line
    variant = ctx.spec.variant
    natural = line.magnitude * Float32(LN_2)
    changed = [value * natural for value in values]
    # Columns and rows past the sequence carry no result, but must not be read past an array's end.
    last_key = DEVICE.maximum(ctx.work.sequence.seqlen_k - 1, 0)
    keys = [DEVICE.minimum(tile.first_key + column, last_key) for column in columns]
    if variant.score_mod is not None:
        aux = aux_tensors(ctx)
        where = (ctx.work.batch, line.head, line.query)
        changed = [
            Float32(variant.score_mod.function(value, *where, key, aux))
            for value, key in zip(changed, keys, strict=True)
        ]
    if variant.bias_slots:
        changed = biased(changed, columns, keys, tile)
    return [value * Float32(LOG2_E) for value in changed]


def aux_tensors(ctx) -> tuple[gmem.AuxTensor, ...]:
    """Return the auxiliary tensors of the score modifier."""
    extras = ctx.problem.extras
    return tuple(
        gmem.AuxTensor(extras[f"aux{slot}"], tuple(extras[n] for n in aux_strides(slot, rank)))
        for slot, rank in enumerate(ctx.spec.variant.score_mod.aux_ranks)
    )


def biased(
    values: list[Float32], columns: range, keys: list[Int32], tile: TileView
) -> list[Float32]:
    """Return ``values`` plus the biases of the mask.

    A union of terms adds, per key, the largest sum of biases among the terms that show the key.
    """
    ctx, terms = tile.ctx, tile.ctx.spec.variant.terms
    biases = {slot: bias_row(ctx, tile.line, slot) for slot in ctx.spec.variant.bias_slots}
    if len(terms) == 1:
        return [
            value + bias_sum(terms[0], biases, key)
            for value, key in zip(values, keys, strict=True)
        ]
    spans = [(i.start, i.stop) for i in tile.view.own]
    result = []
    for i, (value, key) in enumerate(zip(values, keys, strict=True)):
        if i % 32 == 0:
            words = [visibility_word(span, columns.start + i) for span in spans]
        added = [
            where_visible(word, i % 32, bias_sum(term, biases, key))
            for word, term in zip(words, terms, strict=True)
        ]
        best = added[0]
        for other in added[1:]:
            best = rows.max2(best, other)
        result.append(value + best)
    return result


def bias_row(ctx, line, slot: int) -> gmem.AuxTensor:
    """Return the row of bias ``slot`` that the thread's query adds."""
    extras = ctx.problem.extras
    by_batch, by_head, by_query = (extras[name] for name in bias_strides(slot))
    tensor = gmem.AuxTensor(extras[f"bias{slot}"], (by_batch, by_head, by_query))
    where = (ctx.work.batch, line.head, line.query)
    return gmem.AuxTensor(tensor.address_of(where), (gmem.WORD_BYTES,))


def bias_sum(term: Term, biases: dict, key: Int32) -> Float32:
    """Return the sum of the biases of ``term`` at ``key``."""
    total = Float32(0.0)
    for slot in term.bias_slots:
        total = total + biases[slot][key]
    return total


def scores_and_max(
    line, columns: ColumnPlan, row_max: Float32, tile: TileView
) -> tuple[list[Float32], Float32]:
    """Return the resident scores and the maximum of the row and ``row_max``."""
    loads = columns.loads
    resident: list[Float32] = []
    pending = load_columns(line, loads[0])
    for i, span in enumerate(loads):
        values = masked(pending, span, tile)
        if i + 1 < len(loads):
            pending = load_columns(line, loads[i + 1])
        row_max = rows.tile_max(values, row_max)
        if span.start < columns.resident:
            resident += values
    return resident, row_max
