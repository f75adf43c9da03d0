"""Scores of one row per thread: from Tensor Memory to modified and masked registers, and the max.

Scores stay raw, and the softmax scale enters with the exponential, unless something is added to
them: a score modifier or a bias. Then they are scaled first, in natural units, changed, and
brought to powers of two, and ``row.scale`` is 1. Biases alone leave them in natural units, and
ALiBi alone is added to raw scores (``slopes``).
"""

from collections.abc import Callable
from collections.abc import Sequence as Several
from dataclasses import dataclass, replace

from cutlass import Float32, Int32

from ..device.math import score_math
from ..device.math import softmax as softmax_math
from ..device.math.arith import F32x2, opaque, saturating_mul, saturating_mul2
from ..device.math.mask import mask_columns, mask_spans
from ..device.math.pairs import PairMath, both
from ..device.math.score_math import TOGETHER, capped_together
from ..device.memory import gmem, tmem
from ..device.registers import DEVICE, at_most
from ..device.sync.barriers import keep_in_front, warp_barrier
from ..plan.compute.column_plan import ColumnPlan
from ..plan.compute.exp2_plan import is_cap_emulated
from ..plan.facts.numbers import LN_2, LOG2_E
from ..plan.facts.wgmma import Columns
from ..plan.masks.masks import is_zero
from ..work.context import AttentionContext
from ..work.row import LaneRow, ThreadRow
from ..work.sequence import Sequence
from ..work.visibility import RowView
from .biases import RowBias, spans_of
from .slopes import sloped
from .token_scales import TileScales, scaled


def load_columns(row: LaneRow, columns: range) -> list[Float32]:
    """Start loading ``columns`` of S; ``row.scores`` is its address in the warp's lanes."""
    return tmem.load(row.scores + columns.start, len(columns))


@dataclass(frozen=True)
class TileView:
    """One key tile as a thread's row sees it.

    Attributes:
        ctx, row: the CTA and the row.
        first_key: key of the thread's first column.
        scales: scales of the tile's keys and of the row, or None.
        view: visible columns; without those of the warp where visibility is decided with biases.
        tile_key: key of column 0, the same in all threads of the warp.
        biases: what is added to its scores.
        whole_in: address of Tensor Memory where the warp is known to see all columns, so that
            nothing is masked; else None.
    """

    ctx: AttentionContext
    row: ThreadRow
    first_key: Int32
    scales: TileScales | None
    view: RowView
    tile_key: Int32
    biases: RowBias
    whole_in: Int32 | None = None

    def seen_whole(self, tmem: Int32) -> "TileView":
        """Return the same tile, known to be seen whole; ``tmem`` is its CTA's Tensor Memory."""
        return replace(self, whole_in=tmem)

    @classmethod
    def of(
        cls,
        ctx: AttentionContext,
        row: ThreadRow,
        first_key: Int32,
        scales: TileScales | None,
        first_column: Int32 | int = 0,
    ) -> "TileView":
        """Return the tile whose first key is ``first_key``.

        ``first_column`` is the first column that the thread holds; it counts columns from there.
        """
        view = row.view
        if ctx.spec.score_loads.fresh_view:
            sequence = ctx.work.sequence
            own = opaque(row.position + sequence.offset)
            view = RowView.of_row_alone(ctx.spec, sequence, own)
        own_key = first_key if is_zero(first_column) else first_key + first_column
        seen = view.relative_to(own_key, first_key)
        return cls(ctx, row, own_key, scales, seen, first_key, RowBias(ctx, row, own_key, seen))


def masked(values: list[Float32], columns: range, tile: TileView) -> list[Float32]:
    """Wait for ``values``; return those of ``columns`` as :func:`visible`."""
    return visible(tmem.wait_loads(values), columns, tile)


def visible(values: list[Float32], columns: Columns, tile: TileView) -> list[Float32]:
    """Return the scores of ``columns``, modified, -inf where the row is blind."""
    return visible_rows([values], columns, [tile])[0]


