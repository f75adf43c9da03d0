"""The Hopper kernel on the virtual SM90 against float64: shapes, masks, features, and faults in it.

``wgmma`` writes registers while the thread goes on, and reads shared memory that TMA may fill anew:
the checkers hold the kernel to both rules, and name a kernel that breaks one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.launch import tiles
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from sm100sim.report import SimulationFault
from testing.arguments import arguments
from testing.cases import FP16, Case, dense
from testing.runner import CHECKS, call, check, checked, run, spec_of
from tests.kernel.random_cases import also


@pytest.fixture(autouse=True)
def all_checks() -> Iterator[None]:
    """Run under every checker, with work that lands late."""
    with fa4_cute.simulator_options(checks=CHECKS, mode="late"):
        yield


def hopper(*sizes: int, **more: Any) -> Case:
    return dense(*sizes, arch=SM90A, **{"num_qo": None, **more})


QUICK = [hopper(300, 700, 128, causal=True), hopper(200, 300, 64, 4, 2, batch=2, causal=True)]
SHAPES = [
    *(hopper(128, keys, 128) for keys in (1, 128, 256, 300)),
    hopper(1, 1000, 128, 16, 2, causal=True),
    hopper(1000, 1, 128, causal=True),
    # rows without a key, and tiles that see none
    hopper(300, 77, 128, causal=True),
    hopper(500, 60, 64, causal=True),
    # consumers whose rows see fewer key tiles than others, or none, or are none
    hopper(400, 400, 64, 3, 1, batch=2, causal=True),
    hopper(330, 700, 96, 2, 2),
    hopper(600, 300, 96, causal=True),
    # a first query tile that begins before its sequence, by one Q tile or two, or packed heads
    hopper(130, 330, 64, causal=True),
    hopper(260, 500, 96, causal=True),
    hopper(100, 300, 64, 4, 2, causal=True),
    # a group that cannot be packed, and the largest that can
    hopper(77, 133, 64, 6, 2, batch=2, causal=True),
    hopper(5, 133, 128, 64, 1),
    # every tile, padded head dims, both types
    hopper(130, 300, 72, dtype=FP16, causal=True),
    hopper(130, 300, 192, causal=True),
    hopper(130, 300, 256),
    # V narrower than K, in chunks of its own number, and padded alike
    hopper(130, 300, 192, 4, 2, head_dim_v=128, causal=True),
    hopper(130, 300, 64, head_dim_v=8),
    # any scale, and maxima that move in every tile
    hopper(100, 500, 128, softmax_scale=-0.3),
    hopper(100, 500, 64, softmax_scale=0.0, causal=True),
    hopper(100, 500, 128, softmax_scale=1e-30),
    hopper(100, 500, 128, growth=0.02, causal=True),
    hopper(100, 500, 128, growth=-0.002),
]
MORE_SHAPES = (
    hopper(100, 300, 8, causal=True), hopper(130, 300, 200, dtype=FP16, causal=True),
    hopper(130, 300, 256, head_dim_v=40, dtype=FP16),
)  # fmt: skip
FEATURES = ("window sink", "chunked", "softcap", "padding", "union bias function sink")
MORE_FEATURES = ("window", "union", "bias", "bias causal", "function sink causal")


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_output_and_lse(case: Case) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [
    hopper(300, 300, 128, 6, 2, batch=2, causal=True),
    hopper(300, 300, 96, 3, 3, batch=2, causal=True),
], ids=str)  # fmt: skip
def test_the_bits_do_not_depend_on_sections(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One section of all heads, or one for each."""
    whole = run(case).out
    monkeypatch.setattr(tiles, "SECTION_BYTES", 1)
    assert torch.equal(run(case).out, whole)


def test_the_bits_do_not_depend_on_who_takes_the_query_tiles() -> None:
    by_turns, at_once = (check(QUICK[1], scheduler=name) for name in ("persistent", "tile"))
    assert all(map(torch.equal, by_turns.results, at_once.results))


@pytest.mark.slow
@pytest.mark.parametrize("case", [*SHAPES, *also(*MORE_SHAPES)], ids=str)
def test_output_and_lse_of_other_shapes(case: Case) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("features", [*FEATURES, *also(*MORE_FEATURES)])
@pytest.mark.parametrize("head_dim", [64, *also(256)])
def test_features(features: str, head_dim: int) -> None:
    lengths = ((130, 300), (130, 300))
    check(Case(frozenset(features.split()), head_dim, lengths=lengths, arch=SM90A))


