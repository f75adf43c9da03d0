"""Arguments of calls, sorted by names and types."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from fa4_cute import masks, score_mods
from fa4_cute.host.run import sorting
from fa4_cute.host.run.sorting import arguments, sort_of

INPUTS = tuple(torch.zeros(1) for _ in "qkv")


def sorted_of(**options: Any) -> Any:
    return arguments(INPUTS, options, "function")


@pytest.mark.parametrize(
    ("name", "value", "sort"),
    [
        ("causal", True, "constant"),
        ("softcap", 2.0, "constant"),
        ("softmax_scale", 2.0, "factor"),
        ("softmax_scale", 2, "constant"),
        ("q_scale", INPUTS[0], "scale"),
        ("out", INPUTS[0], "written"),
        ("sink", torch.nn.Parameter(INPUTS[0]), "tensor"),
        ("mask", INPUTS[0], None),
        ("mask", masks.causal(), "mask"),
        ("score_mod", score_mods.softcap(2.0), "modifier"),
        ("score_mod", lambda score, *_: score, None),
        ("window_size", (1, 2), "window"),
        ("window_size", [1, 2], None),
        ("aux_tensors", [], "absent"),
    ],
)
def test_what_becomes_of_an_argument(name: str, value: Any, sort: str | None) -> None:
    assert sort_of(name, type(value)) == sort


def test_everything_has_its_place() -> None:
    tensors = {name: torch.ones(3) for name in ("sink", "q_scale", "out", "slopes", "lengths")}
    found = sorted_of(
        sink=tensors["sink"], mask=masks.padding(tensors["lengths"].int()), causal=True,
        q_scale=tensors["q_scale"], k_scale=torch.full((1,), 0.5), softmax_scale=2.0,
        score_mod=score_mods.alibi(tensors["slopes"]), window_size=(3, 0), out=tensors["out"],
        aux_tensors=(), unchecked=True,
    )  # fmt: skip
    padding = found.tensors[5]
    expected = [*INPUTS, tensors["sink"], tensors["q_scale"], padding, tensors["slopes"]]
    assert [*map(id, found.tensors)] == [*map(id, expected)]
    assert padding.dtype is torch.int32
    assert found.written[0] is tensors["out"]
    assert found.numbers == [("softmax_scale", 2.0), ("k_scale", 0.5)]
    assert not found.looks


def test_calls_alike_but_for_factors_and_tensors_have_the_same_constants() -> None:
    one, two = (sorted_of(softmax_scale=n, sink=torch.ones(3), causal=True) for n in (0.5, 2.0))
    assert one.constants == two.constants
    assert one.looks


@pytest.mark.parametrize(
    "options",
    [
        {"causal": 1},
        {"causal": False},
        {"causal": True, "return_lse": False},
        {"causal": True, "window_size": (1, 0)},
        {"causal": True, "q_scale": torch.ones(1)},
        {"causal": True, "q_scale": torch.ones(2)},
    ],
)
def test_calls_that_differ_have_other_constants(options: dict[str, Any]) -> None:
    assert sorted_of(causal=True).constants != sorted_of(**options).constants


def test_types_in_a_window_count() -> None:
    first, second = (sorted_of(window_size=w) for w in ((1, 0), (True, 0)))
    assert first.constants != second.constants


@pytest.mark.parametrize(
    "options", [{"softmax_scale": 0.0}, {"k_scale": torch.zeros(1)}, {"aux_tensors": (1,)}]
)
def test_what_takes_the_long_way(options: dict[str, Any]) -> None:
    assert sorted_of(**options) is None


def test_sorters_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "_MOST_SORTERS", 4)
    for i in range(20):
        assert sorted_of(**{f"option{i}": True}) is not None
        assert len(sorting._sorters) <= 4