def visible_rows(
    rows: Several[list[Float32]], columns: Columns, tiles: Several[TileView]
) -> list[list[Float32]]:
    """Return :func:`visible` of each of the thread's rows; one branch skips the mask of all."""
    spec = tiles[0].ctx.spec
    variant = spec.variant
    if variant.changes.only_cap and spec.shares_caps:
        # A NaN that no row sees, of its score or scale, must not reach scores that share its
        # reciprocal. So scales come first: one of 0 would make NaN of a hidden score.
        rows = [_scaled(row, columns, tile) for row, tile in zip(rows, tiles, strict=True)]
        rows = _without_hidden(rows, columns, tiles, keeps_nan=True)
        changed = [
            capped(row, variant.changes.only_cap, tile)
            for row, tile in zip(rows, tiles, strict=True)
        ]
    else:
        changed = [_changed(row, columns, tile) for row, tile in zip(rows, tiles, strict=True)]
    if variant.has_biases_of_terms:
        # The biases of the terms differ, so what is visible has been decided with them.
        return changed
    return _without_hidden(changed, columns, tiles)


def _without_hidden(
    rows: Several[list[Float32]],
    columns: Columns,
    tiles: Several[TileView],
    *,
    keeps_nan: bool = False,
) -> list[list[Float32]]:
    """Return the thread's rows with -inf where a row is blind.

    Of a NaN that it sees packed floats make infinity, unless ``keeps_nan``.
    """
    if tiles[0].whole_in is not None:
        return list(rows)
    own, warp = [tile.view.own for tile in tiles], tiles[0].view.warp
    if len(warp) == 1 and own[0][0].start is None:
        stops, packed = [row[0].stop for row in own], tiles[0].ctx.spec.packs_floats
        stop = warp[0].stop
        return mask_columns(rows, columns, stops, stop, packed=packed, keeps_nan=keeps_nan)
    spans, of_warp = [spans_of(row) for row in own], spans_of(warp)
    return mask_spans(rows, columns, spans, of_warp)


def _scaled(values: list[Float32], columns: Columns, tile: TileView) -> list[Float32]:
    """Return the scores times the scales of their tokens, unless these come along later."""
    if tile.scales is None or tile.ctx.spec.score_loads.scales_along:
        return values
    return scaled(values, columns, tile.scales)


def _changed(values: list[Float32], columns: Columns, tile: TileView) -> list[Float32]:
    """Return the scores with everything but the mask: scales per token, modifier, biases."""
    values = _scaled(values, columns, tile)
    if tile.ctx.spec.adds_slopes:
        keys = tile.first_key, tile.tile_key
        return sloped(tile.ctx, tile.row, values, columns, keys)
    if tile.ctx.spec.variant.modifies_scores:
        values = modified(values, columns, tile)
    return values


def modified(values: list[Float32], columns: Columns, tile: TileView) -> list[Float32]:
    """Return ``values`` scaled, through the score modifier, with biases, times log2(e).

    Two columns at a time, so that little is alive besides the scores; ``ScoreLoads`` says how many
    columns' loads are under way together.
    """
    cap = tile.ctx.spec.variant.changes.only_cap
    if cap:
        return capped(values, cap, tile)
    loads, modifier = tile.ctx.spec.score_loads, ColumnModifier.of(tile)
    values, changed = list(values), list[Float32]()
    for group in loads.groups(len(columns)):
        if loads.is_limited:
            warp_barrier()
        few = loads.scaled_columns(group)
        if tile.scales is not None and few:
            part = slice(few.start, few.stop)
            values[part] = scaled(values[part], columns[part], tile.scales)
        for i in group[::2]:
            changed += modifier.pair((values[i], values[i + 1]), columns[i : i + 2], columns.start)
    return changed


def capped(values: list[Float32], cap: float, tile: TileView) -> list[Float32]:
    """Return ``values`` softcapped, times log2(e)."""
    spec, limit = tile.ctx.spec, cap * LOG2_E
    factor = score_math.cap_factor(tile.row.magnitude, cap)
    if not spec.shares_caps:
        return [score_math.capped(value, factor, limit) for value in values]
    math, found = PairMath.of(packed=spec.packs_floats), list[Float32]()
    for group, start in enumerate(range(0, len(values), TOGETHER)):
        together = values[start : start + TOGETHER]
        # An H200 takes no less with polynomials, or more (docs/hopper.md).
        emulated = spec.packs_floats and is_cap_emulated(group)
        found += capped_together(together, factor, limit, math, emulated=emulated)
    return found


