"""Score modifiers: what identifies a function, how tensors are dealt out, and what is refused."""

from __future__ import annotations

import math
import multiprocessing
import pickle
import traceback
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import fa4_cute
from fa4_cute import score_mods
from fa4_cute.device.math import score_math
from fa4_cute.plan.facts import function_digest
from fa4_cute.plan.facts.function_digest import digest_of

FACTOR = 0.5
SLOPES = torch.tensor([0.5, 0.25])


def plain(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score + 1.0


TEXT: Any = "30"
PLAIN: Any = plain
"""Of types that are refused."""


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


def test_a_digest_is_remembered_while_what_was_read_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    scale = 2.0

    def inner(score: Any) -> Any:
        return score * FACTOR

    def outer(score: Any, shift: float = 1.0, *where: Any) -> Any:
        return inner(score) * scale + shift

    def changes() -> Iterator[None]:
        nonlocal scale
        yield
        scale = 3.0
        yield
        monkeypatch.setitem(globals(), "FACTOR", 0.75)
        yield
        outer.__defaults__ = (2.0,)
        yield
        inner.__code__ = (lambda score: score).__code__
        yield

    digests = []
    for _ in changes():
        walk = mock.Mock(wraps=function_digest._function)
        with mock.patch.object(function_digest, "_function", walk):
            digests += [digest_of(outer), digest_of(outer)]
        # Once for ``outer``; the second time nothing is read anew.
        assert [call.args[0] for call in walk.call_args_list].count(outer) == 1
    assert digests[::2] == digests[1::2]
    assert len({*digests}) == len(digests) // 2


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
        (lambda s, *w: s * missing, ValueError, "the global 'missing' does not exist"),  # type: ignore[name-defined]  # noqa: F821  # refused
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
    assert capped.plan.cap == 30.0
    assert score_mods.chain(capped, capped).plan.cap == score_mods.alibi(SLOPES).plan.cap == 0.0
    tilted = score_mods.alibi(SLOPES)
    assert tilted.plan.aux_ranks == (1,)
    assert score_mods.alibi(SLOPES[None]).plan.aux_ranks == (2,)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: score_mods.softcap(0.0), ValueError, "softcap=0.0: must be a positive"),
        (lambda: score_mods.softcap(-3), ValueError, "choice: None"),
        (lambda: score_mods.softcap(math.inf), ValueError, "softcap=inf"),
        (lambda: score_mods.softcap(math.nan), ValueError, "softcap=nan"),
        (lambda: score_mods.softcap(TEXT), TypeError, "softcap='30': expected a real number"),
        (lambda: score_mods.softcap(True), TypeError, "softcap=True"),
        (lambda: score_mods.alibi([0.5]), TypeError, "alibi slopes: expected a torch.Tensor"),
        (lambda: score_mods.alibi(torch.zeros(1, 1, 1)), ValueError, "(num_q_heads,)"),
        (lambda: score_mods.chain(PLAIN), TypeError, "score_mods.function(...)"),
    ],
)
def test_refusals(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert words in str(caught.value)


def nothing(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
    """As FlexAttention calls it, and without a return."""


def branches(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return score if q_idx > kv_idx else -score


def by_math(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
    return math.tanh(score)


def of_flex(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
    return score * 0.5 + (q_idx - kv_idx) * 0.01


def chosen(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any) -> Any:
    return score_math.where(q_idx > kv_idx, score, -score) + score_math.exp(score)


def drawn() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(1, 20, 1, 64, generator=generator).bfloat16() for _ in range(3)]


def reference(modified: Callable[..., torch.Tensor]) -> torch.Tensor:
    q, k, v = (x[0, :, 0].double() for x in drawn())
    rows, keys = torch.arange(20)[:, None], torch.arange(20)[None]
    return modified(q @ k.T / 8, rows, keys).softmax(-1) @ v


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "modified"),
    [
        (of_flex, lambda s, i, j: s * 0.5 + (i - j) * 0.01),
        (chosen, lambda s, i, j: torch.where(i > j, s, -s) + s.exp()),
    ],
)
def test_modifiers_as_flexattention_takes_them(
    function: Callable[..., Any], modified: Callable[..., torch.Tensor]
) -> None:
    found = fa4_cute.flash_attn(*drawn(), score_mod=function)[0, :, 0]
    torch.testing.assert_close(found.double(), reference(modified), atol=0.02, rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "words"),
    [
        (nothing, ("score_mod nothing returns nothing", "return score")),
        (branches, ("score_mod branches cannot be traced", "test_score_mods.py, line", "where")),
        (by_math, ("score_mod by_math cannot be traced", "exp, tanh", "score_math")),
    ],
)
def test_modifiers_that_cannot_be_traced(
    function: Callable[..., Any], words: tuple[str, ...]
) -> None:
    with pytest.raises(score_mods.ScoreModError) as caught:
        fa4_cute.flash_attn(*drawn(), score_mod=function)
    assert isinstance(caught.value, TypeError)
    for word in words:
        assert word in str(caught.value)
    assert "\x1b" not in "".join(traceback.format_exception(caught.value))


def test_modifiers_with_other_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match=r"score_mod <lambda>\(s\): expected the arguments"):
        score_mods.function(lambda s: s)
    with pytest.raises(ValueError, match="aux_tensors: score_mod of_flex has no argument for them"):
        score_mods.function(of_flex, (SLOPES,))


@pytest.mark.slow
def test_modifiers_can_be_pickled() -> None:
    """As worker processes that are spawned need it; another interpreter reads them."""
    modifiers = [
        score_mods.softcap(30.0), score_mods.alibi(SLOPES), score_mods.function(plain),
        score_mods.chain(score_mods.softcap(2.0), score_mods.function(of_flex)),
    ]  # fmt: skip
    for modifier in modifiers:
        again = pickle.loads(pickle.dumps(modifier))
        assert again.plan == modifier.plan
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        digests = pool.map(digest_elsewhere, modifiers[:2])
    assert digests == [modifier.plan.digest for modifier in modifiers[:2]]


def digest_elsewhere(modifier: score_mods.ScoreModifier) -> str:
    return modifier.plan.digest
