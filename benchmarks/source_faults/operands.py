"""Faults in what the roles read: pages, scales per token, stale values, and scores."""

from __future__ import annotations

from typing import Final

from benchmarks.source_anchors import Fault
from benchmarks.source_faults.fault import REMOVED, fault

OPERANDS: Final[tuple[Fault, ...]] = (
    fault("paging.page_of_key", "seqlen_k - 1", "seqlen_k", "2q-page"),
    fault("paging.page_of_key", "DEVICE.select(key < seqlen_k, page, OUTSIDE_PAGE)", "page",
          "2q-page 1q-page d256-page",
          reason="A page that holds no key of the sequence is read again instead of zeros: its "
                 "scores are masked, and its rows of V are cleaned."),
    fault("paging.page_of_key", "Int64(ctx.work.batch) * extras.pages_per_row", "Int64(0)",
          "2q-page"),
    fault("paging.place_in_cache", "key % ctx.spec.variant.page_size", "key", "2q-page"),
    fault("paging.place_in_map", "key + sequence.first_key", "key", "2q-ragged"),
    fault("paging.place_in_map", "sequence.key_batch", "Int32(0)", "2q"),
    fault("paging.for_each_box", "first + row", "first", "2q-page"),
    fault("stale_values.slot_chunks", "i * ctx.spec.key_rows * span", "0", "2q-rope-persistent"),
    fault("stale_values.slot_chunks",
          "[*chunks, *(pair.peer_address(chunk) for chunk in chunks)]", "chunks", "pair-page"),
    fault("stale_values.clean_values", "ctx.work.key_tile(tile) * config.BN + first_row",
          "tile * config.BN + first_row", "2q-window"),
    fault("stale_values.clean_values", "valid < num_rows", "valid < num_rows - 1", "2q-ragged"),
    fault("stale_values.clean_values", "DEVICE.maximum(valid, 0)", "valid + 1", "2q-ragged"),
    fault("stale_values.clean_values", "clean.publish_to_tensor_cores()", REMOVED, "2q-ragged"),
    fault("scores.visible", "own[0].stop, warp[0].stop", "own[0].stop, own[0].stop", "2q-ragged",
          reason="Every thread then skips by its own row instead of the warp's first: the branch "
                 "may diverge, which costs time, and the scores are the same."),
    fault("scores.ColumnModifier.of", "tile.row.magnitude * Float32(LN_2)", "tile.row.magnitude",
          "2q-function"),
    fault("scores.ColumnModifier.binary", "saturating_mul2((low, high), (log2_e, log2_e))",
          "(low, high)", "2q-function"),
    fault("scores.ColumnModifier.binary", "saturating_mul2((low, high), (log2_e, log2_e))",
          "(low * log2_e, high * log2_e)",
          "tests/kernel/numerics/test_extreme_scores.py::test_finite_biases_hide_nothing[{}]"),
    fault("scores.ColumnModifier.changed", "at_most(tile.first_key + column, self.last_key)",
          "tile.first_key + column", "2q-function pair-page"),
    fault("scores.ColumnModifier.changed", "(tile.ctx.work.batch, tile.row.head, tile.row.query)",
          "(tile.ctx.work.batch, tile.row.head, tile.row.position)", "2q-query"),
    fault("scores.RowBias.of", "ctx.work.batch", "Int32(0)", "2q-bias"),
    fault("scores.RowBias.of", "gmem.word_address(first, tile.first_key)", "first", "2q-bias"),
    fault("scores.RowBias.added_to", "(column - first_column) % WORD_COLUMNS",
          "column % WORD_COLUMNS", "2q-both d256-bias",
          reason="Columns are taken in groups that start at multiples of 32, so both remainders "
                 "are the same number."),
    fault("scores.RowBias.added_to", "max2(best, added)", "added", "2q-both"),
    fault("scores.RowBias.added_to", "where_visible(reduce(or_, self.words), bit, score + best)",
          "score + best", "2q-both-ragged"),
    fault("scores.scores_and_max", "softmax_math.tile_max(values, row_max)",
          "softmax_math.tile_max(values, values[0])", "2q"),
    fault("token_scales.keep_query_scale", "ctx.work.num_key_tiles > 0",
          "ctx.work.num_key_tiles >= 0", "2q-tokens d256-tokens"),
    fault("token_scales.query_scale_source", "sequence.first_query + row.query", "row.query",
          "2q-tokens"),
    fault("token_scales.query_scale_source", "Int64(ctx.work.batch) * args.seqlen_q + row.query",
          "Int64(row.query)", "2q-tokens-dense"),
    fault("token_scales.key_scale_source", "DEVICE.minimum(key, sequence.seqlen_k - 1)", "key",
          "2q-tokens"),
    fault("token_scales.key_scale_source", "Int64(entry) * heads + ctx.work.kv_head",
          "Int64(entry) * heads", "2q-tokens-dense"),
    fault("token_scales.key_scale_source",
          "packed_start(sequence.first_key, ctx.work.batch) + key",
          "sequence.first_key + key", "pair-tokens"),
    fault("token_scales.fill_scale_buffer", "ring.producer_acquire(state)", REMOVED, "pair-tokens"),
    fault("token_scales.scale_buffer", "slot * ctx.smem.layout.k_scale_stride_bytes", "0",
          "2q-tokens"),
    fault("token_scales.query_scale_address", "row.scale_slot * DType.FP32.size", "0", "2q-tokens"),
    fault("token_scales.wait_for_scales", "first * DType.FP32.size", "0", "d512-tokens"),
    fault("token_scales.wait_for_scales", "ctx.mbars.scale_ring().consumer_wait(state, 0)", REMOVED,
          "d256-tokens"),
    fault("token_scales.release_scales", "ctx.mbars.scale_ring().consumer_arrive("
          "buffer_of(ctx, tile, producer=False), 0)", REMOVED, "2q-tokens"),
    fault("token_scales.scaled", "mul2(pair, (row, row))", "pair", "2q-tokens"),
    fault("token_scales.scaled", "column * DType.FP32.size", "0", "2q-tokens"),
)
