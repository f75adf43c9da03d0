"""Repeated calls: what they do is what a first call does, whatever came before."""

from __future__ import annotations

import gc
import threading
import weakref
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fa4_cute
from fa4_cute.host.compile import cache
from fa4_cute.host.run import calls, known, simulator
from tests.host.run.call_worlds import Recipe, machine, neighbourhoods, takes_the_long_way

WORLDS = st.tuples(
    neighbourhoods(),
    st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([0.5, 2.0, 0.0, -0.0])), min_size=4, max_size=8
    ),
)


def compare(worlds: tuple[list[Recipe], list[tuple[int, float]]], guarded: bool) -> int:
    """Make calls one after the other, each once by way of what is kept; return how many were."""
    choices, sequence = worlds
    kept, repeated = calls.Kept(), 0
    hide = mock.patch.object(known, "TensorGuards", known.TensorGuards if guarded else None)
    with machine() as made, hide:
        for index, number in sequence:
            drawn = choices[index % len(choices)].make(number)
            repeated += not takes_the_long_way(made, drawn, kept)
    return repeated


def search(worlds: Any, examples: int, guarded: bool) -> int:
    found: list[int] = []

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=examples < 100,
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn=worlds)
    def made(drawn: Any) -> None:
        found.append(compare(drawn, guarded))

    made()
    return sum(found)


@pytest.mark.parametrize("guarded", [True, False], ids=["one check", "whole key"])
def test_a_repeated_call_does_what_a_first_one_does(guarded: bool) -> None:
    if guarded and known.TensorGuards is None:
        pytest.skip("this torch has no such check")
    assert search(WORLDS, 50, guarded) > 30, "hardly any call was repeated"


PLAIN = Recipe("dense", torch.bfloat16, (5, 20), ("plain",) * 3, (("causal", True),), (), "right")
NEIGHBOURS = {
    "factors": [replace(PLAIN, tensors=(("scales", "plain"),))],
    "factors of fp8": [
        replace(PLAIN, dtype=torch.float8_e4m3fn, tensors=(("scales", kind),))
        for kind in ("plain", "half")
    ],
    "alignment": [PLAIN, replace(PLAIN, layouts=("misaligned", "plain", "plain"))],
    "negated": [PLAIN, replace(PLAIN, layouts=("plain", "negated", "plain"))],
    "type of a flag": [PLAIN, replace(PLAIN, constants=(("causal", 1),))],
    "type of a side": [
        replace(PLAIN, constants=(("window_size", window),)) for window in ((1, 0), (True, 0))
    ],
    "values": [
        replace(PLAIN, place="paged", lengths=lengths)
        for lengths in ("right", "too long", "shifted")
    ],
    "copies": [
        replace(PLAIN, layouts=("misaligned", "strided", "wide"), tensors=(("sink", "half"),)),
        replace(PLAIN, constants=(("unchecked", True),), lengths="int64", place="used"),
    ],
    "mask": [replace(PLAIN, tensors=(("mask", kind),)) for kind in ("bool", "half")],
    "function": [replace(PLAIN, tensors=(("score_mod", kind),)) for kind in ("bool", "half")],
    "memory": [replace(PLAIN, tensors=(("out", kind),)) for kind in ("plain", "nan")],
}
"""Calls that differ in one thing, which must not be lost."""


@pytest.mark.parametrize("guarded", [True, False], ids=["one check", "whole key"])
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_calls_that_differ_in_one_thing(name: str, guarded: bool) -> None:
    sequence = [(i, number) for number in (0.5, 2.0, 0.0, -0.0, 0.5, 2.0) for i in range(3)]
    assert compare((NEIGHBOURS[name], sequence), guarded) >= 6


@pytest.mark.exhaustive
def test_a_repeated_call_does_what_a_first_one_does_in_many_worlds() -> None:
    assert search(WORLDS, 500, True) > 300


def inputs(seed: int, *, seqlen_q: int = 5) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    shapes = ((2, seqlen_q, 4, 64), (2, 9, 2, 64), (2, 9, 2, 64))
    return tuple(torch.randn(s, generator=generator).bfloat16() for s in shapes)


def test_results_are_those_of_the_tensors_of_each_call() -> None:
    """On the simulator, one kernel: other tensors, other scales, and two launches a call."""
    scales = (0.125, 0.5, 0.125, 2.0)
    calls_made: list[tuple[Any, dict[str, Any]]] = [
        (inputs(seed), {"causal": True, "return_lse": True, "softmax_scale": scale})
        for seed, scale in enumerate(scales)
    ]
    repeated = [fa4_cute.flash_attn(*tensors, **options) for tensors, options in calls_made]
    assert len(calls.kept) == 1
    for (tensors, options), results in zip(calls_made, repeated, strict=True):
        calls.kept.clear()
        for got, want in zip(results, fa4_cute.flash_attn(*tensors, **options), strict=True):
            assert torch.equal(got, want)


def test_no_tensor_is_kept() -> None:
    with machine():
        tensors = inputs(1)
        sink, used = torch.zeros(4), torch.tensor([3, 9], dtype=torch.int32)
        options = {"sink": sink, "seqused_k": used, "unchecked": True, "return_lse": True}
        results = [fa4_cute.flash_attn(*tensors, **options) for _ in range(2)]
        watched = [weakref.ref(t) for t in (*tensors, sink, used, *results[0], *results[1])]
        assert len(calls.kept) == 1
        del tensors, sink, used, options, results
        gc.collect()
    assert [reference() for reference in watched] == [None] * len(watched)


