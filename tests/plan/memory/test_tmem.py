from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import TMEM_COLUMNS
from fa4_cute.plan.facts.regions import Region
from fa4_cute.plan.memory.tmem import AttentionTmem, Depth512Tmem, TmemMap
from tests.plan.strategies import configs, depth512_configs


@pytest.mark.parametrize(
    ("config", "starts", "end"),
    [
        (FA4Config(8, 1, 64, 64), (0, 192, 384, 448), 512),
        (FA4Config(8, 1, 64, 64, page_size=128), (0, 128, 256, 320), 384),
        (FA4Config(8, 1, 72, 72), (0, 128, 256, 384), 512),
        (FA4Config(8, 1, 128, 128), (0, 128, 256, 384), 512),
        (FA4Config(8, 1, 192, 192), (0, 64, 128, 320), 512),
        (FA4Config(8, 1, 192, 128, is_mla=True, rope_dtype=DType.BF16), (0, 128, 256, 384), 512),
    ],
)
def test_column_map(config: FA4Config, starts: tuple[int, ...], end: int) -> None:
    tmem = AttentionTmem.of(config)
    assert tuple(tmem[name].start for name in ("S0", "S1", "O0", "O1")) == starts
    assert tmem.used == end


@settings(deadline=None)
@given(configs())
def test_p_and_lse_stay_inside_their_own_s(config: FA4Config) -> None:
    tmem = AttentionTmem.of(config)
    for chain in (0, 1):
        p, s = tmem.borrow_s_as_p(chain), tmem.s(chain)
        assert s.start == p.start
        assert p.end <= s.end
        assert p.size * 4 == config.BN * config.qkv_dtype_size
        assert tmem.borrow_s_for_lse(chain).end <= s.end
        assert not p.overlaps(tmem.s(1 - chain))
        assert not any(p.overlaps(tmem.o(i)) for i in (0, 1))


def test_crossed_p_lies_in_the_other_s() -> None:
    config = FA4Config.for_attention(DType.BF16, 128)
    tmem = AttentionTmem.of(config)
    assert config.crosses
    assert [tmem.borrow_s_as_p(c).start for c in (0, 1)] == [tmem.s(c).start for c in (1, 0)]
    for other in (replace(config, num_qo=1), replace(config, pair_cta=True)):
        assert not other.crosses
        assert AttentionTmem.of(other).borrow_s_as_p(0).start == AttentionTmem.of(other).s(0).start


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8_E4M3])
@pytest.mark.parametrize("chain", [0, 1])
@pytest.mark.parametrize("head_dim", [64, 96, 128])
def test_the_last_p_of_a_chain_lies_beside_that_of_the_other(
    head_dim: int, chain: int, dtype: DType
) -> None:
    tmem = AttentionTmem.of(FA4Config.for_attention(dtype, head_dim))
    last, other = tmem.last_p(chain), tmem.borrow_s_as_p(1 - chain)
    assert last.size == tmem.borrow_s_as_p(chain).size
    assert (last.end, other.start) == (tmem.s(chain).end, tmem.s(chain).start)
    assert not last.overlaps(other)


@settings(deadline=None)
@given(configs())
def test_columns_are_disjoint_and_inside(config: FA4Config) -> None:
    claimed = [
        column
        for region in AttentionTmem.of(config).regions
        for column in range(region.start, region.end)
    ]
    assert len(claimed) == len(set(claimed))
    assert max(claimed) < TMEM_COLUMNS


@settings(deadline=None)
@given(depth512_configs())
def test_pair_columns_hold_the_accumulators_of_a_cta(config: Depth512Config) -> None:
    tmem = Depth512Tmem.of(config)
    rows, lanes = config.BM, 128
    o_columns = sum(r.size for r in tmem.regions if r.name.startswith("O"))
    assert o_columns * lanes == rows * config.padded_depth
    assert tmem.s(0).size * lanes == rows * config.BN
    claimed = [c for r in tmem.regions for c in range(r.start, r.end)]
    assert len(claimed) == len(set(claimed))
    assert max(claimed) < TMEM_COLUMNS


def test_score_buffers_alternate() -> None:
    tmem = Depth512Tmem.of(Depth512Config.for_attention(DType.BF16, 512))
    assert [tmem.s(tile).start for tile in range(3)] == [256, 384, 256]
    assert (tmem.o_lo().start, tmem["O_hi"].start) == (0, 128)
    with pytest.raises(KeyError, match="O_hi"):
        Depth512Tmem.of(Depth512Config.for_attention(DType.BF16, 256))["O_hi"]


def test_a_map_that_does_not_fit_shows_itself() -> None:
    with pytest.raises(ValueError, match="O ends at column 600 of 512"):
        TmemMap((Region("O", 400, 200),))
    with pytest.raises(ValueError, match="S and O overlap"):
        TmemMap((Region("S", 0, 128), Region("O", 100, 64)))


def scale_columns(rows: int, depth: int) -> int:
    """Columns of ue8m0 scales, a byte for 32 elements along K: 32 lanes hold 4 bytes a column."""
    return -(-rows // 32) * -(-depth // 128)


# Head dims, keys of a tile -> columns left, and columns that block scales of an MXFP8 kernel need:
# of two Q tiles, K, V, and P, whose scale is one number for both chains.
BLOCK_SCALES = {
    (64, 64, 0): (128, 18),
    (96, 96, 0): (0, 20),
    (128, 128, 0): (0, 20),
    (192, 128, 0): (0, 32),
    (96, 96, 96): (64, 19),
    (128, 128, 96): (64, 19),
    (192, 128, 96): (64, 30),
}


@pytest.mark.parametrize(("depth", "ov_depth", "keys"), BLOCK_SCALES)
def test_what_block_scales_would_need(depth: int, ov_depth: int, keys: int) -> None:
    """The table of docs/experiments.md: room with 96 keys a tile, and at head dim 64."""
    config = FA4Config.for_attention(DType.FP8_E4M3, depth, ov_depth=ov_depth, bn_cap=keys)
    padded = config.padded_ov_depth
    needed = (
        2 * scale_columns(config.MMA_M, depth)
        + scale_columns(config.BN, depth)
        + scale_columns(padded, config.BN)
        + scale_columns(config.MMA_M, config.BN)
    )
    left = TMEM_COLUMNS - AttentionTmem.of(config).used
    assert (left, needed) == BLOCK_SCALES[depth, ov_depth, keys]


@pytest.mark.parametrize("depth", [256, 512])
def test_pairs_have_no_column_left_for_block_scales(depth: int) -> None:
    config = Depth512Config.for_attention(DType.FP8_E4M3, depth)
    assert Depth512Tmem.of(config).used == TMEM_COLUMNS
