"""Grid and scalars of a launch against the tile map and exact arithmetic."""

import math
from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.launch.launch import SMALLEST_SCALE, LaunchPlan, plan_launch
from fa4_cute.plan.launch.tiles import AttentionSizes
from fa4_cute.plan.masks.masks import CAUSAL
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.params import KERNEL_PARAMS
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import KEPT, WORK_COUNTS, Partition, Scheduler, Variant


def launch(group: int = 1, scale: float = 0.125, **sizes: int) -> LaunchPlan:
    spec = KernelSpec.for_attention(DType.BF16, 128, group=group)
    values = {"batch": 2, "seqlen_q": 513, "seqlen_k": 100, "num_q_heads": 8, "num_kv_heads": 8}
    return plan_launch(spec, AttentionSizes(**{**values, **sizes}), scale)


def test_one_cta_per_tile_head_and_batch() -> None:
    plan = launch()
    assert plan.grid == (3, 8, 2)
    assert plan.block == (512, 1, 1)
    assert plan.smem_bytes == 230596


def test_a_fused_group_turns_heads_into_rows() -> None:
    plan = launch(group=4, num_kv_heads=2)
    assert plan.grid == (math.ceil(513 / 64), 2, 2)


def test_an_unfused_group_keeps_a_cta_per_query_head() -> None:
    assert launch(group=3, num_q_heads=6, num_kv_heads=2).grid == (3, 6, 2)


def test_scale_is_in_powers_of_two() -> None:
    assert launch(scale=0.5).scalars["scale_log2"] == pytest.approx(0.5 / math.log(2))
    assert launch(scale=-0.5).scalars["scale_log2"] == pytest.approx(-0.5 / math.log(2))
    assert launch(scale=0.0).scalars["scale_log2"] == SMALLEST_SCALE


def test_empty_outputs_launch_nothing() -> None:
    assert launch(seqlen_q=0).is_empty
    assert launch(batch=0).is_empty
    assert not launch(seqlen_k=0).is_empty


@pytest.mark.parametrize("num_splits", [1, 3])
@pytest.mark.parametrize(
    ("pairs", "num_sms", "ctas"), [(False, 7, 7), (False, 1, 1), (True, 7, 6), (True, 1, 2)]
)
def test_a_persistent_grid_has_a_cta_or_pair_for_every_sm_or_two(
    pairs: bool, num_sms: int, ctas: int, num_splits: int
) -> None:
    partition = Partition.WORKSPACE if num_splits > 1 else Partition.NONE
    variant = Variant(scheduler=Scheduler.PERSISTENT, partition=partition)
    specify = Depth512Spec if pairs else KernelSpec
    spec = specify.for_attention(DType.BF16, 256 if pairs else 128, variant=variant)
    plan = plan_launch(spec, AttentionSizes(2, 513, 100, 8, 8), 0.1, num_splits, num_sms)
    assert plan.grid == (ctas, 1, 1)
    # 513 queries are three query tiles of 256, over one CTA or two.
    assert plan.scalars["num_work"] == 3 * 8 * 2 * num_splits
    assert (plan.scalars["num_heads"], plan.scalars["num_sequences"]) == (8, 2)
    few = plan_launch(spec, AttentionSizes(1, 1, 100, 1, 1), 0.1, num_splits, 1000)
    assert few.grid == (num_splits * spec.cluster_size, 1, 1)


def test_the_splits_of_a_query_tile_are_a_cluster() -> None:
    variant = Variant(partition=Partition.CLUSTER, num_partitions=4)
    spec = KernelSpec.for_attention(DType.BF16, 128, variant=variant)
    sizes = AttentionSizes(2, 129, 100, 8, 8)
    plan = plan_launch(spec, sizes, 1.0, num_splits=4)
    assert (plan.grid, plan.cluster) == ((2 * 4, 8, 2), (4, 1, 1))
    with pytest.raises(ValueError, match=r"num_splits=2: the kernel .* a cluster of 4"):
        plan_launch(spec, sizes, 1.0, num_splits=2)


def test_only_fp8_kernels_have_a_value_scale() -> None:
    fp8, bf16 = (KernelSpec.for_attention(t, 128) for t in (DType.FP8_E4M3, DType.BF16))
    assert fp8.extras.items() == (("value_scale", "f32"),)
    assert bf16.params.names == KERNEL_PARAMS.names


