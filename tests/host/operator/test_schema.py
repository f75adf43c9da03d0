"""Nothing of a call can be forgotten: records, schema and what is carried agree."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch

from fa4_cute.host.ask.arguments import Batch, Options
from fa4_cute.host.operator.define import ATTENTION, ATTENTION_INTO
from fa4_cute.host.operator.schema import (
    ARGUMENTS,
    FLOATS,
    OF_BATCH,
    OF_OPTIONS,
    SCALES,
    WRITTEN,
    bound,
    tensors_of,
)
from tests.host.operator.cases import CASES, Case
from tests.host.operator.stand_in import StandIn, same

CARRIED: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in (*OF_OPTIONS, *OF_BATCH, *FLOATS, "window_size", *WRITTEN)},
    **{name: (name, f"{name}_number") for name in SCALES},
    "mask": ("mask", "mask_lengths", "mask_biases"),
    "score_mod": ("score_mod", "aux_tensors"),
    "aux_tensors": ("score_mod", "aux_tensors"),
}
"""Field of ``Options`` or ``Batch`` -> the arguments that carry it."""
FIELDS = {field.name for record in (Options, Batch) for field in fields(record)}


def names(operator: Any) -> list[str]:
    return [argument.name for argument in operator._schema.arguments]


def test_every_field_of_the_records_is_carried() -> None:
    assert set(CARRIED) == FIELDS


def test_every_argument_carries_a_field() -> None:
    carrying = {argument for arguments in CARRIED.values() for argument in arguments}
    assert carrying == {*ARGUMENTS, *WRITTEN} - {"q", "k", "v"}


def test_the_schema_lists_the_arguments() -> None:
    assert names(ATTENTION) == list(ARGUMENTS)
    assert names(ATTENTION_INTO) == [*WRITTEN, *ARGUMENTS]
    assert ATTENTION_INTO._schema.is_mutable
    assert not ATTENTION._schema.is_mutable


def test_the_cases_give_every_field(stand_in: StandIn) -> None:
    """So that the tests over all cases are tests of all fields."""
    default = {**vars(Options()), **vars(Batch())}
    given: set[str] = set()
    for case in CASES.values():
        case.call(*case.tensors)
        changed = stand_in.calls[-1]
        given |= {name for name in FIELDS if not same(changed[name], default[name])}
    assert given | {"aux_tensors", "out", "lse"} == FIELDS


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_argument_arrives_as_it_was_given(case: Case, stand_in: StandIn) -> None:
    want = case.call(*case.tensors)
    with torch.autograd.profiler.profile():
        got = case.call(*case.tensors)
    assert same(got, want)
    plain, carried = stand_in.calls
    assert [name for name in plain if not same(plain[name], carried[name])] == []


def test_the_end_may_be_left_out() -> None:
    values = bound(("Q", "K", "V", [], [], [], True))
    assert list(values) == list(ARGUMENTS)
    assert (values["k"], values["causal"], values["max_seqlen_k"]) == ("K", True, None)


def test_tensors_are_found_by_name() -> None:
    values = {**bound(()), "q": 1, "mask_biases": [2, 3], "sink": 4}
    assert tensors_of(values) == {"q": 1, "mask_biases[0]": 2, "mask_biases[1]": 3, "sink": 4}
