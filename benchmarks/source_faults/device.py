"""Faults in the device primitives and the files of the card."""

from __future__ import annotations

from typing import Final

from benchmarks.source_anchors import Fault
from benchmarks.source_faults.fault import REMOVED, fault

_HOLES = "tests/audit/test_holes.py::test_"
_RESIDUES = f"{_HOLES}every_remainder_of_the_distance_between_first_query_and_first_key"
_CAUSAL, _WINDOW = f"{_RESIDUES}[two-Q-tiles-causal]", f"{_RESIDUES}[two-Q-tiles-window]"
_LOW = f"{_HOLES}rows_whose_every_score_is_very_low_keep_their_mean[two-Q-tiles]"
_EXTREME = "tests/kernel/numerics/test_extreme_scores.py::test_"
_MATH: Final = (
    fault("mask.mask_columns", "{columns.stop}", "{columns.stop - 1}", _CAUSAL),
    fault("mask.mask_columns", "{columns[column]}", "{columns[column] - 1}", "2q"),
    fault("mask._mask_word", "{word.stop};", "{word.stop - 1};", _WINDOW),
    fault("mask._mask_word",
          "{operand(start)}, {first}, skip", "{operand(start)}, {first + 1}, skip",
          _WINDOW),
    fault("mask._word_of_span", "and.b32 bits, bits, low;", "or.b32 bits, bits, low;", "2q-window"),
    fault("mask._leading_bits", "max.s32 {register}, {register}, 0;",
          "max.s32 {register}, {register}, -1;", "2q-window 2q-union"),
    fault("mask.where_visible", "1 << column", "2 << column", "2q-both"),
    fault("epilogue.normalise_sum", "for values, factor in rest", "for values, factor in rest[1:]",
          "1q"),
    fault("epilogue.weighted_sum", "for values, factor in rest", "for values, factor in rest[1:]",
          "1q-cluster-dense"),
    fault("epilogue.store_row_units", "row // (_LINE_BYTES // swizzle.bytes)", "row",
          "1q-cluster-dense"),
    fault("epilogue.store_row_units", "unit_0 ^ unit * UNIT_BYTES", "unit_0 + unit * UNIT_BYTES",
          "2q"),
    fault("epilogue.store_row_units", "(unit_0 ^ unit * UNIT_BYTES) + byte_offset",
          "unit_0 ^ unit * UNIT_BYTES", "d256"),
    fault("exp2.exp2_pair_polynomial", "POLYNOMIAL[-2::-1]", "POLYNOMIAL[-2:0:-1]", "2q"),
    fault("exp2.exp2_pair_polynomial", 'rnd="rm"', 'rnd="rn"', "2q"),
    fault("exp2.exp2_pair_polynomial", "(max2(x[0], lowest), max2(x[1], lowest))", "x",
          "2q-ragged 2q-window"),
    fault("softmax.<module>", "SCALED_FLOOR = -(2.0**127)", "SCALED_FLOOR = -(2.0**8)", _LOW),
    fault("softmax.<module>", "LOWEST_MAX = -(2.0**126)", "LOWEST_MAX = -(2.0**8)", _LOW),
    fault("softmax.tile_max", "max3(chains[0], chains[1], chains[2])", "max2(chains[0], chains[1])",
          "2q"),
    fault("softmax.tile_max", "[start, *scores[: _MAX_CHAINS - 1]]",
          "[scores[0], *scores[: _MAX_CHAINS - 1]]", "2q"),
    fault("softmax.rescale_decision", "cute.arch.vote_any_sync(grew)", "grew", "2q",
          reason="Every thread then decides for its own row; rows that keep their maximum are "
                 "rescaled by 1, because the correction votes by warp itself."),
    fault("softmax.rescale_decision", "(row_max - new_max) * scale", "row_max - new_max", "2q"),
    fault("softmax.<module>", "LOWEST_MODIFIED_MAX = -MAX_FLOAT32",
          "LOWEST_MODIFIED_MAX = -(2.0**100)", f"{_EXTREME}finite_biases_hide_nothing[{{}}]"),
    fault("softmax.exact_scale", "power_below(scale)", "scale",
          f"{_EXTREME}large_scales[torch.bfloat16-64-sm_100a]"),
    fault("softmax.Exponent.of", "-row_max * scale", "-row_max", "2q"),
    fault("softmax.Exponent.of", "offset + Float32(probability.lift)", "offset", "2q-fp8"),
    fault("softmax.total", "low + high", "low", "2q"),
    fault("mma.signed_instruction", "Int32(bits | _NEGATE_A)", "Int32(bits)", "2q"),
    fault("mma.descriptor_address", "address & ((1 << SMEM_ADDRESS_BITS) - 1)", "address",
          "1q-cluster"),
    fault("rescale.rescale_columns", "batches.stop - column - width", "batches.stop - column",
          "2q-three",
          reason="The last batch is then as wide as the others and reaches into the padding of O, "
                 "whose columns no one stores."),
    fault("pack._pack_e4m3", "low, $2, $1", "low, $1, $2", "2q-fp8"),
    fault("score_math.tanh", "large = (Float32(1.0) - decay)", "large = (Float32(1.001) - decay)",
          "2q-function"),
    fault("score_math.distance", "absolute(Float32(row - kv_idx))", "Float32(row - kv_idx)",
          "2q-function"),
)
_MEMORY: Final = (
    fault("clean.zero_rows", "num_rows - row - lane // lanes_per_row", "num_rows - row",
          "2q-ragged 1q-ragged d256-ragged"),
    fault("clean.zero_rows", "line + row * row_bytes", "line", "2q-ragged"),
    fault("clean.publish_to_tensor_cores", "cute.arch.fence_proxy('async.shared', space='cluster')",
          REMOVED, "2q-ragged"),
    fault("gmem.load_f32_below", "setp.gt.s32 inside, $2, {index}",
          "setp.ge.s32 inside, $2, {index}", "2q-bias 2q-both d256-bias"),
    fault("gmem.store_words", "{$2, $3, $4, $5}", "{$2, $3, $5, $4}", "2q-ragged"),
    fault("gmem.AuxTensor.address_of", "address + Int64(i) * stride", "address + Int64(i) * 4",
          "2q-function pair-page"),
    fault("dsmem.arrive_in_all", "bar.warp.sync -1;", "", "1q-cluster"),
    fault("tma.finish_stores", "cute.arch.cp_async_bulk_wait_group(0)", REMOVED,
          "2q-persistent d256-persistent 2q"),
    fault("pair.leader_address", "address_in(address, LEADER)", "address_in(address, PEER)",
          "pair"),
    fault("pair.peer_address", "address_in(address, PEER)", "address_in(address, LEADER)",
          "pair-page"),
    fault("pair.commit_both", "BOTH_CTAS", "1", "pair"),
)
_CARD: Final = (
    fault("cursor.RingState.after", "before(phase) if producer else phase", "phase",
          "2q-persistent"),
    fault("cursor.RingState.step", "self.phase ^ 1", "self.phase", "2q"),
    fault("cursor.next_slots", "k = v.step()", "k = k.step()", "2q-mla pair 2q"),
    fault("blocks.PairBarriers.announce", "CTA_GROUP * num_bytes", "num_bytes", "pair"),
    fault("blocks.PairBarriers.arrive_at_leader", "release=release", "release=False", "d256"),
    fault("blocks.Barrier.wait", "parity(step)", "parity(0)", "2q-persistent"),
    fault("role_pipeline.RolePipeline.acquire", "cluster=of_pair", "cluster=False", "d256"),
    fault("role_pipeline.RolePipeline.release", "self.plan.cta_group == 1",
          "self.plan.cta_group >= 1", "pair"),
    fault("pipelines.TMAConsumerPipeline.get",
          "umma.descriptor_address(self.smem) if self.in_cluster else self.smem", "self.smem",
          "1q-cluster"),
    fault("tma.load_query_chunks", "i * size", "0", "2q"),
    fault("tma.load_key_chunks", "i * size", "0", "2q"),
    fault("tma.load_key_chunks", "piece.first_column + column", "column", "pair"),
    fault("tma.load_key_chunks", "(where[0], 0, where[2])", "where", "2q-rope-heads"),
)
DEVICE: Final[tuple[Fault, ...]] = (*_MATH, *_MEMORY, *_CARD)