SEQUENCES = ((40, 200), (3, 133), (0, 20), (150, 17), (230, 390))
"""More than one CTA, fewer keys than queries, and no query at all."""
PLACES = (
    ("ragged page16 window", 128), ("cache padding", 256), ("page64 ragged causal", 192),
    ("page32 ragged union function", 64), ("split ragged causal sink", 128),
    ("persistent ragged cache union bias", 128),
    ("persistent ragged page16 split sink", (192, 128)), ("persistent cache window", (128, 64)),
    ("persistent window sink", 96),
)  # fmt: skip
"""Where sequences, keys and results lie, at every tile; a pair has the head dim of V second."""
MORE_PLACES = (
    ("ragged causal sink", 64), ("ragged causal", 136), ("page256 bias", 64),
    ("split page64 window", 256), ("persistent causal", 128),
    ("persistent ragged page16 window", 64), ("persistent split sink", 256),
    ("cache function causal", (192, 128)), ("persistent causal", 96),
)  # fmt: skip
QUICK_PLACES = (("ragged cache causal", 64), ("persistent page16 split", 128))


@pytest.mark.parametrize(("features", "head_dim"), QUICK_PLACES)
def test_sequences_in_other_places(features: str, head_dim: int) -> None:
    check(Case(frozenset(features.split()), head_dim, lengths=SEQUENCES[:4], arch=SM90A))


@pytest.mark.slow
@pytest.mark.parametrize(("features", "head_dim"), [*PLACES, *also(*MORE_PLACES)])
def test_more_places_at_every_tile(features: str, head_dim: int | tuple[int, int]) -> None:
    depth, depth_v = head_dim if isinstance(head_dim, tuple) else (head_dim, 0)
    made = Case(frozenset(features.split()), depth, head_dim_v=depth_v, arch=SM90A)
    check(replace(made, lengths=SEQUENCES))


@pytest.mark.slow
@pytest.mark.parametrize("features", ["ragged cache split", *also("sink")])
def test_many_keys_that_all_rows_see(features: str) -> None:
    lengths = ((150, 4200), (70, 300))
    case = Case(frozenset(features.split()), 128, lengths=lengths, arch=SM90A)
    spec = spec_of(case)
    assert isinstance(spec, SM90Spec)
    assert spec.config.long_keys
    check(case)


STEPS = ((1, 1500), (3, 133), (0, 20), (9, 17))
"""Decoding: a few queries over caches of different lengths."""
FEW_ROWS = (
    ("ragged page16 causal sink", 128), ("cache window", 192), ("page64 bias", 256),
    ("ragged cache union function", 64), *also(("page256 split causal", 128), ("split sink", 256)),
)  # fmt: skip


def test_a_step_of_decoding() -> None:
    """Keys are split because there are many, in a kernel for few rows, over pages."""
    case = Case(frozenset({"page16", "causal"}), 128, lengths=STEPS, arch=SM90A, heads=8)
    spec = spec_of(case)
    assert spec.variant.is_split
    assert spec.schedule.ctas_per_sm == 2
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize(("features", "head_dim"), FEW_ROWS)
def test_few_rows_at_every_tile(features: str, head_dim: int) -> None:
    case = Case(frozenset(features.split()), head_dim, lengths=STEPS, arch=SM90A)
    assert spec_of(case).config.BM == 64
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("features", "head_dim", "heads"),
    [("page16 causal ragged sink", 128, 14), ("split bias function", 72, 10),
     ("persistent ragged window", 64, 6)],
)  # fmt: skip
def test_a_group_that_leaves_rows_over(features: str, head_dim: int, heads: int) -> None:
    """Several query tiles, so that rows left over stand where the next tile's queries are."""
    lengths = ((1, 700), (13, 133), (0, 20), (39, 17))
    case = Case(
        frozenset(features.split()), head_dim, lengths=lengths, heads=heads, arch=SM90A, num_qo=1,
        softmax_scale=-0.1,
    )  # fmt: skip
    spec = spec_of(case)
    assert isinstance(spec, SM90Spec)
    assert spec.config.q_rows < 64
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize("num_splits", [1, 16, 17, 33, 65])
def test_any_number_of_splits_is_combined(num_splits: int) -> None:
    """More than lanes of a warp, and more than there are key tiles: these saw no key."""
    check(hopper(2, 1100, 72, 4, 2, num_splits=num_splits))


@pytest.mark.slow
def test_a_row_without_any_key_stays_zero_when_split() -> None:
    check(hopper(5, 3, 64, num_splits=3, causal=True))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"num_qo": 1}, {"num_qo": 2, "num_splits": None}], ids=str)
def test_tiles_and_splits_that_are_asked_for(options: dict[str, Any]) -> None:
    check(hopper(100, 1500, 128, 4, 2, **options))


@pytest.mark.exhaustive
@pytest.mark.parametrize("head_dim", range(8, 257, 8))
def test_every_head_dim(head_dim: int) -> None:
    causal = head_dim % 16 == 0
    check(hopper(200, 400, head_dim, 2, 1, causal=causal, dtype=FP16))


def test_the_architecture_of_a_call_is_a_choice() -> None:
    q = torch.randn(1, 65, 1, 64).bfloat16()
    text = fa4_cute.explain(q, q, q, arch=SM90A)
    assert "kernel SM90MHA (fa4_sm90_bf16_d64_g1)" in text
    assert "3 consumer warp groups" in text
    assert "SM100MHA2Q" in fa4_cute.explain(q, q, q)


