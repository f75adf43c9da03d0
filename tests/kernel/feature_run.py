"""Runs of :class:`FeatureCase` through the public calls, held against float64."""

from __future__ import annotations

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
from testing.reference.attention import Comparison, compare
from testing.reference.fp8 import compare_fp8
from tests.kernel.feature_case import Builder, FeatureCase

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
