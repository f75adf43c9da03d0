"""``SplitRows``: a row of O from the partial results of its splits, by one warp.

With ``lse_p`` the log-sum-exp of split ``p`` and ``m`` their maximum, the row is
``sum_p w_p O_p / sum_p w_p`` with ``w_p = 2**((lse_p - m) log2 e)``. A split that saw no key has
weight 0 and its O was never written: it is left out, not multiplied
(``docs/sources.md`` section 9). The order of the sums is always that of the splits, whoever
computes them: the combine kernel, or the last CTA of a query tile (``output.last``).
"""


from collections.abc import Sequence
from dataclasses import dataclass

import cutlass
from cutlass import Float32, Int32, Int64, cute

from ..device import ids
from ..device.lanes import LANE_DISTANCES
from ..device.math.arith import exp2_hardware, log2_hardware, max2, pack16, reciprocal
from ..device.math.fragment import from_lane, neighbour
from ..device.memory import gmem
from ..device.registers import DEVICE
from ..plan.facts.hardware import WARP_THREADS
from ..plan.facts.numbers import LN_2, LOG2_E, MAX_FLOAT32
from ..plan.spec.combine_spec import COLUMNS_PER_LANE, FIRST, CombineSpec

LOWEST = -MAX_FLOAT32
"""Stands for the maximum of no splits: finite, so that differences are never NaN."""


def weighed(
    values: Sequence[Float32], weight: Float32, factor: Float32, part: Sequence[Float32]
) -> tuple[Float32, ...]:
    """Return ``values + weight * factor * part``, and ``values`` where there is no weight.

    Without any weight the factor is infinite.
    """
    scale = where_weighed(weight, weight * factor)
    return tuple(value + scale * column for value, column in zip(values, part, strict=True))


def where_weighed(weight: Float32, value: Float32) -> Float32:
    """Return ``value`` where there is a weight, else 0."""
    return Float32(cutlass.select_(weight != Float32(0.0), value, Float32(0.0)))


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

    def log_sum_exp_of_lane(self, first: Int32 | int) -> Float32:
        """Return that of the lane's split, from ``first`` on; of the last where there is none."""
        return self.log_sum_exp(DEVICE.minimum(first + ids.lane_index(), self.num_splits - 1))

    def weight_below(self, split: Int32, highest: Float32) -> Float32:
        """Return the weight of ``split``; 0 when there is none, or it saw no key."""
        value = self.log_sum_exp(DEVICE.minimum(split, self.num_splits - 1))
        weight = exp2_hardware((value - highest) * Float32(LOG2_E))
        return Float32(cutlass.select_(split < self.num_splits, weight, Float32(0.0)))

    def weight_of_lane(self, first: Int32 | int, value: Float32, highest: Float32) -> Float32:
        """Return the weight of the lane's split, from ``first`` on, by its log-sum-exp ``value``.

        It is 0 when there is none, or it saw no key.
        """
        weight = exp2_hardware((value - highest) * Float32(LOG2_E))
        exists = first + ids.lane_index() < self.num_splits
        return Float32(cutlass.select_(exists, weight, Float32(0.0)))


