"""The records of a call's arguments: none is lost on the way, least of all by torch.compile."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.host import interface
from fa4_cute.host.ask.arguments import OPERATOR_ARGUMENTS, Batch, Options, options_and_batch
from fa4_cute.host.run import torch_op

OPTIONS = {field.name: field.default for field in fields(Options)}
BATCH = {field.name: field.default for field in fields(Batch)}
APART = [name for name in OPTIONS if name not in (*OPERATOR_ARGUMENTS, "unchecked")]
LENGTHS = ("seqused_k", "page_table")


def keywords(function: Any) -> dict[str, Any]:
    """Return the keyword arguments of ``function`` with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def test_the_fields_are_the_keywords_of_the_public_functions_with_their_defaults() -> None:
    assert keywords(fa4_cute.flash_attn) == OPTIONS | dict.fromkeys(LENGTHS)
    required = {"cu_seqlens_q": inspect.Parameter.empty}
    assert keywords(fa4_cute.flash_attn_varlen) == OPTIONS | BATCH | required


@pytest.mark.parametrize(
    ("function", "names"),
    [(fa4_cute.flash_attn, (*OPTIONS, *LENGTHS)), (fa4_cute.flash_attn_varlen, (*OPTIONS, *BATCH))],
)
def test_every_argument_arrives_under_its_name(
    function: Any, names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived: list[Any] = []

    def compute(*arguments: Any) -> tuple[str, str]:
        arrived.extend(arguments)
        return "out", "lse"

    monkeypatch.setattr(interface, "compute", compute)
    given = {name: object() for name in names}
    assert function("q", "k", "v", **given) == ("out", "lse")
    inputs, options, batch = arrived
    assert inputs == ("q", "k", "v")
    for name, value in given.items():
        assert getattr(options if name in OPTIONS else batch, name) is value


def test_arguments_are_sorted_by_what_they_are_about() -> None:
    options, batch = options_and_batch({"causal": True, "max_seqlen_q": 3, "q_rope": 5})
    assert (options.causal, options.q_rope, options.rope) == (True, 5, (5, None))
    assert batch.max_seqlen_q == 3
    with pytest.raises(TypeError, match="casual"):
        options_and_batch({"casual": True})


def test_an_unknown_argument_is_an_error_of_the_question() -> None:
    q = torch.zeros(1, 8, 1, 64, dtype=torch.float16)
    for ask in (fa4_cute.can_implement, fa4_cute.explain):
        with pytest.raises(TypeError, match="casual"):
            ask(q, q, q, casual=True)


def test_plain_options_are_those_that_the_operator_carries() -> None:
    assert tuple(inspect.signature(torch_op._shapes).parameters) == (*"qkv", *OPERATOR_ARGUMENTS)
    assert Options(causal=True, softmax_scale=2.0, return_lse=True, unchecked=True).is_plain
    assert not Options(unchecked=1).is_plain  # type: ignore[arg-type]
    assert not Batch(cu_seqlens_q=object()).is_plain


@pytest.mark.parametrize("name", APART)
def test_no_option_is_lost_under_torch_compile(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the operator has no argument for is computed apart, also where it looks like nothing."""
    asked: list[Any] = []

    def apart(*arguments: Any) -> tuple[str, None]:
        asked.append(arguments)
        return "apart", None

    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr(torch_op, "compute_apart", apart)
    monkeypatch.setattr(torch_op, "attention", lambda *_: ("operator", None))
    default = OPTIONS[name]
    given = object() if default is None else not default
    assert fa4_cute.flash_attn("q", "k", "v") == "operator"  # type: ignore[arg-type]
    assert fa4_cute.flash_attn("q", "k", "v", **{name: given}) == "apart"  # type: ignore[arg-type]
    ((_, options, _),) = asked
    assert getattr(options, name) is given


@pytest.mark.parametrize("name", [n for n in BATCH if not n.startswith("max_")])
def test_no_length_is_lost_under_torch_compile(name: str) -> None:
    assert not Batch(**{name: object()}).is_plain
