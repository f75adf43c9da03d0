"""``SplitCombine``: weigh the splits of a key range and add them up, one warp a row.

With ``lse_p`` the log-sum-exp of split ``p`` and ``m`` their maximum, the row is
``sum_p w_p O_p / sum_p w_p`` with ``w_p = 2**((lse_p - m) log2 e)``. A split that saw no key has
weight 0 and its O was never written: it is left out, not multiplied
(``docs/sources.md`` section 9).
"""

from dataclasses import dataclass

import cutlass
from cutlass import Float32, Int32, Int64, cute

from ..device import ids
from ..device.math.arith import exp2_hardware, log2_hardware, max2, pack16, reciprocal
from ..device.math.fragment import neighbour
from ..device.memory import gmem
from ..device.registers import DEVICE
from ..plan.facts.hardware import WARP_THREADS
from ..plan.facts.numbers import LN_2, LOG2_E, MAX_FLOAT32
from ..plan.spec.combine_spec import COLUMNS_PER_LANE, CombineSpec

LOWEST = -MAX_FLOAT32
"""Stands for the maximum of no splits: finite, so that differences are never NaN."""
LANE_DISTANCES = (1, 2, 4, 8, 16)
"""Which lanes meet, step by step, until all have what all hold together."""


@dataclass(frozen=True)
class Splits:
    """The splits of one row: where they start, how far apart they are, how many there are."""

    o: Int64
    lse: Int64
    num_rows: Int64
    num_splits: Int32

    def log_sum_exp(self, split: Int32) -> Float32:
        """Return the natural log-sum-exp of ``split``."""
        return gmem.load_f32(self.lse + Int64(split) * self.num_rows * gmem.WORD_BYTES)

    def weight(self, split: Int32, highest: Float32) -> Float32:
        """Return the weight of ``split``; 0 when it saw no key."""
        return exp2_hardware((self.log_sum_exp(split) - highest) * Float32(LOG2_E))

    def weight_below(self, split: Int32, highest: Float32) -> Float32:
        """Return the weight of ``split``; 0 when there is none, or it saw no key."""
        weight = self.weight(DEVICE.minimum(split, self.num_splits - 1), highest)
        return Float32(cutlass.select_(split < self.num_splits, weight, Float32(0.0)))


