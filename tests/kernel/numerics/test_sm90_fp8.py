"""fp8 operands in the Hopper kernel: transposed V, sums apart, features, and faults in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

import fa4_cute
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from testing.arguments import arguments
from testing.cases import FP8, Case, dense
from testing.reference.attention import attention_float64
from testing.reference.fp8 import HOPPER_SUM_BITS, compare_fp8
from testing.runner import CHECKS, call, check, spec_of
from tests.kernel.numerics.test_sm90 import SEQUENCES, WAIT, require_found, without
from tests.kernel.random_cases import also

QUICK = dense(300, 700, 128, 2, 1, causal=True, dtype=FP8, num_qo=None, arch=SM90A)
PLACES = (
    ("persistent ragged page16 split sink", 128), ("page64 window", 80),
    ("ragged causal", (192, 128)), ("persistent cache softcap", (256, 48)),
    ("tokens ragged cache causal", 64), ("tokens persistent page16 split", 128),
    ("tokens union bias function", (192, 128)), ("persistent page16 split sink", 192),
    ("union function", (240, 208)), ("tokens ragged union bias", 256),
)  # fmt: skip
"""Features, and head dims: a pair has that of V second."""
MORE_PLACES = (
    ("ragged cache causal", 64), ("page32 ragged union function", 64), ("split bias causal", 128),
    ("persistent causal", 64), ("ragged causal", 256), ("tokens cache window", 256),
    ("bias causal", 144), ("persistent ragged page64", (256, 176)),
    ("tokens persistent causal", (224, 192)),
)  # fmt: skip


@pytest.fixture(autouse=True)
def all_checks() -> Iterator[None]:
    """Run under every checker, with work that lands late."""
    with fa4_cute.simulator_options(checks=CHECKS, mode="late"):
        yield


def featured(features: str, head_dim: int | tuple[int, int] = 128) -> Case:
    """Return a case with scales, of whole tensors unless the features say "tokens"."""
    depth, depth_v = head_dim if isinstance(head_dim, tuple) else (head_dim, 0)
    names = {*features.split()}
    names |= set() if "tokens" in names else {"fp8"}
    return Case(frozenset(names), depth, FP8, head_dim_v=depth_v, lengths=SEQUENCES, arch=SM90A)


def test_output_and_lse() -> None:
    check(QUICK)


@pytest.mark.slow
@pytest.mark.parametrize(("features", "head_dim"), [*PLACES, *also(*MORE_PLACES)])
def test_features(features: str, head_dim: int | tuple[int, int]) -> None:
    check(featured(features, head_dim))


LONG = (("ragged causal", 128), ("split sink", 96), ("causal", (192, 128)),
        ("split causal", 64))  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("features", "head_dim"), [*LONG[:2], *also(*LONG[2:])])
def test_many_keys_that_all_rows_see(features: str, head_dim: int | tuple[int, int]) -> None:
    """S follows P V there, and O is rescaled at once."""
    case = replace(featured(features, head_dim), lengths=((230, 2300), (70, 300)))
    spec = spec_of(case)
    assert isinstance(spec, SM90Spec)
    assert spec.config.long_keys
    assert (spec.config.num_consumers, spec.config.owes_factors) == (3, False)
    check(case)


@pytest.mark.slow
def test_persistent_ctas_of_three_consumers() -> None:
    case = replace(featured("persistent causal", 64), lengths=((450, 900), (450, 900)))
    spec = spec_of(case)
    assert isinstance(spec, SM90Spec)
    assert (spec.config.num_consumers, spec.config.owes_factors) == (3, False)
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["tokens ragged causal", "tokens page64 window"])
def test_sums_of_scores_as_a_chip_cuts_them(features: str) -> None:
    """An H200 had such LSEs too: out of the bounds of exact sums, within those of 13 bits."""
    given = arguments(featured(features))
    with fa4_cute.simulator_options(exact_mma=True):
        found = call(given)
    results = found.out, found.lse, given.inputs
    exact, cut = (
        compare_fp8(*results, sum_bits=bits, **given.options) for bits in (None, HOPPER_SUM_BITS)
    )
    assert exact.failures == ("LSE is out of bounds",)
    assert cut.ok


FEW_ROWS = ("page16 causal split", "ragged cache window", "tokens page64")
FEW_ROWS_DIMS = (128, 192, (256, 208))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("features", "head_dim"),
    [
        pytest.param(features, head_dim, marks=() if row == column else pytest.mark.exhaustive)
        for row, features in enumerate(FEW_ROWS)
        for column, head_dim in enumerate(FEW_ROWS_DIMS)
    ],
)
def test_few_rows(features: str, head_dim: int | tuple[int, int]) -> None:
    check(replace(featured(features, head_dim), lengths=((1, 1000), (2, 70))))


@pytest.mark.slow
@pytest.mark.parametrize(("scale", "head_dim"), [
    (-0.3, 256), (0.0, 128), *also((-0.3, 128), (0.0, 256)),
])  # fmt: skip
def test_any_scale(scale: float, head_dim: int) -> None:
    check(replace(QUICK, softmax_scale=scale, head_dim=head_dim))


@pytest.mark.slow
@pytest.mark.parametrize(("head_dim", "queries", "keys"), [
    *((192, 65, keys) for keys in (128, 129, 383)),
    *((256, 129, keys) for keys in (1, 127, 256, 385)),
    *also(*((192, 65, keys) for keys in (1, 127, 256, 385))),
    *also(*((256, 129, keys) for keys in (128, 129, 383))),
])  # fmt: skip
def test_keys_that_end_around_a_tile(keys: int, head_dim: int, queries: int) -> None:
    """One, two, three and four tiles of 128 keys, also where S follows P V of the last block."""
    check(replace(QUICK, head_dim=head_dim, lengths=((queries, keys),)))


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [192, 256])
def test_rising_scores_rescale_every_block_of_columns(head_dim: int) -> None:
    check(replace(QUICK, head_dim=head_dim, growth=0.05))


@pytest.mark.slow
@pytest.mark.parametrize(
    "features", ["causal", "page16 union", *also("tokens ragged cache window")]
)
def test_wide_values_with_sums_as_a_chip_cuts_them(features: str) -> None:
    given = arguments(featured(features, 256))
    with fa4_cute.simulator_options(exact_mma=True):
        found = call(given)
    assert compare_fp8(
        found.out, found.lse, given.inputs, sum_bits=HOPPER_SUM_BITS, **given.options
    ).ok


@pytest.mark.exhaustive
@pytest.mark.parametrize("head_dim", range(16, 257, 16))
def test_every_head_dim(head_dim: int) -> None:
    check(replace(QUICK, head_dim=head_dim))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head_dim", "queries", "num_qo"), [(64, 64, 2), (192, 64, 2), (256, 64, 2), (64, 200, None)]
)
def test_many_keys_are_added_as_exactly_as_few(
    head_dim: int, queries: int, num_qo: int | None
) -> None:
    """wgmma cuts sums of fp8 products to 13 bits (docs/hardware.md): 192 of them at a time only."""
    case = dense(queries, 4096, head_dim, dtype=FP8, num_qo=num_qo, arch=SM90A)
    given = arguments(case)
    given.v = given.v.float().abs().add(1.0).to(FP8)
    exact = attention_float64(*(x.float() for x in given.inputs)).out
    with fa4_cute.simulator_options(exact_mma=True):
        found = call(given).out.double()
    assert ((found - exact) / exact).abs().max() < 0.01


@pytest.mark.slow
def test_rows_of_v_that_are_not_cleaned_are_nan() -> None:
    case = replace(featured("cache"), lengths=((30, 100), (30, 300)))
    kept = call(arguments(case), rewrite=without(r"@inside st\.shared::cluster\.v4\.b32[^;]*;"))
    assert kept.out.isnan().any()
    assert not call(arguments(case)).out.isnan().any()


ARRIVE = r"@leader mbarrier\.arrive\.shared::cta\.b64 _, \[[^]]*\];"


def after_stores(pattern: str, count: int = 1) -> Callable[[str], str]:
    """What takes ``count`` matches of ``pattern`` out of what follows the last ``stmatrix``."""

    def rewrite(text: str) -> str:
        head, mark, tail = text.rpartition("stmatrix")
        assert mark
        return head + mark + without(pattern, count)(tail)

    return rewrite


def without_wait(before_loads: int) -> Callable[[str], str]:
    """What takes out a wait of the role that transposes, counted back from its first load."""

    def rewrite(text: str) -> str:
        head, mark, tail = text.partition("ldmatrix")
        found = list(re.finditer(WAIT, head))[-before_loads]
        return head[: found.start()] + "bra.uni PHASE_DONE;" + head[found.end() :] + mark + tail

    return rewrite


BREAKS: dict[str, tuple[str, Callable[[str], str], str]] = {
    "transposed values are not published": (
        "causal", after_stores(r"fence\.proxy\.async\.shared::cta;"), "race-shared"
    ),
    "warps do not meet before they say so": (
        "causal", after_stores(r"bar\.warp\.sync\s+-1;"), "race-shared"
    ),
    "nobody waits for the values": ("causal", without_wait(2), "race-shared"),
    "nobody waits for the slot": ("causal", without_wait(1), "deadlock"),
    "raw values are never freed": ("causal", after_stores(ARRIVE), "deadlock"),
    "scales are read after K was freed": (
        "tokens", lambda text: text.replace("bar.warp.sync \t-1;", ""), "race-shared"
    ),
    "rows are zeroed for nobody": ("cache", without(r"bar\.sync\s+4, 96;"), "race-shared"),
}  # fmt: skip
"""Features, what is broken in their kernel, and what the simulator says of it."""


@pytest.mark.slow
@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_kernel_is_found(name: str) -> None:
    features, rewrite, what = BREAKS[name]
    # Few keys fill no slot twice, and so stop nothing.
    keys = 1000 if what == "deadlock" else 300
    case = replace(featured(features), lengths=((64, keys),), num_splits=1)
    require_found(case, rewrite, what)


def without_product_wait(number: int) -> Callable[[str], str]:
    """What takes out the ``number``-th wait for all products of a warp group."""

    def rewrite(text: str) -> str:
        found = list(re.finditer(r"wgmma\.wait_group\.sync\.aligned 0;", text))[number]
        return text[: found.start()] + text[found.end() :]

    return rewrite


@pytest.mark.slow
@pytest.mark.parametrize(("what", "number"), [("first block", 1), ("second block", 2), ("S", 3)])
def test_each_product_of_a_wide_v_is_waited_for(what: str, number: int) -> None:
    """The first wait is that for S of the first tile; in the loop S follows the two blocks."""
    case = replace(QUICK, head_dim=256, lengths=((64, 300),))
    require_found(case, without_product_wait(number), "wgmma-register-in-flight")


@pytest.mark.slow
def test_a_block_does_not_add_to_the_one_before() -> None:
    """It starts over the registers of that one; were they added, O would be far off."""
    given = arguments(replace(QUICK, head_dim=256, lengths=((64, 300),)))
    added = call(given, rewrite=lambda text: text.replace("ne.b32 counts", "eq.b32 counts"))
    right = call(given)
    limits = {"sum_bits": None, **given.options}
    assert compare_fp8(right.out, right.lse, given.inputs, **limits).ok
    assert not compare_fp8(added.out, added.lse, given.inputs, **limits).ok
