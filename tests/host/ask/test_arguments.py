"""The records of a call's arguments: none is lost on the way."""

from __future__ import annotations

import inspect
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.host.ask.arguments import PLAIN_ARGUMENTS, Batch, Options, options_and_batch
from fa4_cute.host.operator import call, observed
from fa4_cute.host.run import calls

OPTIONS = {field.name: field.default for field in fields(Options)}
BATCH = {field.name: field.default for field in fields(Batch)}
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

    def carry_out(*arguments: Any) -> Any:
        arrived.extend(arguments)
        return SimpleNamespace(out="out", lse="lse", call=None)

    monkeypatch.setattr(calls, "carry_out", carry_out)
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


def test_plain_options_ask_for_nothing_more() -> None:
    assert Options(causal=True, softmax_scale=2.0, return_lse=True, unchecked=True).is_plain
    assert not Options(unchecked=1).is_plain  # type: ignore[arg-type]  # refused


@pytest.mark.parametrize("name", sorted(set(OPTIONS) - {*PLAIN_ARGUMENTS, "unchecked"}))
def test_every_other_option_is_not_plain(name: str) -> None:
    """Also what looks like nothing, such as zero."""
    default = OPTIONS[name]
    given: dict[str, Any] = {name: object() if default is None else not default}
    assert not Options(**given).is_plain


@pytest.mark.parametrize("name", [n for n in BATCH if not n.startswith("max_")])
def test_lengths_are_not_plain(name: str) -> None:
    given: dict[str, Any] = {name: object()}
    assert not Batch(**given).is_plain


def test_what_is_watched_goes_through_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    arrived: list[Any] = []

    def through_the_operator(*arguments: Any) -> tuple[str, None]:
        arrived.extend(arguments)
        return "out", None

    monkeypatch.setattr(observed, "is_observed", lambda _: True)
    monkeypatch.setattr(call, "call", through_the_operator)
    assert fa4_cute.flash_attn("q", "k", "v", sink="sink", seqused_k="n") == "out"
    inputs, options, batch = arrived
    assert (inputs, options.sink, batch.seqused_k) == (("q", "k", "v"), "sink", "n")
