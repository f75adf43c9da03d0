"""What the checkers say of a launch, and whether its bits depend on when things land."""

from collections.abc import Callable
from typing import Any

import torch

from fa4_cute.host.run import simulator
from sm100sim.options import Check, run_options
from sm100sim.report import SimulationFault

CHECKS = Check.ALL | Check.TO_THE_LETTER
"""The package's kernels keep to the letter of the ISA."""
SCHEDULES: tuple[dict[str, Any], ...] = (
    {"mode": "late"},
    {"mode": "random", "seed": 1},
    {"mode": "random", "seed": 2},
)


def objections(launch: Callable[[], object], **options: Any) -> int:
    """Launch under all watchers; returns the number of findings, 1 for a run that stopped."""
    with run_options(checks=CHECKS, **options):
        try:
            launch()
        except SimulationFault:
            return 1
    report = simulator.last_report()
    assert report is not None
    return len(report.findings)


def check_schedules(launch: Callable[[], tuple[torch.Tensor, ...]]) -> None:
    """Assert that the results are the same bits, whenever asynchronous work lands."""
    at_once = launch()
    for options in SCHEDULES:
        with run_options(**options):
            others = launch()
        for result, other in zip(at_once, others, strict=True):
            assert torch.equal(result, other)
