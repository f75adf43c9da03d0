"""Faults in what leaves a kernel: O by boxes and by rows, the log-sum-exp,
          joined and split rows."""

from __future__ import annotations

from typing import Final

from benchmarks.source_anchors import Fault
from benchmarks.source_faults.fault import REMOVED, fault

_EXTREME = "tests/kernel/numerics/test_extreme_scores.py::test_"
_HOLE = "tests/audit/test_holes.py::test_a_box_never_reaches_the_rows_after_its_sequence"
_BOXES, _PAIR_BOXES = f"{_HOLE}[two-Q-tiles]", f"{_HOLE}[CTA-pair]"
_TWO_Q: Final = (
    fault("write.may_store_boxes", "last <= ctx.work.sequence.seqlen_q",
          "last <= ctx.work.sequence.seqlen_q + 1", _BOXES),
    fault("write.may_store_boxes", "last <= ctx.work.sequence.seqlen_q",
          "last < ctx.work.sequence.seqlen_q", "2q-ragged",
          reason="A tile that ends with its sequence is then written row by row: the same values "
                 "at the same places."),
    fault("two_q.columns_of_group", "mine = chunks[middle:] if chain else chunks[:middle]",
          "mine = chunks[:middle]", "1q"),
    fault("two_q.columns_of_group", "(accumulator(ctx, NUM_CHAINS - 1 - chain),)", "()", "1q",
          reason="The exchange of the halves implies that the other group has waited for its "
                 "last P V; the wait names the event that reading O depends on."),
    fault("write.first_position", "tile * ctx.spec.tile_positions", "0", "2q"),
    fault("columns.OutputColumns.staged_at",
          "column % width * ctx.spec.output_dtype.size // UNIT_BYTES", "0", "2q"),
    fault("two_q.accumulator", "ctx.columns.o(chain)", "ctx.columns.o(0)", "2q"),
    fault("write.output_factor", "result.total == Float32(0.0)", "result.total < Float32(0.0)",
          "2q-union 2q-bias 2q-page"),
    fault("write.output_factor", "factor * result.keep if ctx.spec.variant.sink else factor",
          "factor", "2q-split 2q-ragged 1q-ragged"),
    fault("write.output_factor", "ctx.spec.scales_values", "False", "2q-fp8"),
    fault("write.wait_for_output", "num_tiles - 1", "num_tiles", "2q"),
    fault("write.wait_for_output", "tmem.fence_after_thread_sync()", REMOVED, "2q"),
    fault("write.write_through_memory", "barriers.fence_proxy_async_shared()", REMOVED, "2q"),
    fault("write.write_through_memory",
          "barriers.named_barrier(blocks[i].barrier, WARP_GROUP_THREADS)", REMOVED, "2q"),
    fault("write.write_through_memory", "finish_stores()", REMOVED, "2q 2q-persistent"),
    fault("write.write_through_memory", "wait_for_output(ctx, blocks[i])", REMOVED, "2q"),
    fault("write.write_rows", "wait_for_output(ctx, blocks[i])", REMOVED, "2q-ragged"),
    fault("write.write_partial", "wait_for_output(ctx, blocks[i])", REMOVED, "2q-split"),
    fault("write.put_partial", "output_factor(ctx, result)", "Float32(1.0)", "2q-split"),
    fault("columns.OutputColumns.factors", "factor * weight", "weight", "1q"),
    fault("write.store_chunks", "sequence.first_query + first_position(ctx, columns.tile)",
          "first_position(ctx, columns.tile)", "2q-ragged"),
    fault("write.write_columns", "may_store_boxes(ctx, blocks[0].tile)",
          "ctx.work.num_key_tiles > 0", "2q-persistent " + _BOXES),
    fault("two_q.write_joined", "row.chain == 0", "row.chain == 1", "1q",
          reason="Both groups hold the same sum, so it does not matter which of them writes the "
                 "log-sum-exp."),
)
_DEPTH512: Final = (
    fault("write.may_store_boxes", "first_position(ctx, tile) + ctx.spec.tile_positions",
          "first_position(ctx, tile) + (ctx.spec.tile_positions - 1)", _PAIR_BOXES),
    fault("depth512.block_columns", "(block + 1) * width", "(block + 1) * width - 1", "d256 d512",
          reason="Chunks start at multiples of their width, of which the last is as far from the "
                 "end as it is wide: the range is the same."),
    fault("depth512.block_columns", "block * width", "0", "d512"),
    fault("columns.OutputColumns.staged_at", "self.starts[0] + piece", "piece", "d512"),
    fault("columns.OutputColumns.staged_at",
          "row.lane_half * ((self.starts[1] - self.starts[0]) // width)", "0", "d512"),
    fault("depth512.block_columns", "range(0, config.o_columns, PIECE_COLUMNS)",
          "range(0, config.o_columns - PIECE_COLUMNS, PIECE_COLUMNS)", "d256"),
    fault("depth512.block_columns", "ctx.mbars.consumer_o(block)", "ctx.mbars.consumer_o(0)",
          "d512"),
    fault("depth512.block_columns", "block * config.o_columns", "0", "d512"),
    fault("write.for_each_piece", "columns.starts[half]", "columns.starts[0]", "d512-persistent"),
    fault("write.accumulated_words", "output_factor(ctx, result)", "Float32(1.0)", "d256-ragged"),
)
_SPLITS: Final = (
    fault("cluster.Stage.partial_address", "self.row * self.plan.row_stride", "0", "1q-cluster"),
    fault("cluster.Stage.deposit_row_values", "i * (self.plan.row_values_stride // 2)", "0",
          "1q-cluster"),
    fault("cluster.deposit_joined",
          "wait_for_output(ctx, all_columns(ctx, NUM_CHAINS - 1 - row.chain))", REMOVED,
          "1q-cluster",
          reason="The exchange of the halves implies it, as with one CTA; the wait names the "
                 "event that reading O depends on."),
    fault("cluster.weigh", "top = max2(top, own)", REMOVED, "1q-cluster"),
    fault("cluster.weigh", "total == Float32(0.0)", "total < Float32(0.0)", "1q-cluster-causal"),
    fault("cluster.weigh", "mul(total, exp2_hardware(own - top))", "mul(total, Float32(1.0))",
          "1q-cluster-dense"),
    fault("cluster.write_log_sum_exp_once", "ctx.work.split == 0", "ctx.work.split == 2",
          "1q-cluster"),
    fault("cluster.sum_band", "column < end", "column < end - 8", "1q-cluster-dense 1q-cluster"),
    fault("cluster.store_blocks", "barriers.fence_proxy_async_shared()", REMOVED,
          "1q-cluster-dense"),
    fault("cluster.publish", "published.wait(0, of_cluster=True)", REMOVED, "1q-cluster"),
    fault("cluster.publish", "published.wait(0, of_cluster=True)", "published.wait(0)",
          "1q-cluster"),
    fault("combine.Splits.weight", "self.log_sum_exp(split) - highest", "self.log_sum_exp(split)",
          "2q-split"),
    fault("combine.Splits.columns", "Int64(split) * stride", "Int64(0)", "2q-split"),
    fault("combine.SplitCombine.highest", "max2(highest, splits.log_sum_exp(split))",
          "splits.log_sum_exp(split)", "2q-split-dense", nth=1),
    fault("combine.SplitCombine.write_columns", "weight != Float32(0.0)", "weight != Float32(2.0)",
          "2q-split"),
    fault("combine.SplitCombine.write_columns", "weight = weight * factor", REMOVED,
          "2q-split"),
    fault("combine.SplitCombine.write_columns", "column < self.spec.depth", "column < 32",
          "2q-split"),
    fault("combine.SplitCombine.write_log_sum_exp", "log2_hardware(total) * Float32(LN_2)",
          "log2_hardware(total)", "2q-split"),
)
_ROWS: Final = (
    fault("join_groups.join_groups", "barriers.named_barrier(JOIN.number, JOIN.threads)", REMOVED,
          "1q"),
    fault("join_groups.join_groups", "tmem.wait_stores()", REMOVED, "1q"),
    fault("join_groups.join_groups", "both.reverse()", REMOVED, "1q"),
    fault("join_groups.join_groups", "sum0 * weights[0] + sum1 * weights[1]", "sum0 + sum1", "1q"),
    fault("row_result.RowResult.of", "mul(row_max, row.scale)", "row_max", "2q"),
    fault("row_result.RowResult.of", "ctx.spec.probability.lift", "0", "2q-fp8", nth=1),
    fault("row_result.RowResult.of", "sink * Float32(LOG2_E)", "sink", "2q-ragged"),
    fault("row_result.RowResult.of", "ctx.work.split == 0", "ctx.work.split >= 0", "2q-split"),
    fault("row_result.RowResult.of", "fma(row_sum, keep, exp2_hardware(weight - highest))",
          "row_sum + exp2_hardware(weight - highest)", "2q-ragged 1q-ragged d256-ragged"),
    fault("row_result.RowResult.of", "row_sum == Float32(0.0)", "row_sum < Float32(0.0)",
          f"{_EXTREME}a_row_without_keys_has_its_sink[0.0--7016.0]"),
    fault("row_result.write_log_sum_exp", "row.position < ctx.work.sequence.seqlen_q",
          "row.position <= ctx.work.sequence.seqlen_q", _BOXES),
    fault("row_store.query_row", "work.sequence.first_query + row.position", "row.position",
          "2q-ragged"),
    fault("row_store.query_row", "Int64(work.batch) * args.seqlen_q + row.position",
          "Int64(row.position)", "2q-split-dense"),
    fault("row_store.is_query", "row.position < ctx.work.sequence.seqlen_q",
          "row.position <= ctx.work.sequence.seqlen_q", _BOXES),
    fault("row_store.log_sum_exp_address", "Int64(row.head) * args.extras.total_q", "Int64(0)",
          "2q-ragged"),
    fault("row_store.partial_row", "ctx.work.split * ctx.args.extras.partial_rows", "Int64(0)",
          "2q-split"),
)
OUTPUT: Final[tuple[Fault, ...]] = (*_TWO_Q, *_DEPTH512, *_SPLITS, *_ROWS)