@pytest.mark.parametrize(
    ("change", "message"),
    [({"num_kv_heads": 4}, "num_kv_heads=4"), ({"scale": math.nan}, "softmax_scale=nan"),
     ({"seqlen_k": 2**31 - 1}, "seqlen_k=2147483647"),
     ({"scale": math.inf}, "softmax_scale=inf"), ({"batch": 65536}, "batch=65536"),
     ({"num_q_heads": 65536, "num_kv_heads": 65536}, "heads_q=65536"),
     ({"seqlen_q": 2**31 - 1}, "seqlen_q=2147483647")],
)  # fmt: skip
def test_refusals_name_the_value(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        launch(**change)


@pytest.mark.parametrize("pairs", [False, True])
def test_a_dynamic_grid_has_a_cta_or_pair_for_every_query_tile(pairs: bool) -> None:
    variant = Variant(CAUSAL, scheduler=Scheduler.DYNAMIC)
    specify = Depth512Spec if pairs else KernelSpec
    spec = specify.for_attention(DType.BF16, 256 if pairs else 128, variant=variant)
    plan = plan_launch(spec, AttentionSizes(2, 513, 100, 8, 8), 0.1, 1, 4)
    assert plan.grid == (48 * (1 + pairs), 1, 1)
    assert [plan.scalars[name] for name in WORK_COUNTS] == [48, 16, 1]
    # Heads whose keys and values fit the L2 together are a section: 32 MiB are one of 65,536 keys.
    long = plan_launch(spec, AttentionSizes(2, 513, 1 << (15 if pairs else 16), 8, 8), 0.1, 1, 4)
    assert [long.scalars[name] for name in WORK_COUNTS] == [48, 1, 16]
    assert plan.scalars[KEPT] == 3
    assert long.scalars[KEPT] == 0  # 63,000 keys are seen by all
    packed = replace(variant, ragged_q=True, ragged_k=True)
    spec = specify.for_attention(DType.BF16, 256 if pairs else 128, variant=packed)
    of_packed = plan_launch(spec, AttentionSizes(2, 513, 100, 8, 8), 0.1, 1, 4)
    assert of_packed.scalars == plan.scalars


def test_a_persistent_grid_counts_its_query_tiles_in_31_bits() -> None:
    variant = Variant(scheduler=Scheduler.PERSISTENT)
    spec = KernelSpec.for_attention(DType.BF16, 128, variant=variant)
    most = AttentionSizes(65535, 256, 1, 32768, 32768)
    assert plan_launch(spec, most, 1.0).scalars["num_work"] == 65535 * 32768
    with pytest.raises(ValueError, match=r"^batch=65535, heads_q=32769, seqlen_q=256: .*='tile'$"):
        plan_launch(spec, AttentionSizes(65535, 256, 1, 32769, 32769), 1.0)
    other = KernelSpec.for_attention(DType.BF16, 128)
    assert plan_launch(other, AttentionSizes(65535, 256, 1, 32769, 32769), 1.0).grid[1] == 32769


@pytest.mark.parametrize(
    ("group", "keys", "blocks"),
    # 128 queries to a tile, 512 bytes of K and V to a key: 32 MiB are 65,536 keys of all heads
    [(1, 4096, (16, 32, 2)), (1, 8192, (8, 32, 4)), (1, 16384, (4, 32, 8)), (1, 10**6, (1, 32, 32)),
     (4, 16384, (4, 128, 2)), (3, 16384, (12, 32, 2)), (3, 32768, (6, 32, 4))],
)  # fmt: skip
def test_sections_of_heads_start_their_longest_tiles_first(
    group: int, keys: int, blocks: tuple[int, int, int]
) -> None:
    spec = SM90Spec.for_attention(DType.BF16, 128, group=group, causal=True)
    heads = 16 if group != 3 else 12
    sizes = AttentionSizes(2, 4096, keys, heads, heads // group)
    assert plan_launch(spec, sizes, softmax_scale=1.0).grid == blocks


@pytest.mark.parametrize(
    ("head_dim", "keys", "blocks"),
    # 256 or 128 queries to a pair, 1 or 2 KiB of K and V to a key: 32 MiB are 32,768 or 16,384
    [(256, 4096, (16, 16, 2)), (256, 16384, (4, 16, 8)), (256, 32768, (2, 16, 16)),
     (512, 4096, (8, 32, 4)), (512, 10**5, (2, 32, 16))],
)  # fmt: skip
def test_pairs_start_the_longest_tiles_of_a_section_first(
    head_dim: int, keys: int, blocks: tuple[int, int, int]
) -> None:
    """Two CTAs along x for every head."""
    spec = Depth512Spec.for_attention(DType.BF16, head_dim, causal=True)
    plan = plan_launch(spec, AttentionSizes(2, 4096, keys, 8, 8), softmax_scale=1.0)
    assert (plan.grid, plan.cluster) == (blocks, (2, 1, 1))


@pytest.mark.parametrize(
    "variant",
    [Variant(), Variant(CAUSAL, scheduler=Scheduler.PERSISTENT),
     Variant(CAUSAL, partition=Partition.WORKSPACE)],
)  # fmt: skip
def test_other_grids_have_their_query_tiles_along_x(variant: Variant) -> None:
    assert not SM90Spec.for_attention(DType.BF16, 128, variant=variant).heads_first


def test_more_query_tiles_than_a_grid_has_along_y_are_refused() -> None:
    spec = SM90Spec.for_attention(DType.BF16, 128, causal=True)
    sizes = AttentionSizes(1, 128 * 65536, 128, 1, 1)
    with pytest.raises(ValueError, match=r"^seqlen_q=8388608: 65536 query tiles.*'persistent'$"):
        plan_launch(spec, sizes, softmax_scale=1.0)
