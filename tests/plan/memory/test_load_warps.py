"""Two load warps and one ring: neither is ever so far ahead that a parity stands for two rounds.

A warp that fills position p of the ring waits until position p - slots has been read. The barrier
of that slot says only whether the last round but one or the last was read, so p - 2 * slots must
have been read for certain: the warp knows that of all that lies before what it waited for last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from fa4_cute.plan.barriers.answers import MAX_WARPS
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import SlidingWindowMask
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.variant import Scheduler, Variant

BF16, FP8 = DType.BF16, DType.FP8_E4M3
KEYS, VALUES = "keys", "values"
WORKS = tuple(product((1, 2, 3, 7), repeat=3))
"""Key tiles of query tiles that follow one another in a CTA; without any nothing is loaded."""
SMALL = (16, 32)
PLANS = [
    kind.for_attention(
        dtype, depth,
        variant=Variant(used_k=True, page_size=page, scheduler=scheduler, token_scales=tokens),
    )
    for kind, depths in ((KernelSpec, (64, 96, 128)), (Depth512Spec, (256, 512)))
    for depth, dtype, page, scheduler in product(
        depths, (BF16, FP8), SMALL, (Scheduler.TILE, Scheduler.PERSISTENT)
    )
    for tokens in ((False, True) if dtype is FP8 else (False,))
]  # fmt: skip


def filled(spec: KernelSpec | Depth512Spec, works: Sequence[int]) -> Iterator[str]:
    """Yield whose warp fills each position of the ring."""
    for num_tiles in works:
        if isinstance(spec, Depth512Spec):
            counts = {"S": spec.config.num_qk_stages, "O": spec.config.value_slots}
            for operand, _ in spec.issue_order(num_tiles):
                yield from [KEYS if operand == "S" else VALUES] * counts[operand]
        elif spec.issue_order.keys_ahead:
            yield KEYS
            yield from [KEYS, VALUES] * (num_tiles - 1)
            yield VALUES
        else:
            yield from [KEYS, VALUES] * num_tiles


def is_ahead(order: Sequence[str], slots: int, out_of_order: int = 0) -> bool:
    """Whether a warp may meet a barrier whose parity stands for two rounds.

    What was read may be so many positions ahead of what was not.
    """
    last = dict.fromkeys((KEYS, VALUES), -1)
    # At the end the warp of V waits for every slot.
    for position, warp in enumerate([*order, *[VALUES] * slots]):
        read = last[warp] - slots - out_of_order  # and all before it
        if position - 2 * slots > max(read, -1):
            return True
        last[warp] = position
    return False


def rings(spec: KernelSpec | Depth512Spec) -> int | None:
    """Slots of the ring that K and V share; None: each has a ring of its own."""
    fused = isinstance(spec, Depth512Spec) or spec.config.use_fused_kv
    return spec.config.num_kv_stages if fused else None


LEADING = 2
"""Positions by which a chain that leads reads ahead of the other one: a K and a V."""


@pytest.mark.parametrize("page", SMALL)
@pytest.mark.parametrize("dims", [(96, 96), (128, 128), (192, 128)])
def test_no_load_warp_is_a_round_ahead_where_a_chain_leads(
    dims: tuple[int, int], page: int
) -> None:
    """With 192/128, three slots, V's warp filled a slot that K's warp was about to.

    These kernels have one ring; those with fp8 operands, and of head dim 64, one each for K and V.
    """
    variant = Variant(
        SlidingWindowMask(127, 0), used_k=True, page_size=page, scheduler=Scheduler.DYNAMIC
    )
    spec = KernelSpec.for_attention(BF16, dims[0], head_dim_v=dims[1], variant=variant)
    slots = rings(spec)
    assert spec.loads_values_apart
    assert slots is not None
    behind = LEADING if spec.second_starts_late else 0
    assert not any(is_ahead(list(filled(spec, works)), slots, behind) for works in WORKS)
    would = any(is_ahead(list(filled(spec, works)), slots, LEADING) for works in WORKS)
    assert spec.second_starts_late != would


@pytest.mark.parametrize("spec", PLANS, ids=lambda spec: spec.name)
def test_no_load_warp_is_a_round_ahead(spec: KernelSpec | Depth512Spec) -> None:
    slots = rings(spec)
    if spec.loads_values_apart and slots is not None:
        assert not any(is_ahead(list(filled(spec, works)), slots) for works in WORKS)


@pytest.mark.parametrize("depth", [256, 512])
def test_two_warps_have_as_many_slots_as_they_need_and_no_more(depth: int) -> None:
    spec = Depth512Spec.for_attention(FP8, depth, variant=Variant(used_k=True, page_size=16))
    for slots in range(2, 16):
        ahead = any(is_ahead(list(filled(spec, works)), slots) for works in WORKS)
        assert spec.config.loads_apart_with(slots) is not ahead


def test_there_are_plans_of_all_kinds() -> None:
    found = {(type(spec), spec.loads_values_apart, rings(spec) is None) for spec in PLANS}
    assert {(KernelSpec, True, True), (KernelSpec, True, False)} <= found
    assert {(Depth512Spec, True, False), (Depth512Spec, False, False)} <= found


def test_a_ring_of_few_slots_has_one_load_warp() -> None:
    """Four slots for the eight of a tile: the first V would be two rounds behind nothing at all."""
    spec = Depth512Spec.for_attention(BF16, 512, variant=Variant(used_k=True, page_size=16))
    assert (spec.config.num_kv_stages, spec.loads_values_apart) == (4, False)
    assert all(is_ahead(list(filled(spec, works)), 4) for works in WORKS if max(works) > 1)


@pytest.mark.parametrize(
    ("config", "apart"),
    [
        (FA4Config.for_attention(BF16, 128, page_size=32), True),
        (FA4Config.for_attention(BF16, 128, page_size=64), False),
        (FA4Config.for_attention(BF16, 128, page_size=128), False),
        (FA4Config.for_attention(BF16, 128), False),
        (Depth512Config.for_attention(BF16, 256, page_size=32), True),
        (Depth512Config.for_attention(FP8, 512, page_size=64), True),
        (Depth512Config.for_attention(BF16, 256, page_size=64), False),
    ],
)
def test_values_have_a_load_warp_where_a_tile_is_many_pages(
    config: FA4Config | Depth512Config, apart: bool
) -> None:
    assert config.loads_values_apart is apart


@pytest.mark.parametrize(("dtype", "page"), [(FP8, 16), (FP8, 128), (BF16, 16)])
def test_with_stream_k_fp8_operands_have_it(dtype: DType, page: int) -> None:
    variant = Variant(used_k=True, page_size=page, scheduler=Scheduler.STREAM_K)
    for spec in (
        KernelSpec.for_attention(dtype, 128, num_qo=1, variant=variant),
        Depth512Spec.for_attention(dtype, 512, variant=variant),
    ):
        apart = (dtype, page) == (FP8, 16)
        assert spec.loads_values_apart is apart
        assert ("values" in {role.name for role in spec.schedule.roles}) is apart
        assert spec.schedule.num_warps <= MAX_WARPS, "each warp is told where it is in the line"