@pytest.mark.slow
def test_a_repeated_call_is_known_by_its_architecture() -> None:
    q = torch.randn(1, 64, 1, 64).bfloat16()
    both = [fa4_cute.flash_attn(q, q, q, arch=arch) for arch in (SM90A, None, SM90A, None)]
    assert torch.equal(both[0], both[2])
    assert torch.equal(both[1], both[3])
    fa4_cute.flash_attn(q, q, q, arch=SM90A)
    assert fa4_cute.last_report() is not None


WAIT = r"mbarrier\.try_wait[^;]*;\s*@done bra\.uni PHASE_DONE;"


def without(pattern: str, count: int = 1) -> Callable[[str], str]:
    """What takes ``count`` matches of ``pattern`` out of a text."""

    def rewrite(text: str) -> str:
        found, number = re.subn(pattern, "", text, count=count)
        assert number == count
        return found

    return rewrite


ARRIVE = r"@leader mbarrier\.arrive\.shared::cta\.b64 _, \[[^]]*\];"
BREAKS: dict[str, tuple[Callable[[str], str], str]] = {
    "a product is not waited for": (
        without(r"wgmma\.wait_group\.sync\.aligned 1;"), "wgmma-register-in-flight"
    ),
    "registers are not fenced": (
        without(r"wgmma\.fence\.sync\.aligned;", 3), "wgmma-not-fenced"
    ),
    "products are never a group": (
        without(r"wgmma\.commit_group\.sync\.aligned;", 3), "wgmma-register-in-flight"
    ),
    "nobody waits for a tile": (
        lambda text: re.sub(WAIT, "bra.uni PHASE_DONE;", text, count=5),
        "race-shared",
    ),
    "a slot is never freed": (without(ARRIVE, 4), "deadlock"),
    "staged O is not published to TMA": (
        without(r"fence\.proxy\.async\.shared::cta;", 2), "race-shared"
    ),
}
"""What is broken, and what the simulator says of it."""
PLACED: dict[str, tuple[str, Callable[[str], str], str]] = {
    "rows of V are zeroed for nobody": ("cache", without(r"bar\.sync\s+4, \d+;"), "race-shared"),
    "zeroed rows are not published": (
        "cache", without(r"fence\.proxy\.async\.shared::cluster;"), "race-shared"
    ),
    "nobody waits for the store of O": (
        "persistent", without(r"cp\.async\.bulk\.wait_group\.read\s+0;", 2), "exited-cta"
    ),
}  # fmt: skip
"""Features, what is broken in their kernel, and what the simulator says of it."""


@pytest.mark.slow
@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_kernel_is_found(name: str) -> None:
    require_found(hopper(128, 1000, 128), *BREAKS[name])


def require_found(case: Case, rewrite: Callable[[str], str], what: str) -> None:
    """Run ``case`` with a broken kernel, which the simulator must name or stop."""
    given = arguments(case)
    if what == "deadlock":
        with pytest.raises(SimulationFault, match=what):
            call(given, rewrite=rewrite)
    else:
        findings = call(given, rewrite=rewrite).findings
        assert any(what in str(finding) for finding in findings)


@pytest.mark.slow
def test_rows_do_not_depend_on_their_neighbours() -> None:
    """A row's bits are those of a call that holds nothing else of its tile."""
    case = replace(hopper(200, 300, 128), num_qo=2)
    whole, given = run(case), arguments(case)
    given.q = given.q[:, 50:51].contiguous()
    assert torch.equal(call(given).out[0, 0], whole.out[0, 50])


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACED)
def test_a_kernel_whose_memory_is_broken_is_found(name: str) -> None:
    feature, rewrite, what = PLACED[name]
    # Only a narrow head dim leaves a persistent CTA memory to stage O.
    head_dim = 64 if feature == "persistent" else 128
    case = Case(frozenset({feature}), head_dim, lengths=((300, 200),) * 3, arch=SM90A)
    require_found(case, rewrite, what)


@pytest.mark.slow
def test_rows_of_v_that_are_not_cleaned_are_nan() -> None:
    case = Case(frozenset({"cache"}), 128, lengths=((30, 100), (30, 300)), arch=SM90A)
    kept = call(arguments(case), rewrite=without(r"@inside st\.shared::cluster\.v4\.b32[^;]*;"))
    assert kept.out.isnan().any()
    assert not run(case).out.isnan().any()


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"in_turn": False}, {"keys": 176}], ids=str)
@pytest.mark.parametrize("features", ["persistent ragged cache causal", *also("causal")])
def test_other_choices_of_the_plan(features: str, changes: dict[str, Any]) -> None:
    """Products at any time, and more keys to a tile."""
    case = Case(frozenset(features.split()), 128, lengths=SEQUENCES, arch=SM90A)
    spec = spec_of(case)
    assert isinstance(spec, SM90Spec)
    changed = replace(spec, config=replace(spec.config, **changes))
    checked(call(arguments(case), spec=changed))