def test_booleans_are_read_in_every_call() -> None:
    visible = torch.ones(5, 9, dtype=torch.bool)
    with machine() as made:
        seen = []
        for _ in range(3):
            fa4_cute.flash_attn(*inputs(0), mask=visible)
            seen.append(bytes(made.launches[-1][3][3][1]))
            visible[0, 3] ^= True
        assert len(calls.kept) == 1
    assert seen[0] == seen[2] != seen[1]


def test_calls_of_several_threads_do_not_share_a_block() -> None:
    """Every launch waits for the others inside the machine, and then sees its own addresses."""
    barrier, wrong = threading.Barrier(4, timeout=30), []
    with machine() as made:
        fa4_cute.flash_attn(*inputs(0))

        def launch(ptx: str, kernel: str, packed: Any, buffers: list[Any]) -> None:
            barrier.wait()
            maps = [int.from_bytes(value[:8], "little") for value in packed.params[:4]]
            if maps != [buffer.address for buffer in buffers]:
                wrong.append(maps)

        def repeat(seed: int) -> None:
            tensors = inputs(seed)
            for _ in range(20):
                fa4_cute.flash_attn(*tensors)

        with mock.patch.object(simulator, "launch", launch):
            threads = [threading.Thread(target=repeat, args=(seed,)) for seed in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(made.launches) == 1
    assert not barrier.broken
    assert not wrong


def test_what_is_kept_is_bounded_and_the_latest_stays() -> None:
    kept = calls.Kept(8)
    with machine(), mock.patch.object(calls, "kept", kept):
        for seqlen in range(1, 30):
            fa4_cute.flash_attn(*inputs(0))
            fa4_cute.flash_attn(*inputs(0, seqlen_q=seqlen))
            assert len(kept) <= 8
        with mock.patch.object(calls, "carry_out") as long_way:
            fa4_cute.flash_attn(*inputs(0))
            fa4_cute.flash_attn(*inputs(0, seqlen_q=29))
        assert not long_way.called


def test_clearing_the_cache_forgets_the_calls() -> None:
    with machine():
        fa4_cute.flash_attn(*inputs(0))
        assert len(calls.kept) == 1
        with mock.patch.object(cache, "process_cache"):
            fa4_cute.clear_cache()
        assert len(calls.kept) == 0


def test_what_cannot_be_read_takes_the_long_way() -> None:
    """A scale without memory is refused there, and not on the way in."""
    q, k, v = (t.to(torch.float8_e4m3fn) for t in inputs(0))
    with machine(), pytest.raises(ValueError, match=r"v_scale.device=meta differs"):
        fa4_cute.flash_attn(q, k, v, v_scale=torch.ones(1, device="meta"))


@pytest.mark.parametrize("guarded", [True, False], ids=["one check", "whole key"])
def test_gradients_are_refused_after_calls_without_them(
    guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not guarded:
        monkeypatch.setattr(known, "TensorGuards", None)
    q, k, v = inputs(0)
    weight = torch.nn.Parameter(q)
    with machine():
        for _ in range(2):
            with torch.no_grad():
                fa4_cute.flash_attn(weight, k, v)
            with pytest.raises(NotImplementedError, match=r"q\.requires_grad=True"):
                fa4_cute.flash_attn(weight, k, v)
        with torch.no_grad(), mock.patch.object(calls, "carry_out") as long_way:
            fa4_cute.flash_attn(weight, k, v)
        assert not long_way.called


@pytest.mark.skipif(known.TensorGuards is None, reason="this torch has no such check")
def test_calls_are_recognised_in_one_step_in_every_mode() -> None:
    tensors = inputs(0)
    with machine():
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode, torch.enable_grad):
            with mode():
                fa4_cute.flash_attn(*tensors)
                with mock.patch.object(calls, "key_of") as whole_key:
                    fa4_cute.flash_attn(*tensors)
            assert not whole_key.called, mode


@pytest.mark.parametrize("guarded", [True, False], ids=["one check", "whole key"])
def test_memory_that_was_freed_is_not_read(
    guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the first call and when repeated; as sharded parameters have it between two uses."""
    if not guarded:
        monkeypatch.setattr(known, "TensorGuards", None)
    q, k, v = inputs(0)
    with machine():
        for _ in range(2):
            freed = k.clone()
            freed.untyped_storage().resize_(0)
            with pytest.raises(ValueError, match=r"k: shape .* its memory was freed"):
                fa4_cute.flash_attn(q, freed, v)
            fa4_cute.flash_attn(q, k, v)


def test_a_launch_that_fails_leaves_nothing_behind() -> None:
    with machine():
        fa4_cute.flash_attn(*inputs(0))
        failing = mock.patch.object(simulator, "launch", side_effect=RuntimeError("broken"))
        with failing, pytest.raises(RuntimeError, match="broken"):
            fa4_cute.flash_attn(*inputs(1))
        fa4_cute.flash_attn(*inputs(2))
