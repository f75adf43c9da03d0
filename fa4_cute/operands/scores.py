"""Scores of one row per thread: from Tensor Memory to modified and masked registers, and the max.

Scores stay raw, and the softmax scale enters with the exponential, unless something is added to
them: a score modifier or a bias. Then they are scaled first, in natural units, changed, and
brought to powers of two, and ``row.scale`` is 1.
"""

import math
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from cutlass import Float32, Int32, Int64

from ..device.math import softmax as softmax_math
from ..device.math.arith import opaque
from ..device.math.mask import (
    WORD_COLUMNS,
    mask_columns,
    mask_spans,
    visibility_word,
    where_visible,
)
from ..device.memory import gmem, tmem
from ..device.registers import DEVICE
from ..device.sync.barriers import warp_barrier
from ..plan.compute.column_plan import ColumnPlan
from ..plan.masks.masks import Term
from ..work.visibility import RowView
from .token_scales import VECTOR, TileScales, scaled

LOG2_E = math.log2(math.e)
LN_2 = math.log(2.0)
COLUMNS_UNDER_WAY = 16
"""Columns whose biases and auxiliary elements are loaded together, when there are several each."""


def load_columns(row, columns: range) -> list[Float32]:
    """Start loading ``columns`` of S; ``row.scores`` is its address in the warp's lanes."""
    return tmem.load(row.scores + columns.start, len(columns))


@dataclass(frozen=True)
class TileView:
    """One key tile as a thread's row sees it.

    Attributes:
        ctx, row: the CTA and the row.
        first_key: key of the thread's first column.
        scales: scales of the tile's keys and of the row, or None.
        view: visible columns.
    """

    ctx: object
    row: object
    first_key: Int32
    scales: TileScales | None = None
    view: RowView = field(init=False)

    def __post_init__(self) -> None:
        """Bring the row's limits to this tile."""
        view = self.row.view
        if has_biases_of_terms(self.ctx.spec.variant):
            # Registers are scarce: what the row sees is derived anew in every tile, and the limits
            # of the warp, which stand in for here, are not looked at.
            own = opaque(self.row.position)
            view = RowView.of(self.ctx.spec, self.ctx.work.sequence, own, (own, own))
        object.__setattr__(self, "view", view.relative_to(self.first_key))


def has_biases_of_terms(variant) -> bool:
    """Whether what is added to a score depends on the terms of the mask that show its key."""
    return len(variant.terms) > 1 and bool(variant.bias_slots)


def masked(values: list[Float32], columns: range, tile: TileView) -> list[Float32]:
    """Wait for ``values``; return those of ``columns``, modified, -inf where the row is blind."""
    variant = tile.ctx.spec.variant
    values = tmem.wait_loads(values)
    if tile.scales is not None and not scales_late(variant):
        values = scaled(values, columns, tile.scales)
    if variant.modifies_scores:
        values = modified(values, columns, tile)
    if has_biases_of_terms(variant):
        # The biases of the terms differ, so what is visible has been decided with them.
        return values
    own, warp = tile.view.own, tile.view.warp
    if len(own) == 1 and own[0].start is None:
        return mask_columns(values, columns.start, own[0].stop, warp[0].stop)
    spans = [[(i.start, i.stop) for i in intervals] for intervals in (own, warp)]
    return mask_spans(values, columns.start, *spans)


def limits_loads(variant) -> bool:
    """Whether loads go :data:`COLUMNS_UNDER_WAY` columns at a time.

    The assembler would start those of all columns at once, and lacks registers for the addresses.
    """
    aux_ranks = variant.score_mod.aux_ranks if variant.score_mod else ()
    return has_biases_of_terms(variant) or len(variant.bias_slots) + len(aux_ranks) > 1


def scales_late(variant) -> bool:
    """Whether scales per token are loaded along with what changes the scores.

    Of the two places the one from which the assembler spills nothing: with biases of terms, scores
    are scaled before anything else.
    """
    return limits_loads(variant) and not has_biases_of_terms(variant)