class SplitCombine:
    """One compiled combine kernel; ``spec`` holds all static choices."""

    def __init__(self, spec: CombineSpec) -> None:
        """Take the static choices."""
        self.spec = spec

    @cute.kernel
    def kernel(
        self,
        partial_o: Int64,
        partial_lse: Int64,
        o: Int64,
        lse: Int64,
        num_rows: Int64,
        counts: tuple[Int32, Int32, Int32],
    ) -> None:
        """Entry: parameters in the order of ``spec.params``."""
        num_splits, num_q_heads, num_queries = counts
        block = ids.block_index()[0]
        warps = self.spec.num_threads // WARP_THREADS
        row = Int64(block * warps + ids.warp_index())
        if row < num_rows:
            depth = self.spec.depth
            splits = Splits(
                partial_o + row * (depth * self.spec.partial_bytes),
                partial_lse + row * gmem.WORD_BYTES,
                num_rows,
                num_splits,
            )
            highest = self.highest(splits)
            total = self.total(splits, highest)
            self.write_columns(splits, highest, total, o + row * (depth * self.output_bytes))
            self.write_log_sum_exp(lse, row, (num_q_heads, num_queries), (highest, total))

    @property
    def output_bytes(self) -> int:
        """Bytes of an element of O."""
        return self.spec.dtype.size

    def columns(
        self, splits: Splits, split: Int32, column: Int32, inside: Int32
    ) -> list[Float32]:
        """Return four columns of O of ``split``, 0 where the row has ended."""
        size = self.spec.partial_bytes
        stride = splits.num_rows * (self.spec.depth * size)
        address = splits.o + Int64(split) * stride + column * size
        if self.spec.of_calls:
            return gmem.load_16x4(address, inside, self.spec.ptx_type)
        return gmem.load_f32x4(address, inside)

    @cute.jit
    def highest(self, splits: Splits) -> Float32:
        """Return the largest log-sum-exp of the row."""
        highest = Float32(LOWEST)
        for first in cutlass.range(0, splits.num_splits, WARP_THREADS, unroll=1):
            split = DEVICE.minimum(first + ids.lane_index(), splits.num_splits - 1)
            highest = max2(highest, splits.log_sum_exp(split))
        for distance in LANE_DISTANCES:
            highest = max2(highest, neighbour(highest, distance))
        return highest

    @cute.jit
    def total(self, splits: Splits, highest: Float32) -> Float32:
        """Return the sum of the weights; always in the same order."""
        total = Float32(0.0)
        for first in cutlass.range(0, splits.num_splits, WARP_THREADS, unroll=1):
            total = total + splits.weight_below(first + ids.lane_index(), highest)
        for distance in LANE_DISTANCES:
            total = total + neighbour(total, distance)
        return total

    @cute.jit
    def write_columns(
        self, splits: Splits, highest: Float32, total: Float32, o: Int64
    ) -> None:
        """Write the row of O, 128 columns at a time."""
        factor = reciprocal(total)
        for first in cutlass.range_constexpr(0, self.spec.depth, self.spec.columns_per_step):
            column = first + ids.lane_index() * COLUMNS_PER_LANE
            is_inside = column < self.spec.depth
            inside = Int32(cutlass.select_(is_inside, Int32(1), Int32(0)))
            a, b, c, d = self.columns_abreast(splits, (highest, factor), (column, inside))
            words = [pack16(a, b, self.spec.ptx_type), pack16(c, d, self.spec.ptx_type)]
            gmem.store_pair(o + column * self.output_bytes, words, inside)

    @cute.jit
    def columns_abreast(
        self,
        splits: Splits,
        scales: tuple[Float32, Float32],
        where: tuple[Int32, Int32],
    ) -> tuple[Float32, Float32, Float32, Float32]:
        """Return four columns of the row; the loads of several splits are under way together.

        Args:
            splits: the row's.
            scales: the largest log-sum-exp, and the reciprocal of the sum of weights.
            where: the first of the columns, and 1 where it is one of O, else 0.
        """
        highest, factor = scales
        column, inside = where
        a, b, c, d = (Float32(0.0) for _ in range(COLUMNS_PER_LANE))
        for first in cutlass.range(0, splits.num_splits, self.spec.abreast, unroll=1):
            weights = [splits.weight_below(first + i, highest) for i in range(self.spec.abreast)]
            parts = []
            for i, weight in enumerate(weights):
                # What has no weight was never written; without any weight the factor is infinite.
                counts = weight != Float32(0.0)
                loaded = Int32(cutlass.select_(counts, inside, Int32(0)))
                weights[i] = Float32(cutlass.select_(counts, weight * factor, Float32(0.0)))
                split = DEVICE.minimum(first + i, splits.num_splits - 1)
                parts.append(self.columns(splits, split, column, loaded))
            for weight, (w, x, y, z) in zip(weights, parts, strict=True):
                a, b, c, d = a + weight * w, b + weight * x, c + weight * y, d + weight * z
        return a, b, c, d

    @cute.jit
    def write_log_sum_exp(
        self,
        lse: Int64,
        row: Int64,
        sizes: tuple[Int32, Int32],
        result: tuple[Float32, Float32],
    ) -> None:
        """Write the row's log-sum-exp, minus infinity when no split saw a key."""
        if cutlass.const_expr(self.spec.return_lse):
            num_q_heads, num_queries = sizes
            highest, total = result
            number = Int32(row)
            query, head = number // num_q_heads, number % num_q_heads
            batch, position = query // num_queries, query % num_queries
            place = (batch * num_q_heads + head) * num_queries + position
            value = highest + log2_hardware(total) * Float32(LN_2)
            gmem.store_f32(lse + Int64(place) * gmem.WORD_BYTES, value)
