"""Tests of the operator run no kernel, but where they say so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from fa4_cute.host.ask.arguments import Batch, Options
from fa4_cute.host.ask.request import request
from fa4_cute.host.run import calls, compute
from tests.host.operator.stand_in import StandIn


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """What computes instead of a kernel, in plain calls and below the operator."""
    made = StandIn()

    def carry_out(inputs: Any, options: Options, batch: Batch) -> compute.Done:
        out, lse = made(inputs, options, batch)
        return compute.Done(out, lse, asked=request(inputs, options, batch))

    monkeypatch.setattr(calls, "carry_out", carry_out)
    monkeypatch.setattr(compute, "compute", made)
    return made


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    """Nothing of earlier compilations, and nothing left behind."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
