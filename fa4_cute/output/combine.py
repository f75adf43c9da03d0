"""``SplitCombine``: weigh the splits of a key range and add them up, one warp a row."""

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
        row = Int64(block * warps + ids.warp_index())
        if row < num_rows:
            depth = self.spec.depth
            splits = Splits(
                partial_o + row * (depth * self.spec.partial_bytes),
                partial_lse + row * gmem.WORD_BYTES,
                num_rows,
                num_splits,
            )
            highest, total = self.write_row(splits, o, row)
            self.write_log_sum_exp(lse, row, (num_q_heads, num_queries), (highest, total))

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
            value = log_sum_exp(highest, total)
            gmem.store_f32(lse + Int64(place) * gmem.WORD_BYTES, value)
