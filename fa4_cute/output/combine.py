"""``SplitCombine``: weigh the splits of a key range and add them up, a warp for part of a row."""

import cutlass
from cutlass import Float32, Int32, Int64, cute

from ..device import ids
from ..device.memory import gmem
from ..plan.facts.hardware import WARP_THREADS
from .split_rows import SplitRows, Splits, log_sum_exp


class SplitCombine(SplitRows):
    """One compiled combine kernel; ``spec`` holds all static choices."""

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
        part, number = Int32(0), block * warps + ids.warp_index()
        if cutlass.const_expr(self.spec.warps_per_row > 1):
            part, number = number % self.spec.warps_per_row, number // self.spec.warps_per_row
        row = Int64(number)
        if row < num_rows:
            depth = self.spec.depth
            splits = Splits(
                partial_o + row * (depth * self.spec.partial_bytes),
                partial_lse + row * gmem.WORD_BYTES,
                num_rows,
                num_splits,
            )
            sizes = num_q_heads, num_queries
            first = part * self.spec.columns_per_step
            result = self.write_parts(splits, o, row, (first,))
            self.write_log_sum_exp(lse, row, sizes, result, part)

    @cute.jit
    def write_log_sum_exp(
        self,
        lse: Int64,
        row: Int64,
        sizes: tuple[Int32, Int32],
        result: tuple[Float32, Float32],
        part: Int32,
    ) -> None:
        """Write the row's log-sum-exp, minus infinity when no split saw a key: the warp of the
        row's first ``part`` does."""
        if cutlass.const_expr(self.spec.return_lse):
            if part == 0:
                num_q_heads, num_queries = sizes
                highest, total = result
                number = Int32(row)
                query, head = number // num_q_heads, number % num_q_heads
                batch, position = query // num_queries, query % num_queries
                place = (batch * num_q_heads + head) * num_queries + position
                value = log_sum_exp(highest, total)
                gmem.store_f32(lse + Int64(place) * gmem.WORD_BYTES, value)
