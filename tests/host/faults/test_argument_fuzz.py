"""Thousands of calls with odd arguments: a right result or a sentence, never anything else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from fa4_cute.host.compile.cache import KernelCache
from testing.reference.exact import attention_float64
from tests.host.faults.argument_cases import Case, odd_case

REFUSALS = (ValueError, TypeError, NotImplementedError)
RELATIVE = {torch.bfloat16: 2**-6, torch.float16: 2**-6}


class NotRun(Exception):
    """The arguments were accepted; the kernel is one too many to compile."""


def limit_kernels(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Compile ``most`` kernels and no more; calls that need another one end before their launch."""
    get = KernelCache.get
    allowed: list[Any] = []

    def limited(self: KernelCache, spec: Any) -> Any:
        if spec not in allowed and len(allowed) >= most:
            raise NotRun
        found = get(self, spec)
        if spec not in allowed:
            allowed.append(spec)
        return found

    monkeypatch.setattr(KernelCache, "get", limited)


def is_comparable(case: Case) -> bool:
    """Whether the reference takes the call: plain numbers, and no type that it computes apart."""
    options = case.options.values()
    tensors = [x for x in (*case.inputs, *options) if isinstance(x, torch.Tensor)]
    finite = all(x.device.type == "cpu" and not x.float().isnan().any() for x in tensors)
    return finite and case.inputs[0].dtype in RELATIVE


def check_result(case: Case, found: Any) -> None:
    """Compare a result with float64."""
    out, lse = found if isinstance(found, tuple) else (found, None)
    if out.device.type == "meta":
        return  # shapes, from the operator, which has no values to check
    assert not out.isnan().any()
    apart = ("return_lse", "q_scale", "k_scale", "v_scale")
    options = {name: value for name, value in case.options.items() if name not in apart}
    options["aux_tensors"] = options.get("aux_tensors") or ()
    if options.get("score_mod") is not None or not is_comparable(case):
        return
    exact = attention_float64(*case.inputs, **options)
    bound = RELATIVE[out.dtype] * (exact.weight + exact.out.abs()) + 1e-30
    assert ((out.double() - exact.out).abs() <= bound).all()
    if lse is not None:
        torch.testing.assert_close(lse.double(), exact.lse, rtol=1e-5, atol=1e-3)


def outcome(case: Case | str) -> str:
    """Run a case and return what came of it."""
    if isinstance(case, str):
        return said(case)
    try:
        found = case.function(*case.inputs, **case.options)
    except NotRun:
        return "accepted"
    except REFUSALS as error:
        return said(str(error))
    check_result(case, found)
    return "computed"


def said(sentence: str) -> str:
    """Check that a refusal names something and its value or kind, in one line of plain text."""
    assert len(sentence.split()) >= 3, sentence
    assert "\n" not in sentence, sentence
    assert "\x1b" not in sentence, sentence
    return "refused"


def run(seeds: range, report: Callable[[int, Any], Any]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for seed in seeds:
        try:
            kind = outcome(odd_case(seed))
        except Exception as error:
            report(seed, error)
            kind = "failed"
        counts[kind] = counts.get(kind, 0) + 1
    return counts


def expect(seeds: range) -> dict[str, int]:
    failed: list[str] = []

    def note(seed: int, error: Exception) -> None:
        case = odd_case(seed)
        what = case if isinstance(case, str) else case.replaced
        failed.append(f"seed {seed}, {what}: {type(error).__name__}: {str(error)[:300]}")

    counts = run(seeds, note)
    assert not failed, "\n".join(failed)
    return counts


def test_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    limit_kernels(monkeypatch, 1)
    counts = expect(range(400))
    assert counts["refused"] > 200
    assert counts["accepted"] > 40
    assert counts["computed"] > 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(4))
def test_thousands(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_kernels(monkeypatch, 12)
    counts = expect(range(10_000 * (part + 1), 10_000 * (part + 1) + 2000))
    assert counts["refused"] > 1000
    assert counts["computed"] > 20
