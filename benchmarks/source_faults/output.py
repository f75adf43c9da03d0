"""Faults in what leaves a kernel: O by boxes and by rows, the log-sum-exp,
          joined and split rows."""

from __future__ import annotations

from typing import Final

from benchmarks.source_anchors import Fault
from benchmarks.source_faults.fault import REMOVED, fault

_HOLE = "tests/audit/test_holes.py::test_a_box_never_reaches_the_rows_after_its_sequence"
_BOXES, _PAIR_BOXES = f"{_HOLE}[two-Q-tiles]", f"{_HOLE}[CTA-pair]"
_TWO_Q: Final = (
    fault("two_q.may_store_boxes", "last <= ctx.work.sequence.seqlen_q",
          "last <= ctx.work.sequence.seqlen_q + 1", _BOXES),
    fault("two_q.may_store_boxes", "last <= ctx.work.sequence.seqlen_q",
          "last < ctx.work.sequence.seqlen_q", "2q-ragged",
          reason="A tile that ends with its sequence is then written row by row: the same values "
                 "at the same places."),
    fault("two_q.OutputShare.half", "mine = chunks[middle:] if chain else chunks[:middle]",
          "mine = chunks[:middle]", "1q"),
    fault("two_q.OutputShare.half", "(NUM_CHAINS - 1 - chain,)", "()", "1q",
          reason="The exchange of the halves implies that the other group has waited for its last "
                 "P V; the wait names the event that reading O depends on."),
    fault("two_q.first_position", "tile * ctx.spec.tile_positions", "0", "2q"),
    fault("two_q.stage_columns", "column % width * ctx.spec.output_dtype.size // "
          "epilogue.UNIT_BYTES", "0", "2q"),
    fault("two_q.load_accumulator", "ctx.columns.o(chain)", "ctx.columns.o(0)", "2q"),
    fault("two_q.output_factor", "result.total == Float32(0.0)", "result.total < Float32(0.0)",
          "2q-union 2q-bias 2q-page"),
    fault("two_q.output_factor", "factor * result.keep if ctx.spec.variant.sink else factor",
          "factor", "2q-split 2q-ragged 1q-ragged"),
    fault("two_q.output_factor", "VALUE_SCALE in ctx.problem.extras", "False", "2q-fp8"),
    fault("two_q.wait_for_output", "num_tiles - 1", "num_tiles", "2q"),
    fault("two_q.wait_for_output", "tmem.fence_after_thread_sync()", REMOVED, "2q"),
    fault("two_q.write_through_memory", "barriers.fence_proxy_async_shared()", REMOVED, "2q"),
    fault("two_q.write_through_memory",
          "barriers.named_barrier(FIRST_NAMED_BARRIER + line.chain, WARP_GROUP_THREADS)", REMOVED,
          "2q"),
    fault("two_q.write_through_memory", "finish_stores()", REMOVED, "2q 2q-persistent"),
    fault("two_q.write_through_memory", "sequence.first_query + first_position(ctx, line)",
          "first_position(ctx, line)", "2q-ragged"),
    fault("two_q.write_share", "may_store_boxes(ctx, line)", "ctx.work.num_key_tiles > 0",
          "2q-persistent " + _BOXES),
    fault("two_q.write_half", "line.chain == 0", "line.chain == 1", "1q",
          reason="Both groups hold the same sum, so it does not matter which of them writes the "
                 "log-sum-exp."),
)
_DEPTH512: Final = (
    fault("depth512.may_store_boxes",
          "ctx.work.position + ctx.spec.tile_positions <= ctx.work.sequence.seqlen_q",
          "ctx.work.position + ctx.spec.tile_positions <= ctx.work.sequence.seqlen_q + 1",
          _PAIR_BOXES),
    fault("depth512.part_columns", "(part + 1) * width", "(part + 1) * width - 1", "d256 d512",
          reason="Chunks start at multiples of their width, of which the last is as far from the "
                 "end as it is wide: the range is the same."),
    fault("depth512.part_columns", "range(part * width,", "range(0,", "d512"),
    fault("depth512.stage_part", "first_output(config, part, line.part) // width", "0", "d512"),
    fault("depth512.store_part", "barriers.fence_proxy_async_shared()", REMOVED, "d256"),
    fault("depth512.store_part", "barriers.named_barrier(OUTPUT_BARRIER, WARP_GROUP_THREADS)",
          REMOVED, "d256"),
    fault("depth512.wait_for_part", "ctx.work.num_key_tiles - 1", "ctx.work.num_key_tiles", "d256"),
    fault("depth512.wait_for_part", "tmem.fence_after_thread_sync()", REMOVED, "d256"),
    fault("depth512.for_each_piece",
          "part * config.o_columns + column", "column", "d512-persistent"),
    fault("depth512.write_rows", "output_factor(ctx, result)", "Float32(1.0)", "d256-ragged"),
)
_SPLITS: Final = (
    fault("cluster.Stage.partial_address", "self.row * self.plan.row_stride", "0", "1q-cluster"),
    fault("cluster.Stage.leave_row_values", "i * (self.plan.row_values_stride // 2)", "0",
          "1q-cluster"),
    fault("cluster.leave_half", "wait_for_output(ctx, NUM_CHAINS - 1 - line.chain)", REMOVED,
          "1q-cluster", reason="The exchange of the halves implies it, as with one CTA; the wait "
          "names the event that reading O depends on."),
    fault("cluster.weigh", "top = max2(top, own)", REMOVED, "1q-cluster"),
    fault("cluster.weigh", "total == Float32(0.0)", "total < Float32(0.0)", "1q-cluster-causal"),
    fault("cluster.weigh", "mul(total, exp2_hardware(own - top))", "mul(total, Float32(1.0))",
          "1q-cluster-dense"),
    fault("cluster.write_row_sum", "ctx.work.split == 0", "ctx.work.split == 2", "1q-cluster"),
    fault("cluster.sum_band", "column < end", "column < end - 8", "1q-cluster-dense 1q-cluster"),
    fault("cluster.store_blocks", "barriers.fence_proxy_async_shared()", REMOVED,
          "1q-cluster-dense"),
    fault("cluster.publish",
          "barriers.mbarrier_wait(ctx.barriers.address_of(event.mbar), Int32(event.phase), "
          "cluster=True)", REMOVED, "1q-cluster"),
    fault("combine.Shares.weight", "self.log_sum_exp(split) - highest", "self.log_sum_exp(split)",
          "2q-split"),
    fault("combine.Shares.columns", "Int64(split) * stride", "Int64(0)", "2q-split"),
    fault("combine.SplitCombine.highest", "max2(highest, shares.log_sum_exp(split))",
          "shares.log_sum_exp(split)", "2q-split-dense"),
    fault("combine.SplitCombine.write_columns", "weight != Float32(0.0)", "weight != Float32(2.0)",
          "2q-split"),
    fault("combine.SplitCombine.write_columns", "total == Float32(0.0)", "total < Float32(0.0)",
          "2q-split-dense"),
    fault("combine.SplitCombine.write_columns", "column < self.spec.depth", "column < 32",
          "2q-split"),
    fault("combine.SplitCombine.write_log_sum_exp", "log2_hardware(total) * Float32(LN_2)",
          "log2_hardware(total)", "2q-split"),
)
_ROWS: Final = (
    fault("join_groups.join_halves", "barriers.named_barrier(EXCHANGE_BARRIER, "
          "NUM_CHAINS * WARP_GROUP_THREADS)", REMOVED, "1q"),
    fault("join_groups.join_halves", "tmem.wait_stores()", REMOVED, "1q"),
    fault("join_groups.join_halves", "both.reverse()", REMOVED, "1q"),
    fault("join_groups.join_halves", "sum0 * weights[0] + sum1 * weights[1]", "sum0 + sum1", "1q"),
    fault("row_result.RowResult.of", "mul(row_max, line.scale)", "row_max", "2q"),
    fault("row_result.RowResult.of", "ctx.spec.probability.lift", "0", "2q-fp8", nth=1),
    fault("row_result.RowResult.of", "sink * Float32(LOG2_E)", "sink", "2q-ragged"),
    fault("row_result.RowResult.of", "ctx.work.split == 0", "ctx.work.split >= 0", "2q-split"),
    fault("row_result.RowResult.of", "fma(row_sum, keep, exp2_hardware(weight - highest))",
          "row_sum + exp2_hardware(weight - highest)", "2q-ragged 1q-ragged d256-ragged"),
    fault("row_result.write_log_sum_exp", "line.position < ctx.work.sequence.seqlen_q",
          "line.position <= ctx.work.sequence.seqlen_q", _BOXES),
    fault("row_store.query_row", "work.sequence.first_query + line.position", "line.position",
          "2q-ragged"),
    fault("row_store.query_row", "Int64(work.batch) * problem.seqlen_q + line.position",
          "Int64(line.position)", "2q-split-dense"),
    fault("row_store.is_query", "line.position < ctx.work.sequence.seqlen_q",
          "line.position <= ctx.work.sequence.seqlen_q", _BOXES),
    fault("row_store.log_sum_exp_address", "Int64(line.head) * problem.extras['total_q']",
          "Int64(0)", "2q-ragged"),
    fault("row_store.partial_row", "ctx.work.split * ctx.problem.extras['partial_rows']",
          "Int64(0)", "2q-split"),
)
OUTPUT: Final[tuple[Fault, ...]] = (*_TWO_Q, *_DEPTH512, *_SPLITS, *_ROWS)
