"""Calls of other sizes: what is patched is what a first call of these sizes packs."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fa4_cute
from fa4_cute.host.ask.features import Features
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.choose.support import choose, require
from fa4_cute.host.run import calls, compute, device
from tests.host.run.call_worlds import (
    Drawn,
    Recipe,
    ints,
    machine,
    neighbourhoods,
    recipes,
    takes_the_long_way,
)

PACKED = Recipe(
    "packed", torch.bfloat16, (5, 20), ("plain",) * 3, (("unchecked", True),), (), "right"
)
FP8 = torch.float8_e4m3fn
FEATURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "values looked at": {"constants": (("causal", True),)},
    "log-sum-exp": {"constants": (("return_lse", True), ("unchecked", True))},
    "splits": {"constants": (("num_splits", 3), ("split", "workspace"), ("return_lse", True))},
    "persistent": {"constants": (("scheduler", "persistent"), ("unchecked", True))},
    "chunks handed out": {
        "constants": (("causal", True), ("scheduler", "dynamic"), ("unchecked", True))
    },
    "two Q tiles": {"constants": (("num_qo", 2), ("unchecked", True))},
    "factors": {"tensors": (("scales", "plain"),), "dtype": FP8},
    "rope": {"tensors": (("rope", "plain"),)},
    "out": {"tensors": (("out", "plain"),)},
    "wide rows": {"layouts": ("wide", "wide", "wide")},
    "alibi": {"tensors": (("score_mod", "plain"),)},
}
SIZES = [(65, 20), (67, 33), (66, 20), (65, 17), (67, 33), (260, 40)]


def compare(sequence: list[Recipe]) -> int:
    """Make calls one after the other; return how many took the long way."""
    return long_ways_of([recipe.make(0.5) for recipe in sequence])


def long_ways_of(sequence: list[Drawn]) -> int:
    """Make calls one after the other; return how many took the long way."""
    kept = calls.Kept()
    with machine() as made:
        return sum(takes_the_long_way(made, drawn, kept) for drawn in sequence)


@pytest.mark.parametrize("place", ["packed", "packed cache", "packed pages"])
@pytest.mark.parametrize("feature", FEATURES)
def test_other_sizes_are_no_other_call(feature: str, place: str) -> None:
    recipe = replace(PACKED, place=place, **FEATURES[feature])
    cache = place == "packed cache"  # a cache of another length is another tensor
    sizes = [(n, 20 if cache else m) for n, m in SIZES]
    assert compare([replace(recipe, seqlens=size) for size in sizes]) == 1


def test_sizes_that_take_another_kernel_take_the_long_way_once_each() -> None:
    """Two Q tiles from some grid on; copies of few rows; decoding and prefill take turns."""
    sizes = [(5, 200), (3000, 200), (7, 200), (3001, 200), (6, 330)]
    assert compare([replace(PACKED, seqlens=size) for size in sizes]) == 2
    sizes = [(5, 200), (260, 200), (7, 200), (261, 200), (6, 330)]
    assert compare([replace(PACKED, seqlens=size) for size in sizes]) == 2


def test_keys_that_are_split_anew_by_their_number_are_no_other_call() -> None:
    """On Hopper: one long way for a kernel that splits, and one for a kernel that does not."""
    recipe = replace(PACKED, constants=(("arch", "sm_90a"), ("unchecked", True)))
    sizes = [(1, 300), (1, 3000), (2, 4000), (2, 301), (3, 9000)]
    assert compare([replace(recipe, seqlens=size) for size in sizes]) == 2


@pytest.mark.parametrize(
    "other",
    [
        replace(PACKED, layouts=("misaligned", "plain", "plain")),
        replace(PACKED, layouts=("strided", "plain", "plain")),
        replace(PACKED, dtype=torch.float16),
        replace(PACKED, tensors=(("mask", "plain"),)),
        replace(PACKED, seqlens=(0, 20)),
        replace(PACKED, seqlens=(5, 0)),
    ],
)
def test_what_changes_more_than_sizes_takes_the_long_way(other: Recipe) -> None:
    queries, keys = (n and n + 1 for n in other.seqlens)
    again = replace(other, seqlens=(queries, keys))
    assert compare([PACKED, other]) == 2
    assert compare([other, PACKED, again]) >= 2


def test_one_row_has_no_stride() -> None:
    """Its stride does not fit TMA, and does not matter; that of several rows does."""

    def call(rows: int) -> torch.Tensor:
        k = torch.zeros(rows, 64 + 4, dtype=torch.bfloat16)[:, :64].unsqueeze(1)
        starts = ints(0, rows)
        return fa4_cute.flash_attn_varlen(
            k.contiguous(), k, k, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=rows,
            max_seqlen_k=rows, unchecked=True,
        )  # fmt: skip

    with machine(), mock.patch.object(calls, "carry_out", wraps=compute.carry_out) as taken:
        call(1)
        call(5)
        assert taken.call_count == 2


def with_table(recipe: Recipe, width: int, *, transposed: bool = False) -> Drawn:
    """Return a call over pages whose table is of this width."""
    drawn = recipe.make(0.5)
    first, second = [0, 1, *[2] * width][:width], [3, 2, *[1] * width][:width]
    table = ints(first, second)
    drawn.options["page_table"] = table.t().contiguous().t() if transposed else table
    drawn.options["seqused_k"] = ints(min(3, 16 * width), min(17, 16 * width))
    return drawn


@pytest.mark.parametrize("place", ["paged", "packed pages"])
@pytest.mark.parametrize("constants", [(("unchecked", True),), (("return_lse", True),)])
def test_page_tables_may_be_of_any_width(place: str, constants: Any) -> None:
    recipe = replace(PACKED, place=place, constants=constants)
    assert long_ways_of([with_table(recipe, width) for width in (2, 3, 1, 7, 2)]) == 1
    empty = [with_table(recipe, width) for width in (2, 0, 3)]
    assert long_ways_of(empty) == 2
    strided = [with_table(recipe, width, transposed=True) for width in (3, 2)]
    assert long_ways_of([with_table(recipe, 2), *strided]) == 3


def test_what_launches_on_a_gpu_are_packed_for(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher = SimpleNamespace(encode=lambda fields: b"map", num_sms=lambda index: 100 + index)
    monkeypatch.setattr(device, "launcher", lambda: launcher)
    q = SimpleNamespace(device=torch.device("cuda", 3))
    assert calls._machine_of(q) == (launcher.encode, 103)


@pytest.mark.parametrize("name", ["max_seqlen_q", "max_seqlen_k"])
@pytest.mark.parametrize("value", [-1, True, 2.0, 1 << 31])
def test_wrong_sizes_are_refused_as_ever(name: str, value: Any) -> None:
    drawn = PACKED.make(0.5)
    options = drawn.options | {name: value}
    with machine():
        drawn()
        with pytest.raises((TypeError, ValueError), match=f"{name.removeprefix('max_')}=") as quick:
            fa4_cute.flash_attn_varlen(*drawn.inputs, **options)
        calls.kept.clear()
        with pytest.raises((TypeError, ValueError)) as slow:
            fa4_cute.flash_attn_varlen(*drawn.inputs, **options)
    assert str(quick.value) == str(slow.value)


def test_results_on_the_simulator() -> None:
    """Ragged batches of several sizes against each sequence alone."""
    generator = torch.Generator().manual_seed(3)
    options: dict[str, Any] = {"causal": True, "unchecked": True}
    for lengths in ((3, 9), (8, 2), (4, 17)):
        total, starts = sum(lengths), ints(0, lengths[0], sum(lengths))
        q, k, v = (torch.randn(total, 2, 64, generator=generator).bfloat16() for _ in "qkv")
        long_way = mock.patch.object(calls, "carry_out", wraps=compute.carry_out)
        with long_way as taken:
            found = fa4_cute.flash_attn_varlen(
                q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=max(lengths),
                max_seqlen_k=max(lengths), **options,
            )  # fmt: skip
        assert taken.called is (lengths == (3, 9))
        for part in (slice(0, lengths[0]), slice(lengths[0], total)):
            alone = fa4_cute.flash_attn(q[None, part], k[None, part], v[None, part], causal=True)
            assert torch.equal(found[part], alone[0])


def lengths_of(lengths: tuple[int, ...]) -> torch.Tensor:
    """Call with packed prompts of these lengths; return O, of which every sequence alone has as
    many bits."""
    generator = torch.Generator().manual_seed(sum(lengths))
    total, starts = sum(lengths), ints(*accumulate(lengths, initial=0))
    q, k, v = (torch.randn(total, 2, 64, generator=generator).bfloat16() for _ in "qkv")
    found: torch.Tensor = fa4_cute.flash_attn_varlen(
        q, k, v, cu_seqlens_q=starts, cu_seqlens_k=starts, max_seqlen_q=max(lengths),
        max_seqlen_k=max(lengths), causal=True, num_qo=2, unchecked=True,
    )  # fmt: skip
    parts = zip(*(x.split(lengths) for x in (q, k, v, found)), strict=True)
    for one_q, one_k, one_v, of_all in parts:
        alone = fa4_cute.flash_attn(
            one_q[None], one_k[None], one_v[None], causal=True, num_qo=2
        )
        assert torch.equal(of_all, alone[0])
    return found


def test_steps_that_differ_and_steps_alike_take_the_long_way_once_each() -> None:
    """Query tiles are counted by rows in some of the steps, and have other numbers of them."""
    steps = ((600, 1, 2, 3), (300, 300, 290, 280), (570, 9, 1, 200), (520, 1, 1, 1), (290,) * 4)
    kinds = [
        require(choose(Problem(
            "bf16", len(lengths), max(lengths), max(lengths), 2, 2, 64, 64, causal=True, num_qo=2,
            features=Features(ragged_q=True, ragged_k=True), total_q=sum(lengths),
        ))).spec.variant.by_rows
        for lengths in steps
    ]  # fmt: skip
    assert kinds == [True, False, True, True, False]
    calls.kept.clear()
    packed = mock.patch.object(calls, "carry_out", wraps=compute.carry_out)
    with packed as taken:
        for lengths in steps:
            lengths_of(lengths)
        of_packed = [c for c in taken.call_args_list if c.args[2].cu_seqlens_q is not None]
    assert len(of_packed) == 2


@st.composite
def serving(draw: st.DrawFn) -> list[Recipe]:
    """Draw calls over packed queries that differ in sizes, and neighbours of them."""
    place = draw(st.sampled_from(["packed", "packed cache", "packed pages"]))
    first = replace(draw(recipes()), place=place)
    sizes = draw(st.lists(st.tuples(st.sampled_from([1, 2, 5, 300]), st.sampled_from([1, 20, 33])),
                          min_size=2, max_size=4))  # fmt: skip
    near = [replace(recipe, place=place) for recipe in draw(neighbourhoods())[:1]]
    return [first, *(replace(first, seqlens=size) for size in sizes), *near, first]


def search(examples: int) -> tuple[int, int]:
    found: list[tuple[int, int]] = []
    made = settings(
        max_examples=examples,
        deadline=None,
        derandomize=examples < 100,
        suppress_health_check=list(HealthCheck),
    )(given(serving())(lambda drawn: found.append((len(drawn), compare(drawn)))))
    made()
    return sum(n for n, _ in found), sum(n for _, n in found)


def test_calls_of_drawn_sizes_do_what_first_calls_do() -> None:
    num_calls, long_ways = search(40)
    assert long_ways < 0.9 * num_calls, "hardly any call was repeated"


@pytest.mark.exhaustive
def test_many_calls_of_drawn_sizes_do_what_first_calls_do() -> None:
    num_calls, long_ways = search(400)
    assert long_ways < 0.9 * num_calls
