from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.plan.barriers.answers import PAIR_BYTES, STRETCH_BYTES
from fa4_cute.plan.config.tuning import Tuning
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import CTA_GROUP, WARP_GROUP_THREADS
from fa4_cute.plan.facts.tensor_map_bits import MAX_BOX
from fa4_cute.plan.launch.launch import plan_launch
from fa4_cute.plan.launch.tiles import AttentionSizes
from fa4_cute.plan.masks.masks import CAUSAL, DenseBiasMask, SlidingWindowMask
from fa4_cute.plan.memory.depth512_smem import Depth512SMemLayout
from fa4_cute.plan.spec.depth512_spec import SMALLEST_DEPTH, Depth512Spec
from fa4_cute.plan.spec.extras import ScoreMod
from fa4_cute.plan.spec.register_tuning import ScoreLoads
from fa4_cute.plan.spec.schedule import DEPTH512_SCHEDULE
from fa4_cute.plan.spec.tensor_maps import OperandLayout, key_box, query_box, tensor_maps
from fa4_cute.plan.spec.variant import Partition, Scheduler, Variant

BIAS = DenseBiasMask(0) & CAUSAL
OF_TERMS = BIAS | SlidingWindowMask(20, 40)
MOD = ScoreMod("one", "a", (1,))
SPLIT: dict[str, Any] = {"partition": Partition.WORKSPACE}
IN_PARTS: dict[str, Any] = {"scheduler": Scheduler.PERSISTENT, **SPLIT}
DEPTHS = st.integers(25, 64).map(lambda units: 8 * units)
SPECS = st.builds(
    Depth512Spec.for_attention,
    st.sampled_from((DType.BF16, DType.FP16)),
    DEPTHS,
    group=st.integers(1, 64),
    causal=st.booleans(),
    return_lse=st.booleans(),
    look_ahead=st.booleans(),
)


def test_issue_order_with_and_without_look_ahead() -> None:
    spec = Depth512Spec.for_attention(DType.BF16, 512)
    order = ["".join(map(str, step)) for step in spec.issue_order(4)]
    assert order == ["S0", "S1", "O0", "S2", "O1", "S3", "O2", "O3"]
    spec = Depth512Spec.for_attention(DType.BF16, 512, look_ahead=False)
    order = ["".join(map(str, step)) for step in spec.issue_order(3)]
    assert order == ["S0", "O0", "S1", "O1", "S2", "O2"]
    assert list(spec.issue_order(0)) == []


@given(SPECS, st.integers(0, 20))
def test_every_tile_is_issued_once_and_scores_come_first(spec: Depth512Spec, tiles: int) -> None:
    order = list(spec.issue_order(tiles))
    assert sorted(order) == sorted((kind, tile) for kind in "SO" for tile in range(tiles))
    for kind in "SO":
        assert all(a < b for a, b in pairwise(tile for k, tile in order if k == kind))
    ahead = [order.index(("O", tile)) - order.index(("S", tile)) for tile in range(tiles)]
    assert all(distance > 0 for distance in ahead)
    # Two score buffers: S of tile n + 2 overwrites S of tile n, whose P V must have been issued.
    for tile in range(tiles - 2):
        assert order.index(("O", tile)) < order.index(("S", tile + 2))


def test_exponentials_follow_from_the_free_choice() -> None:
    spec = replace(Depth512Spec.for_attention(DType.BF16, 256), tuning=Tuning(emulated=28))
    assert (spec.exp2_plan.num_pairs, spec.exp2_plan.count) == (64, 28)


@settings(deadline=None)
@given(SPECS)
def test_boxes_fill_the_tiles_that_the_barriers_expect(spec: Depth512Spec) -> None:
    config, layout = spec.config, Depth512SMemLayout(spec.config)
    size = config.qkv_dtype_size
    width, group, positions, *_ = query_box(spec)
    assert group * positions == config.BM
    assert width * config.BM * size == layout.chunk_bytes
    chunks = config.BK0 // width
    assert chunks * layout.chunk_bytes == layout.q_stage_bytes
    width, rows, *_ = key_box(spec)
    assert rows == config.k_rows_per_cta() == config.BK1
    assert config.v_cols_per_cta() == config.BK0
    assert chunks * width * rows * size == layout.kv_stage_bytes
    assert max(*query_box(spec), *key_box(spec)) <= MAX_BOX
    assert CTA_GROUP * (layout.q_stage_bytes + layout.kv_stage_bytes) < 1 << 20  # mbarrier tx-count