def modified(values: list[Float32], columns: range, tile: TileView) -> list[Float32]:
    """Return ``values`` scaled, through the score modifier, with biases, times log2(e).

    Column by column, so that little is alive beside the scores.
    """
    ctx, row, variant = tile.ctx, tile.row, tile.ctx.spec.variant
    natural = row.magnitude * Float32(LN_2)
    # Columns past the sequence carry no result, but must not be read past an array's end.
    last_key = DEVICE.maximum(ctx.work.sequence.seqlen_k - 1, 0)
    aux = aux_tensors(ctx)
    bias = RowBias.of(tile)
    changed = []
    values = list(values)
    late = tile.scales is not None and scales_late(variant)
    # A scale per column takes the register of another load; so do the counts of a persistent CTA.
    parts = (4 if variant.is_persistent else 1) * (2 if late else 1)
    under_way = COLUMNS_UNDER_WAY // parts
    for i, column in enumerate(columns):
        if limits_loads(variant) and i % under_way == 0:
            warp_barrier()
            few = slice(i, i + max(under_way, VECTOR))
            if late and i % VECTOR == 0:
                values[few] = scaled(values[few], columns[few], tile.scales)
        value = values[i]
        key = DEVICE.minimum(tile.first_key + column, last_key)
        score = value * natural
        if variant.score_mod is not None:
            where = (ctx.work.batch, row.head, row.query)
            score = Float32(variant.score_mod.function(score, *where, key, aux))
        if variant.bias_slots:
            score = bias.added_to(score, column, columns.start)
        changed.append(score * Float32(LOG2_E))
    return changed


def aux_tensors(ctx) -> tuple[gmem.AuxTensor, ...]:
    """Return the auxiliary tensors of the score modifier."""
    return tuple(gmem.AuxTensor(aux.address, aux.strides) for aux in ctx.args.extras.aux)


class RowBias:
    """The biases of the thread's row in one tile."""

    def __init__(self, tile: TileView, addresses: dict[int, Int64]) -> None:
        """Take the tile and, per slot, the address of its first column's bias."""
        self.tile = tile
        self.addresses = addresses
        self.num_keys = tile.ctx.work.sequence.seqlen_k - tile.first_key
        self.words: list[Int32] = []

    @classmethod
    def of(cls, tile: TileView) -> "RowBias":
        """Return the biases that the thread's query adds."""
        ctx, row = tile.ctx, tile.row
        found = {}
        for bias in ctx.args.extras.biases:
            tensor = gmem.AuxTensor(bias.address, bias.strides)
            first = tensor.address_of((ctx.work.batch, row.head, row.query))
            found[bias.slot] = gmem.word_address(first, tile.first_key)
        return cls(tile, found)

    def added_to(self, score: Float32, column: int, first_column: int) -> Float32:
        """Return ``score`` of ``column`` with its bias; of columns from ``first_column`` on.

        A union of terms adds the largest sum of biases among the terms that show the key. What
        none shows becomes minus infinity: a score behind the last key may be NaN.
        """
        terms = self.tile.ctx.spec.variant.terms
        if len(terms) == 1:
            return score + self.sum_of(terms[0], column)
        bit = (column - first_column) % WORD_COLUMNS
        if bit == 0:
            spans = [(i.start, i.stop) for i in self.tile.view.own]
            self.words = [visibility_word(span, column) for span in spans]
        best = None
        for word, term in zip(self.words, terms, strict=True):
            added = where_visible(word, bit, self.sum_of(term, column))
            best = added if best is None else softmax_math.max2(best, added)
        return where_visible(reduce(or_, self.words), bit, score + best)

    def sum_of(self, term: Term, column: int) -> Float32:
        """Return the sum of the biases of ``term`` in ``column``; past the last key it is 0."""
        found = [
            gmem.load_f32_below(self.addresses[slot], column, self.num_keys)
            for slot in term.bias_slots
        ]
        return sum(found[1:], start=found[0]) if found else Float32(0.0)


def scores_and_max(
    row, columns: ColumnPlan, row_max: Float32, tile: TileView
) -> tuple[list[Float32], Float32]:
    """Return the resident scores and the maximum of the row and ``row_max``."""
    loads = columns.loads
    resident: list[Float32] = []
    pending = load_columns(row, loads[0])
    for i, span in enumerate(loads):
        values = masked(pending, span, tile)
        if i + 1 < len(loads):
            pending = load_columns(row, loads[i + 1])
        row_max = softmax_math.tile_max(values, row_max)
        if span.start < columns.resident:
            resident += values
    return resident, row_max
