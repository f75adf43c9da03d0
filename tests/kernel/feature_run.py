"""Runs of :class:`FeatureCase` through the public calls, held against float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

import torch

import fa4_cute
from fa4_cute.host.ask.problem import Problem
from fa4_cute.host.run import compute, simulator
from fa4_cute.host.run.launch import pack_launch
from testing.reference.attention import Comparison, attention_float64, compare
from tests.kernel.feature_case import Builder, FeatureCase, Tensors
from tests.kernel.fp8_case import LIFT, ROUNDING, ROUNDING_OF_O, SMALLEST_E4M3

SMS = 3
"""SMs of the device, so that a persistent CTA takes several query tiles."""


@dataclass(frozen=True)
class Outcome:
    """One call: its results, how far they are from float64, and its launches' verdicts."""

    out: torch.Tensor
    lse: torch.Tensor
    comparison: Comparison
    verdicts: tuple[str, ...]


@contextmanager
def launches() -> Iterator[list[Any]]:
    """Collect the reports of all launches inside the block."""
    reports: list[Any] = []
    launch = simulator.launch

    def recorded(*arguments: Any) -> Any:
        reports.append(launch(*arguments))
        return reports[-1]

    with mock.patch.object(simulator, "launch", recorded):
        yield reports


def compare_fp8(
    out: torch.Tensor, lse: torch.Tensor, inputs: Tensors, **options: Any
) -> Comparison:
    """Compare with float64 on what the operands stand for; every P may be rounded the wrong way."""
    scales = [torch.as_tensor(options.pop(f"{name}_scale", 1.0)).unsqueeze(-1) for name in "qkv"]
    wide = tuple(t.double() * s for t, s in zip(inputs, scales, strict=True))
    for name, scale in zip(("q_rope", "k_rope"), scales[:2], strict=True):
        if name in options:  # Scales multiply scores, and so these columns too.
            options[name] = options[name].double() * scale
    exact = attention_float64(*wide, **options)
    # P below the smallest e4m3 number is rounded absolutely, at most once for every key.
    tiny = SMALLEST_E4M3 / 2.0 ** (LIFT + 1) * exact.weight.new_tensor(wide[2].shape[-3])
    largest = wide[2].nan_to_num(0.0).abs().amax()
    bound = ROUNDING * exact.weight + tiny * largest + ROUNDING_OF_O * exact.out.abs() + 1e-6
    error = (out.double() - exact.out).abs()
    lse_error = torch.where(lse.double() == exact.lse, 0.0, (lse.double() - exact.lse).abs())
    failures = [] if bool((error <= bound).all()) else ["O is out of bounds"]
    failures += [] if bool((lse_error <= 3e-4).all()) else ["LSE is out of bounds"]
    most = (float(x.max()) if x.numel() else 0.0 for x in (error, bound, lse_error))
    max_error, limit, max_lse_error = most
    return Comparison(max_error, math.nan, limit, max_lse_error, tuple(failures))


@contextmanager
def query_tiles(num_qo: int | None) -> Iterator[None]:
    """Fix the number of Q tiles per CTA for the calls inside the block."""
    original = Problem.from_shapes

    def fixed(*arguments: Any, **options: Any) -> Problem:
        return replace(original(*arguments, **options), num_qo=num_qo)

    with mock.patch.object(Problem, "from_shapes", fixed):
        yield


def run(case: FeatureCase, seed: int = 0, **options: Any) -> Outcome:
    """Run a case through the public call, with further ``options``."""
    builder = Builder(case, seed)
    inputs = builder.inputs()
    builder.set(**options)
    ragged = "cu_seqlens_q" in builder.options
    call = fa4_cute.flash_attn_varlen if ragged else fa4_cute.flash_attn
    few = mock.patch.object(compute, "pack_launch", partial(pack_launch, num_sms=SMS))
    with launches() as reports, query_tiles(case.num_qo), few:
        out, lse = call(*inputs, return_lse=True, **builder.options)
    judge = compare_fp8 if case.is_fp8 else compare
    found = judge(out, lse, inputs, **builder.options)
    return Outcome(out, lse, found, tuple(report.verdict for report in reports))


def check(case: FeatureCase, seed: int = 0, **options: Any) -> Outcome:
    """Run a case; it must be right, and clean under the checkers."""
    outcome = run(case, seed, **options)
    outcome.comparison.check()
    assert outcome.verdicts
    assert set(outcome.verdicts) == {"clean"}, outcome.verdicts
    return outcome