@settings(deadline=None)
@given(SPECS, st.integers(1, 3), st.integers(1, 700), st.integers(1, 3))
def test_launch_covers_every_row_with_pairs(
    spec: Depth512Spec, batch: int, seqlen_q: int, kv_heads: int
) -> None:
    heads = kv_heads * spec.config.group
    plan = plan_launch(spec, AttentionSizes(batch, seqlen_q, 77, heads, kv_heads), 0.1)
    assert plan.cluster == (CTA_GROUP, 1, 1)
    assert plan.grid[0] % CTA_GROUP == 0
    x, y, z = plan.grid
    # Few keys: the heads of a sequence are one section, which causal grids have along x.
    tiles, scheduled = (y, x // CTA_GROUP) if spec.heads_first else (x // CTA_GROUP, y)
    covered = tiles * spec.config.PairBM_eff()
    assert covered >= seqlen_q > covered - spec.config.PairBM_eff()
    assert (scheduled, z) == (kv_heads if spec.config.fuse_gqa else heads, batch)
    assert plan.block[0] % WARP_GROUP_THREADS == 0
    assert plan.smem_bytes == spec.config.smem_used
    q = OperandLayout.contiguous((batch, seqlen_q, heads, spec.config.depth))
    k = OperandLayout.contiguous((batch, 77, kv_heads, spec.config.depth))
    maps = tensor_maps(spec, q, k, k, q)
    assert [m.box for m in maps] == [query_box(spec), key_box(spec), key_box(spec), query_box(spec)]


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8_E4M3])
@pytest.mark.parametrize("head_dim", [256, 512])
def test_a_persistent_pair_keeps_its_tiles(dtype: DType, head_dim: int) -> None:
    """Same tiles, so same bits; a barrier more costs a slot only where barriers limit the ring."""
    plain = Depth512Spec.for_attention(dtype, head_dim)
    variant = Variant(scheduler=Scheduler.PERSISTENT)
    spec = Depth512Spec.for_attention(dtype, head_dim, variant=variant)
    assert spec.config.persistent
    assert (spec.config.BM, spec.config.BN) == (plain.config.BM, plain.config.BN)
    lost = plain.config.num_kv_stages - spec.config.num_kv_stages
    assert lost == (1 if dtype is DType.FP8_E4M3 else 0)
    assert spec.layout_o_exceeds_q == (dtype is DType.FP8_E4M3)
    assert spec.name == plain.name + "_persistent"


@pytest.mark.parametrize("scheduler", Scheduler)
@pytest.mark.parametrize("plain", [True, False])
def test_plain_persistent_pairs_and_those_with_parts_write_row_by_row(
    scheduler: Scheduler, plain: bool
) -> None:
    """Of parts the softmax writes O, of which it knows the sink and the log-sum-exp."""
    variant = Variant(scheduler=scheduler, mask=CAUSAL, sink=not plain)
    spec = Depth512Spec.for_attention(DType.BF16, 256, variant=variant)
    streams = scheduler is Scheduler.STREAM_K
    assert spec.correction_writes == (plain and variant.is_persistent and not streams)
    assert spec.writes_rows == (spec.correction_writes or streams)
    names = [barrier.name for barrier in spec.config.misc_mbars.specs]
    assert ("Q_read" in names) == spec.writes_rows
    assert ("stored" in names) == (variant.is_persistent and not spec.correction_writes)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8_E4M3])
@pytest.mark.parametrize("head_dim", [256, 512])
def test_a_pair_with_parts_keeps_its_tiles_and_knows_its_stretch(
    dtype: DType, head_dim: int
) -> None:
    plain = Depth512Spec.for_attention(dtype, head_dim).config
    variant = Variant(scheduler=Scheduler.STREAM_K)
    spec = Depth512Spec.for_attention(dtype, head_dim, variant=variant)
    assert (spec.config.BM, spec.config.BN) == (plain.BM, plain.BN)
    assert spec.config.num_kv_stages in (plain.num_kv_stages, plain.num_kv_stages - 1)
    assert (plain.stretch_bytes, spec.config.stretch_bytes) == (0, STRETCH_BYTES)
    table = Depth512SMemLayout(spec.config).table
    assert table["stretch"].size == STRETCH_BYTES
    assert table["stretch"].start % PAIR_BYTES == 0
    assert spec.schedule.register_sum == DEPTH512_SCHEDULE.register_sum
    assert spec.may_stream_keys


@settings(deadline=None)
@given(SPECS)
def test_name_is_a_legal_entry_and_a_thread_keeps_all_its_scores(spec: Depth512Spec) -> None:
    assert spec.name.isidentifier()
    assert ("in_turn" in spec.name) != spec.look_ahead
    assert spec.column_plan.resident == spec.config.s_columns
    accumulator = spec.config.s_columns * WARP_GROUP_THREADS
    assert accumulator == spec.config.BM * spec.config.BN


@pytest.mark.parametrize(
    ("dtype", "head_dim", "message"),
    [
        (DType.BF16, SMALLEST_DEPTH - 1, "nearest supported choice: head_dim=200"),
        (DType.BF16, 204, "depth=208"),
        (DType.FP16, 520, "depth=512"),
        (DType.FP8_E4M3, 200, "depth=208"),
    ],
)
def test_refusals_name_the_nearest_choice(dtype: DType, head_dim: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Depth512Spec.for_attention(dtype, head_dim)


@pytest.mark.parametrize(
    ("head_dim", "options", "under_way"),
    [(512, SPLIT, 8), (512, {}, 16), (256, SPLIT, 16), (512, IN_PARTS, 2)],
)
def test_parts_of_the_widest_pair_load_half_as_much_at_a_time(
    head_dim: int, options: dict[str, Any], under_way: int
) -> None:
    for mask, expected in ((OF_TERMS, under_way), (BIAS, None)):
        variant = Variant(mask, score_mod=MOD, **options)
        loads = Depth512Spec.for_attention(DType.BF16, head_dim, variant=variant).score_loads
        plain = ScoreLoads.of(variant)
        assert loads == (plain if expected is None else replace(plain, under_way=expected))