class SplitRows:
    """How rows are put together; ``spec`` holds all static choices."""

    def __init__(self, spec: CombineSpec) -> None:
        """Take the static choices."""
        self.spec = spec

    def write_row(self, splits: Splits, o: Int64, row: Int64) -> tuple[Float32, Float32]:
        """Write row ``row`` of O; return the largest log-sum-exp and the sum of the weights."""
        parts = range(0, self.spec.depth, self.spec.columns_per_step)
        return self.write_parts(splits, o, row, parts)

    def write_parts(
        self, splits: Splits, o: Int64, row: Int64, parts_of_row: Sequence[int | Int32]
    ) -> tuple[Float32, Float32]:
        """Write parts of row ``row`` of O, by their first columns; return as :meth:`write_row`."""
        # Loads that wait for one another are most of the time: O of the first splits is under
        # way before their weights are known.
        own = splits.log_sum_exp_of_lane(0)
        early = self.first_columns(splits, self.lane_columns(parts_of_row[0]))
        highest = self.highest(splits, own)
        own = splits.weight_of_lane(0, own, highest)
        total = self.total(splits, own, highest)
        scales = own, highest, reciprocal(total)
        o = o + row * (self.spec.depth * self.output_bytes)
        for i, first in enumerate(parts_of_row):
            where = self.lane_columns(first)
            parts = self.first_columns(splits, where) if i else early
            self.write_columns(splits, scales, where, parts, o)
        return highest, total

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
    def highest(self, splits: Splits, own: Float32) -> Float32:
        """Return the largest log-sum-exp of the row; ``own`` is that of the lane's first split."""
        highest = max2(Float32(LOWEST), own)
        for first in cutlass.range(WARP_THREADS, splits.num_splits, WARP_THREADS, unroll=1):
            highest = max2(highest, splits.log_sum_exp_of_lane(first))
        for distance in LANE_DISTANCES:
            highest = max2(highest, neighbour(highest, distance))
        return highest

    @cute.jit
    def total(self, splits: Splits, own: Float32, highest: Float32) -> Float32:
        """Return the sum of the weights, always in the same order; ``own`` as of the lane."""
        total = own
        for first in cutlass.range(WARP_THREADS, splits.num_splits, WARP_THREADS, unroll=1):
            value = splits.log_sum_exp_of_lane(first)
            total = total + splits.weight_of_lane(first, value, highest)
        for distance in LANE_DISTANCES:
            total = total + neighbour(total, distance)
        return total

    def lane_columns(self, first: int | Int32) -> tuple[Int32, Int32]:
        """Return the lane's first column from ``first`` on, and 1 where it is one of O, else 0."""
        column = first + ids.lane_index() * COLUMNS_PER_LANE
        is_inside = column < self.spec.depth
        return column, Int32(cutlass.select_(is_inside, Int32(1), Int32(0)))

    def first_columns(self, splits: Splits, where: tuple[Int32, Int32]) -> list[list[Float32]]:
        """Return four columns of each of the first splits, whether they were written or not."""
        column, inside = where
        parts = []
        for split in range(FIRST):
            exists = Int32(split) < splits.num_splits
            loaded = Int32(cutlass.select_(exists, inside, Int32(0)))
            parts.append(self.columns(splits, Int32(split), column, loaded))
        return parts

    @cute.jit
    def write_columns(
        self,
        splits: Splits,
        scales: tuple[Float32, Float32, Float32],
        where: tuple[Int32, Int32],
        parts: list[list[Float32]],
        o: Int64,
    ) -> None:
        """Write four columns of the row of O a lane.

        Args:
            splits: the row's.
            scales: weight of the lane's split, the largest log-sum-exp, and the reciprocal of the
                sum of weights.
            where: the first of the columns, and 1 where it is one of O, else 0.
            parts: the columns of the first splits. o: address of the row.
        """
        own, highest, factor = scales
        column, inside = where
        values = tuple(Float32(0.0) for _ in range(COLUMNS_PER_LANE))
        for split, part in enumerate(parts):
            weight = from_lane(own, split)
            # What has no weight may never have been written, and is not multiplied.
            part = [where_weighed(weight, column) for column in part]
            values = weighed(values, weight, factor, part)
        a, b, c, d = values
        for first in cutlass.range(FIRST, splits.num_splits, self.spec.abreast, unroll=1):
            weights = [splits.weight_below(first + i, highest) for i in range(self.spec.abreast)]
            loaded = []
            for i, weight in enumerate(weights):
                # What has no weight was never written.
                counts = Int32(cutlass.select_(weight != Float32(0.0), inside, Int32(0)))
                split = DEVICE.minimum(first + i, splits.num_splits - 1)
                loaded.append(self.columns(splits, split, column, counts))
            for weight, part in zip(weights, loaded, strict=True):
                a, b, c, d = weighed((a, b, c, d), weight, factor, part)
        words = [pack16(a, b, self.spec.ptx_type), pack16(c, d, self.spec.ptx_type)]
        gmem.store_pair(o + column * self.output_bytes, words, inside)


def log_sum_exp(highest: Float32, total: Float32) -> Float32:
    """Return that of a row, minus infinity when no split saw a key."""
    return highest + log2_hardware(total) * Float32(LN_2)
