"""Hopper's windows of many keys, against float64."""

from __future__ import annotations

import pytest

import fa4_cute
from fa4_cute.host.ask import request
from fa4_cute.plan.facts.hardware import SM90A
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from testing.cases import Case
from testing.runner import CHECKS, SMS, check, spec_of
from tests.kernel.random_cases import also


@pytest.mark.slow
@pytest.mark.parametrize("persistent", [True, *also(False)])
def test_windows_of_many_keys(persistent: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three consumers, and with few SMs persistent CTAs that go by sections of heads."""
    monkeypatch.setattr(request, "num_sms_of", lambda *_: SMS if persistent else None)
    case = Case(frozenset({"window", "sink"}), 128, heads=6, kv_heads=3, window=(1700, 0),
                lengths=((300, 2100),) * 2, arch=SM90A)  # fmt: skip
    spec = spec_of(case)
    assert isinstance(spec, SM90Spec)
    assert spec.config.long_keys
    assert spec.variant.is_persistent is persistent
    with fa4_cute.simulator_options(checks=CHECKS, mode="late"):
        check(case)
