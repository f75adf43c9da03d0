"""Where a thread finds its pieces of O and stages them: every column once, in its place."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from fa4_cute.output.columns import OutputColumns
from fa4_cute.output.depth512 import block_columns
from fa4_cute.output.join_groups import JoinedRow
from fa4_cute.output.two_q import all_columns, columns_of_group
from fa4_cute.plan.barriers.chains import NUM_CHAINS
from fa4_cute.plan.compute.depth512_lanes import first_output
from fa4_cute.plan.config.reduce_scatter import PIECE_COLUMNS
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import UNIT_BYTES
from fa4_cute.plan.memory.depth512_smem import Depth512SMemLayout
from fa4_cute.plan.memory.smem_layout import AttentionSMemLayout
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.smem import Depth512AttentionSMem, SM100AttentionSMem
from fa4_cute.work.context import KernelContext
from fa4_cute.work.depth512 import Depth512Context

NOTHING: Any = None
WEIGHTS: Any = (0.25, 0.75)
JOINED = JoinedRow(NOTHING, NOTHING, WEIGHTS)


def of_kernel(head_dim: int, num_qo: int) -> KernelContext:
    spec = KernelSpec.for_attention(DType.BF16, head_dim, num_qo=num_qo)
    smem = SM100AttentionSMem(0, AttentionSMemLayout(spec.config))
    return KernelContext(spec, NOTHING, NOTHING, smem, NOTHING, 0)


def of_pair(head_dim: int) -> Depth512Context:
    spec = Depth512Spec.for_attention(DType.BF16, head_dim)
    smem = Depth512AttentionSMem(0, Depth512SMemLayout(spec.config))
    return Depth512Context(spec, NOTHING, NOTHING, smem, NOTHING, 0, 0)


def staged(ctx: Any, columns: OutputColumns, lane_half: int) -> dict[int, tuple[int, int]]:
    """Return column of O -> (chunk address, unit) of every piece of one thread."""
    row: Any = SimpleNamespace(lane_half=lane_half)
    start = columns.starts[lane_half]
    return {start + piece: columns.staged_at(ctx, row, piece) for piece in columns.pieces}


def check_places(ctx: Any, places: dict[int, tuple[int, int]], tile: int) -> None:
    width, size = ctx.spec.output_elems, ctx.spec.output_dtype.size
    for column, (chunk, unit) in places.items():
        assert chunk == ctx.output_chunk(tile, column // width)
        assert unit == column % width * size // UNIT_BYTES


@pytest.mark.parametrize("head_dim", [64, 80, 128, 192])
@pytest.mark.parametrize("chain", range(NUM_CHAINS))
def test_two_query_tiles_have_all_columns_each(head_dim: int, chain: int) -> None:
    ctx = of_kernel(head_dim, num_qo=2)
    columns = all_columns(ctx, chain)
    assert columns.tile == chain
    assert [a.start for a in columns.accumulators] == [ctx.columns.o(chain).start]
    assert columns.pending == columns.accumulators
    assert columns.factors(NOTHING) == (NOTHING,)
    places = staged(ctx, columns, 0)
    assert set(range(0, head_dim, PIECE_COLUMNS)) <= set(places)
    check_places(ctx, places, chain)


@pytest.mark.parametrize("head_dim", [64, 80, 128, 192])
def test_groups_of_one_query_tile_divide_the_columns(head_dim: int) -> None:
    ctx = of_kernel(head_dim, num_qo=1)
    groups = [columns_of_group(ctx, chain, JOINED) for chain in range(NUM_CHAINS)]
    chunks = Counter(chunk for group in groups for chunk in group.chunks)
    assert chunks == Counter(range(0, head_dim, ctx.spec.output_elems))
    pieces = Counter(piece for group in groups for piece in group.pieces)
    assert set(pieces.values()) == {1}
    for chain, group in enumerate(groups):
        assert [a.chain for a in group.accumulators] == [0, 1]
        assert [a.chain for a in group.pending] == [1 - chain]
        factor: Any = 2.0
        assert group.factors(factor) == (0.5, 1.5)
        check_places(ctx, staged(ctx, group, 0), 0)


@pytest.mark.parametrize("head_dim", [200, 256, 320, 512])
def test_blocks_of_a_pair_cover_the_head_dim(head_dim: int) -> None:
    ctx = of_pair(head_dim)
    config = ctx.spec.config
    blocks = [block_columns(ctx, block) for block in range(config.num_o_blocks)]
    chunks = [chunk for block in blocks for chunk in block.chunks]
    assert chunks == list(range(0, head_dim, ctx.spec.output_elems))
    held: Counter[int] = Counter()
    for number, block in enumerate(blocks):
        assert len(block.starts) == (2 if config.split_o else 1)
        (own,) = block.accumulators
        assert own.start == ctx.columns.o_lo().start + number * config.o_columns
        assert own.done == ctx.mbars.consumer_o(number).plan
        for half in range(len(block.starts)):
            assert block.starts[half] == first_output(config, number, half)
            places = staged(ctx, block, half)
            held.update(places.keys())
            check_places(ctx, places, 0)
    assert held == Counter(range(0, config.padded_depth, PIECE_COLUMNS))