@dataclass(frozen=True)
class ColumnModifier:
    """What happens to the score of one column.

    Attributes:
        tile: the tile and the row.
        natural: factor that brings a raw score to natural units.
        last_key: last key of the sequence; columns past it carry no result, but must not be read
            past an array's end.
        aux: what the score modifier reads.
        bias: the biases of the row.
    """

    tile: TileView
    natural: Float32
    last_key: Int32
    aux: "AuxTensors"
    bias: RowBias

    @classmethod
    def of(cls, tile: TileView) -> "ColumnModifier":
        """Return the modifier of the tile's columns."""
        natural = tile.row.magnitude * Float32(LN_2)
        last_key = DEVICE.maximum(tile.ctx.work.sequence.seqlen_k - 1, 0)
        return cls(tile, natural, last_key, AuxTensors.of(tile.ctx), tile.biases)

    def pair(self, raw: F32x2, columns: Several[int], first_column: int) -> F32x2:
        """Return the scores of two ``columns``, ``raw``, changed and times log2(e).

        ``first_column`` is the first of the columns that are loaded together with these.
        """
        if self.tile.ctx.spec.adds_biases:
            return self.added(raw, columns)
        if self.tile.ctx.spec.variant.changes.only_biases:
            return self.binary(*self.added(raw, columns))
        low, high = (self.changed(v, c, first_column) for v, c in zip(raw, columns, strict=True))
        return self.binary(low, high)

    def added(self, raw: F32x2, columns: Several[int]) -> F32x2:
        """Return the scores of two columns with their biases, in natural units."""
        (term,) = self.tile.ctx.spec.variant.terms
        low, high = (self.bias.sum_of(term, column) for column in columns)
        math = PairMath.of(packed=self.tile.ctx.spec.packs_floats)
        return math.fma(raw, both(self.natural), (low, high))

    def binary(self, low: Float32, high: Float32) -> F32x2:
        """Return the scores of two columns times log2(e)."""
        log2_e = Float32(LOG2_E)
        if self.tile.ctx.spec.packs_floats:
            return saturating_mul2((low, high), (log2_e, log2_e))
        return saturating_mul(low, log2_e), saturating_mul(high, log2_e)

    def changed(self, value: Float32, column: int, first_column: int) -> Float32:
        """Return the raw score ``value`` of ``column`` changed, in natural units.

        ``first_column`` is the first of the columns that are loaded together with this one.
        """
        tile, variant = self.tile, self.tile.ctx.spec.variant
        key = at_most(tile.first_key + column, self.last_key)
        score = value * self.natural
        if variant.score_mod is not None:
            where = (tile.ctx.work.batch, tile.row.head, tile.row.query, key, self.aux)
            score = Float32(variant.score_mod.traced(score, *where))
        if variant.bias_slots:
            score = self.bias.added_to(score, column, first_column)
        return score


@dataclass(frozen=True)
class AuxTensors:
    """What a score modifier reads.

    Attributes:
        tensors: its auxiliary tensors.
        sequence: the sequence of its query and key.
    """

    tensors: tuple[gmem.AuxTensor, ...]
    sequence: Sequence

    @classmethod
    def of(cls, ctx: AttentionContext) -> "AuxTensors":
        """Return what the modifier of a CTA reads."""
        tensors = tuple(gmem.AuxTensor(aux.address, aux.strides) for aux in ctx.args.extras.aux)
        return cls(tensors, ctx.work.sequence)

    @property
    def offset(self) -> Int32:
        """What is added to a query to get its row; computed where it is asked for alone."""
        return self.sequence.offset

    def __getitem__(self, which: slice) -> tuple[gmem.AuxTensor, ...]:
        """Return some of the tensors."""
        return self.tensors[which]


def scores_at_once(
    row: LaneRow,
    columns: ColumnPlan,
    row_max: Float32,
    tile: TileView,
    say_read: Callable[[], None],
) -> tuple[list[Float32], Float32]:
    """Return :func:`scores_and_max` of a row that is resident; S is free as early as can be.

    The rest is loaded under the maximum of the first columns. ``say_read`` is called as soon as all
    are in registers.
    """
    first, *rest = columns.loads
    values = tmem.wait_loads(load_columns(row, first))
    pending = [load_columns(row, span) for span in rest]
    if tile.whole_in is not None:
        # Else the assembler has the maximum of the first columns before the last load.
        keep_in_front(tile.whole_in)
    scores = visible(values, first, tile)
    row_max = softmax_math.tile_max(scores, row_max)
    arrived = [tmem.wait_loads(values) for values in pending]
    say_read()
    for span, values in zip(rest, arrived, strict=True):
        values = visible(values, span, tile)
        row_max = softmax_math.tile_max(values, row_max)
        scores += values
    return scores, row_max


def scores_and_max(
    row: LaneRow, columns: ColumnPlan, row_max: Float32, tile: TileView
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
