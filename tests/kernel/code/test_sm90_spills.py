"""No warp of the Hopper kernel spills, with any mask or modifier; products stay asynchronous."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from fa4_cute.plan.compute.sm90_mma import column_blocks
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.masks.masks import CAUSAL, ChunkedMask, PaddingMask, SlidingWindowMask
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from fa4_cute.plan.spec.variant import Scheduler, Variant
from testing.cases import Case
from testing.hardware.sm90_sweep import CASES, asked_for, kernel_of
from testing.kernels import (
    ALIBI,
    BIAS,
    CAP,
    EVERYTHING,
    HALVES,
    MOD,
    PAGED,
    UNION,
    WINDOW,
    WORKSPACE,
)
from testing.sass import SPILL, instructions

VARIANTS = {
    "plain": Variant(),
    "causal": Variant(CAUSAL, return_lse=True),
    "window sink": Variant(WINDOW, return_lse=True, sink=True),
    "padding": Variant(PaddingMask(0), return_lse=True),
    "window of two sides": Variant(SlidingWindowMask(60, 10), return_lse=True),
    "chunks": Variant(ChunkedMask(70), return_lse=True),
    "union": Variant(UNION, return_lse=True),
    "bias": Variant(BIAS & CAUSAL, return_lse=True),
    "function": Variant(CAUSAL, return_lse=True, score_mod=MOD),
    "alibi": Variant(CAUSAL, return_lse=True, score_mod=ALIBI),
    "capped": Variant(CAUSAL, return_lse=True, score_mod=CAP),
    "halves": Variant(HALVES & CAUSAL, return_lse=True),
    "halves in a window": Variant(HALVES & WINDOW, return_lse=True),
    "everything": Variant(EVERYTHING, return_lse=True, score_mod=MOD, sink=True),
    "paged": Variant(CAUSAL, page_size=16, **PAGED),
    "halves paged": Variant(HALVES & CAUSAL, page_size=16, **PAGED),
    "paged by rows": Variant(CAUSAL, page_size=16, by_rows=True, **PAGED),
    "sink split": Variant(CAUSAL, return_lse=True, sink=True, **WORKSPACE),
    "union paged split": Variant(
        UNION, return_lse=True, sink=True, page_size=16, **PAGED, **WORKSPACE
    ),
    "union paged split by rows": Variant(
        UNION, return_lse=True, sink=True, page_size=16, by_rows=True, **PAGED, **WORKSPACE
    ),
    "union function paged": Variant(
        UNION, return_lse=True, score_mod=MOD, sink=True, page_size=256, **PAGED
    ),
    "everything split": Variant(EVERYTHING, return_lse=True, **WORKSPACE),
    "union function split": Variant(UNION, return_lse=True, score_mod=MOD, sink=True, **WORKSPACE),
    "bias function split": Variant(
        BIAS & CAUSAL, return_lse=True, score_mod=MOD, sink=True, **WORKSPACE
    ),
    "bias split": Variant(BIAS & CAUSAL, return_lse=True, **WORKSPACE),
    "everything function split": Variant(
        EVERYTHING, return_lse=True, score_mod=MOD, sink=True, **WORKSPACE
    ),
    "everything paged split": Variant(
        EVERYTHING, return_lse=True, score_mod=MOD, sink=True, page_size=16,
        **PAGED, **WORKSPACE,
    ),
    "everything paged split by rows": Variant(
        EVERYTHING, return_lse=True, score_mod=MOD, sink=True, page_size=16, by_rows=True,
        **PAGED, **WORKSPACE,
    ),
}  # fmt: skip
BF16, FP8 = DType.BF16, DType.FP8_E4M3
DEPTHS = ((64, 0), (96, 0), (128, 0), (192, 0), (192, 128), (256, 0))
"""Head dims of every tile, and that of V where it is smaller."""
FP8_DEPTHS = ((64, 0), (128, 0), (192, 128), (192, 0), (208, 0), (256, 0))
QUICK = (
    ("alibi", BF16, (128, 0), False), ("capped", BF16, (256, 0), False),
    ("halves", BF16, (128, 0), False), ("halves paged", FP8, (208, 0), False),
    ("halves paged", BF16, (96, 0), False), ("capped", FP8, (128, 0), True),
    ("causal", BF16, (128, 0), False), ("everything paged split", BF16, (256, 0), False),
    ("everything paged split", FP8, (256, 0), True),
    ("union function paged", FP8, (64, 0), True), ("everything split", FP8, (192, 0), False),
    ("union paged split", BF16, (256, 0), False), ("plain", FP8, (208, 0), True),
    ("union function split", FP8, (256, 0), True), ("bias split", FP8, (128, 0), True),
)  # fmt: skip
SPILLED = {
    (frozenset(features.split()), head_dim)
    for features, head_dim in (
        ("window", 64), ("page64 window", 64), ("chunked", 64), ("split causal sink", 64),
        ("tokens union bias function", 192), ("bias causal", 256), ("union", 256),
        ("tokens split bias causal function sink", 192),
        ("tokens split bias causal function sink", 256),
    )
}  # fmt: skip
"""Cases of the sweep, features and head dim, whose kernels had a stack once."""
SCHEDULERS = (Scheduler.TILE, Scheduler.PERSISTENT)
FEW_ROWS = (
    ("causal", 256, False), ("everything", 256, True), ("everything function split", 256, True)
)  # fmt: skip
STREAMED = (("paged", (BF16, (128, 0), False)), ("everything", (FP8, (192, 128), True)))
KERNELS = (*product((BF16,), DEPTHS, (False,)), *product((FP8,), FP8_DEPTHS, (False, True)))
"""Element type, head dims, and whether tokens have scales."""


@pytest.mark.parametrize(
    ("variant", "dtype", "depths", "token_scales", "scheduler"),
    [
        *(pytest.param(*of, Scheduler.PERSISTENT, marks=pytest.mark.slow) for of in QUICK),
        *(
            pytest.param(name, *kernel, scheduler, marks=pytest.mark.exhaustive)
            for name, kernel, scheduler in product(VARIANTS, KERNELS, SCHEDULERS)
            if (name, *kernel) not in QUICK or scheduler is Scheduler.TILE
        ),
    ],
)
def test_no_role_spills(
    variant: str, dtype: DType, depths: tuple[int, int], token_scales: bool, scheduler: Scheduler
) -> None:
    head_dim, head_dim_v = depths
    features = replace(VARIANTS[variant], scheduler=scheduler, token_scales=token_scales)
    spec = SM90Spec.for_attention(
        dtype, head_dim, group=2, variant=features, head_dim_v=head_dim_v
    )
    if features.by_rows and not spec.may_count_rows:
        pytest.skip("no launch counts its query tiles by rows")
    require_no_spills(spec)


@pytest.mark.parametrize(
    ("variant", "depth", "token_scales"),
    [
        pytest.param(*of, marks=pytest.mark.slow if of in FEW_ROWS else pytest.mark.exhaustive)
        for of in product(VARIANTS, (192, 256), (False, True))
    ],
)
def test_no_role_spills_beside_a_wide_fp8_v_of_few_rows(
    variant: str, depth: int, token_scales: bool
) -> None:
    features = replace(VARIANTS[variant], token_scales=token_scales)
    made = SM90Spec.for_attention(FP8, depth, group=2, variant=features)
    require_no_spills(made.with_few_rows())


@pytest.mark.parametrize(
    ("variant", "kernel"),
    [
        pytest.param(*of, marks=pytest.mark.slow if of in STREAMED else pytest.mark.exhaustive)
        for of in product(
            [n for n in VARIANTS if not {"split", "rows", "halves"} & {*n.split()}], KERNELS
        )
    ],
)
def test_no_role_spills_in_stream_k(
    variant: str, kernel: tuple[DType, tuple[int, int], bool]
) -> None:
    dtype, (head_dim, head_dim_v), token_scales = kernel
    features = replace(
        VARIANTS[variant], scheduler=Scheduler.STREAM_K, token_scales=token_scales
    )
    made = SM90Spec.for_attention(
        dtype, head_dim, group=2, variant=features, head_dim_v=head_dim_v
    ).with_few_rows()
    if not made.may_stream_keys:
        assert variant == "everything"
        pytest.skip("refused")
    require_no_spills(made)


FAR = Variant(score_mod=ALIBI)
WIDE_WINDOWS = (
    Variant(SlidingWindowMask(4095, 0), return_lse=True, sink=True),
    Variant(SlidingWindowMask(2047, 64), return_lse=True, ragged_q=True, ragged_k=True),
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variant", "scheduler"),
    [*product((VARIANTS["alibi"], FAR, VARIANTS["capped"], *WIDE_WINDOWS), SCHEDULERS)],
    ids=lambda value: "-".join(value.name_parts) if isinstance(value, Variant) else value.name,
)
def test_no_role_spills_in_the_tile_of_many_keys(variant: Variant, scheduler: Scheduler) -> None:
    features = replace(variant, scheduler=scheduler)
    made = SM90Spec.for_attention(BF16, 128, group=2, variant=features)
    assert made.may_take_long_keys
    require_no_spills(made.with_long_keys())


FP8_LONG_DEPTHS = ((64, 0), (80, 0), (96, 0), (128, 0), (192, 128))
FP8_LONG = {
    "plain": Variant(),
    "causal": Variant(CAUSAL, return_lse=True),
    "ragged": Variant(CAUSAL, ragged_q=True, ragged_k=True, sink=True),
    "ragged by rows": Variant(CAUSAL, ragged_q=True, ragged_k=True, by_rows=True),
    "sink split": Variant(CAUSAL, return_lse=True, sink=True, **WORKSPACE),
    "split": Variant(**WORKSPACE),
}
QUICK_LONG = {("causal", (128, 0), Scheduler.PERSISTENT), ("ragged", (64, 0), Scheduler.TILE)}


@pytest.mark.parametrize(
    ("variant", "depths", "scheduler"),
    [
        pytest.param(*of, marks=pytest.mark.slow if of in QUICK_LONG else pytest.mark.exhaustive)
        for of in product(FP8_LONG, FP8_LONG_DEPTHS, SCHEDULERS)
    ],
    ids=str,
)
def test_no_role_spills_in_fp8_tiles_of_many_keys(
    variant: str, depths: tuple[int, int], scheduler: Scheduler
) -> None:
    features = replace(FP8_LONG[variant], scheduler=scheduler)
    made = SM90Spec.for_attention(
        FP8, depths[0], group=2, variant=features, head_dim_v=depths[1]
    )
    if features.by_rows and not made.may_count_rows:
        pytest.skip("no launch counts its query tiles by rows")
    # What transposes V of parts of many query tiles wants more registers.
    scarce = features.is_split and features.is_persistent
    scarce |= features.ragged_q and depths == (192, 128)
    assert made.may_take_long_keys == (not scarce)
    if not scarce:
        require_no_spills(made.with_long_keys())


@pytest.mark.exhaustive
@pytest.mark.parametrize(("depths", "scheduler"), [*product(DEPTHS, SCHEDULERS)], ids=str)
def test_no_role_spills_where_distances_have_both_signs(
    depths: tuple[int, int], scheduler: Scheduler
) -> None:
    head_dim, head_dim_v = depths
    features = replace(FAR, scheduler=scheduler)
    require_no_spills(
        SM90Spec.for_attention(BF16, head_dim, group=2, variant=features, head_dim_v=head_dim_v)
    )


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=str(case), marks=pytest.mark.slow if once else pytest.mark.exhaustive)
        for case in CASES
        for once in [(case.features, case.head_dim) in SPILLED]
    ],
)
def test_no_role_spills_in_calls_of_the_sweep(case: Case) -> None:
    spec = kernel_of(asked_for(case))
    assert isinstance(spec, SM90Spec)
    without_stack(spec)


def without_stack(spec: SM90Spec) -> list[str]:
    """Compile a kernel; return its instructions, of which none uses a stack."""
    code = [instruction.text for instruction in instructions(spec)]
    assert [text for text in code if SPILL.search(text)] == []
    return code


def require_no_spills(spec: SM90Spec) -> None:
    code = without_stack(spec)
    # The first S, S and O of the loop, O of rows that move, the last O: an assembler that cannot
    # keep products apart waits after each of them.
    # A sum of its own is waited for where it is added, and not in the branch that rescales, too:
    # one for each block of columns, in the loop and after it.
    blocks = len(column_blocks(spec.config))
    waits = 2 + 2 * blocks if spec.config.transposes_values else 5
    assert sum("WARPGROUP.DEPBAR" in text for text in code) == waits
