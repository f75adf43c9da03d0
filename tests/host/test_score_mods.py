"""Score modifiers: what identifies a function, how tensors are dealt out, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fa4_cute import score_mods
from fa4_cute.plan.facts.function_digest import digest_of
from fa4_cute.score_mods import Derived

FACTOR = 0.5
SLOPES = torch.tensor([0.5, 0.25])


def plain(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score + 1.0


def made(value: Any) -> Callable[..., Any]:
    return lambda score, batch, head, q_idx, kv_idx, aux: score * value


def helper(x: Any) -> Any:
    return x * 2.0


def with_helper(score: Any, *where: Any) -> Any:
    return helper(score)


def with_global(score: Any, *where: Any) -> Any:
    return score * FACTOR


def with_module(score: Any, *where: Any) -> Any:
    return score * math.pi


def with_numpy(score: Any, *where: Any) -> Any:
    return score * np.pi


def test_a_digest_depends_on_code_and_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    assert digest_of(plain) == digest_of(plain)
    assert digest_of(made(1.0)) == digest_of(made(1.0))
    different = [
        plain, made(1.0), made(2.0), made(1), made(True), made((1.0, 2.0)), made(None), with_helper,
        with_global, with_module, lambda score, *where: score, lambda score, *where: -score,
    ]  # fmt: skip
    digests = [digest_of(function) for function in different]
    assert len(set(digests)) == len(different)
    monkeypatch.setitem(globals(), "FACTOR", 0.75)
    assert digest_of(with_global) not in digests
    monkeypatch.setitem(globals(), "helper", lambda x: x * 3.0)
    assert digest_of(with_helper) not in digests


def test_two_lambdas_on_one_line_differ() -> None:
    one, other = (lambda s, *w: s + 1.0), (lambda s, *w: s + 2.0)
    assert digest_of(one) != digest_of(other)


def test_defaults_count() -> None:
    def first(score: Any, *where: Any, by: float = 1.0) -> Any:
        return score * by

    def second(score: Any, *where: Any, by: float = 2.0) -> Any:
        return score * by

    second.__name__ = first.__name__
    assert digest_of(first) != digest_of(second)


def test_inner_functions_count() -> None:
    def outer(value: float) -> Callable[..., Any]:
        def function(score: Any, *where: Any) -> Any:
            scaled = [factor * value + FACTOR for factor in (score,)]
            return scaled[0]

        return function

    assert digest_of(outer(1.0)) != digest_of(outer(2.0))


def test_recursion_ends() -> None:
    def power(score: Any, *where: Any) -> Any:
        return score if where else power(score, 1)

    assert digest_of(power)


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (made([1.0]), ValueError, "'value' is a list"),
        (made({"a": 1}), ValueError, "'value' is a dict"),
        (made(torch.ones(1)), ValueError, "'value' is a torch.Tensor"),
        (made(object()), ValueError, "aux_tensors=(...) for data"),
        (with_numpy, ValueError, "'np' is a module"),
        (lambda s, *w: s * missing, ValueError, "the global 'missing' does not exist"),  # type: ignore[name-defined]  # noqa: F821
        (max, TypeError, "expected a Python function, got builtin_function_or_method"),
        (torch.nn.ReLU(), TypeError, "expected a Python function"),
        ("score + 1", TypeError, "score_mod='score + 1'"),
    ],
)
def test_what_could_change_unnoticed(function: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        score_mods.function(function)
    assert words in str(caught.value)


def test_functions_with_tensors() -> None:
    table = torch.zeros(3, 4)
    mod = score_mods.function(plain, (SLOPES, table))
    assert mod.plan.aux_ranks == (1, 2)
    assert mod.plan.name.startswith("mod_plain_")
    assert mod.plan == score_mods.function(plain, (SLOPES, table)).plan
    assert mod.plan != score_mods.function(plain, (table, SLOPES)).plan
    assert mod.plan != score_mods.function(plain).plan
    with pytest.raises(TypeError, match=r"aux_tensors\[0\]: expected a torch.Tensor"):
        score_mods.function(plain, (1.0,))
    with pytest.raises(ValueError, match=r"aux_tensors\[0\]: a tensor without dimensions"):
        score_mods.function(plain, (torch.tensor(1.0),))


def test_names_of_functions_are_legal_in_ptx() -> None:
    name = score_mods.function(lambda score, *where: score).plan.name
    assert name.isascii()
    assert name.replace("_", "a").isalnum()


def test_a_chain_deals_out_its_tensors() -> None:
    calls: list[Any] = []

    def first(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
        return score + sum(aux)

    def second(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
        return score * aux[0]

    one, two, three = (torch.full((1,), n) for n in (1.0, 2.0, 3.0))
    mod = score_mods.chain(
        score_mods.function(first, (one, two)), score_mods.function(second, (three,))
    )
    assert [t.item() for t in mod.tensors] == [1.0, 2.0, 3.0]
    assert mod.plan.function is not None
    assert mod.plan.function(10.0, 0, 0, 0, 0, (1.0, 2.0, 3.0)) == (10.0 + 3.0) * 3.0
    swapped = score_mods.chain(*(score_mods.ScoreModifier((s,)) for s in reversed(mod.steps)))
    assert swapped.plan != mod.plan
    assert not calls


def test_ready_made_modifiers() -> None:
    capped = score_mods.softcap(30)
    assert capped.plan.name == "softcap_30_0"
    assert capped.plan != score_mods.softcap(31).plan
    tilted = score_mods.alibi(SLOPES)
    assert tilted.plan.aux_ranks == (1, 1)
    assert tilted.tensors[1] is Derived.OFFSETS
    assert score_mods.alibi(SLOPES[None]).plan.aux_ranks == (2, 1)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: score_mods.softcap(0.0), ValueError, "softcap=0.0: must be a positive"),
        (lambda: score_mods.softcap(-3), ValueError, "choice: None"),
        (lambda: score_mods.softcap(math.inf), ValueError, "softcap=inf"),
        (lambda: score_mods.softcap(math.nan), ValueError, "softcap=nan"),
        (lambda: score_mods.softcap("30"), TypeError, "softcap='30': expected a real number"),
        (lambda: score_mods.softcap(True), TypeError, "softcap=True"),
        (lambda: score_mods.alibi([0.5]), TypeError, "alibi slopes: expected a torch.Tensor"),
        (lambda: score_mods.alibi(torch.zeros(1, 1, 1)), ValueError, "(num_q_heads,)"),
        (lambda: score_mods.chain(plain), TypeError, "score_mods.function(...)"),
    ],
)
def test_refusals(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert words in str(caught.value)
