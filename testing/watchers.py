"""What the checkers say of a call, and whether its bits depend on when things land."""

from __future__ import annotations

from typing import Any

import torch

from sm100sim.options import run_options
from sm100sim.report import SimulationFault
from testing.arguments import Arguments
from testing.runner import CHECKS, Outcome, Rewrite, call

SCHEDULES: tuple[dict[str, Any], ...] = (
    {"mode": "late"},
    {"mode": "random", "seed": 1},
    {"mode": "random", "seed": 2},
)
ONE_RANDOM: dict[str, Any] = {"mode": "random", "seed": 3}
IDLE = 1_000_000
"""Instructions without progress after which a broken kernel is stopped."""


def objections(
    given: Arguments, rewrite: Rewrite = str, *, spec: Any = None, artifact: Any = None,
    num_sms: int | None = None, **options: Any,
) -> list[str]:  # fmt: skip
    """Make a call under all checkers, in one random order by default; return what they say."""
    with run_options(checks=CHECKS, max_idle_instructions=IDLE, **(options or ONE_RANDOM)):
        try:
            outcome = call(
                given, rewrite=rewrite, spec=spec, artifact=artifact, num_sms=num_sms
            )
        except SimulationFault as fault:
            return [str(fault)]
    return [str(finding) for finding in outcome.findings]


def check_schedules(
    given: Arguments,
    *,
    spec: Any = None,
    schedules: tuple[dict[str, Any], ...] = SCHEDULES,
    num_sms: int | None = None,
) -> Outcome:
    """Return the outcome of a call: clean and the same bits, whenever asynchronous work lands."""
    with run_options(mode="fast"):
        at_once = call(given, spec=spec, num_sms=num_sms)
    for options in schedules:
        with run_options(checks=CHECKS, **options):
            other = call(given, spec=spec, num_sms=num_sms)
        assert not other.findings, other.findings[0]
        for result, again in zip(at_once.results, other.results, strict=True):
            assert torch.equal(result.nan_to_num(), again.nan_to_num())
    return at_once
