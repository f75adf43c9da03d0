"""What one foreign kernel run is: inputs on host memory, a launch, and an independent reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Outcome:
    """Results of one run: what the kernel wrote and what float64 arithmetic gives for it.

    `others` are further outputs of the same run; errors are the worst of all outputs.
    """

    actual: torch.Tensor
    expected: torch.Tensor
    others: tuple[Outcome, ...] = ()

    def max_error(self) -> float:
        """Largest absolute difference; infinite when the kernel left anything not finite."""
        difference = self._difference().abs()
        own = float(difference.max()) if torch.isfinite(difference).all() else math.inf
        return max([own, *(other.max_error() for other in self.others)])

    def relative_error(self) -> float:
        """Frobenius norm of the difference over that of the reference; infinite if not a number."""
        expected = self.expected.double()
        scale = expected[torch.isfinite(expected)].norm().clamp_min(1e-30)
        own = float(self._difference().norm() / scale)
        own = math.inf if math.isnan(own) else own
        return max([own, *(other.relative_error() for other in self.others)])

    def _difference(self) -> torch.Tensor:
        """Element by element; equal infinities do not differ."""
        actual, expected = self.actual.double(), self.expected.double()
        return torch.where(actual == expected, 0.0, actual - expected)


@dataclass(frozen=True)
class Case:
    """One foreign kernel in one configuration.

    Attributes:
        name: unique, also the file name of records about it.
        source: the package or repository that the kernel comes from.
        tolerance: accepted :meth:`Outcome.relative_error`.
        run: makes inputs, calls the kernel, returns both results; None of a program whose own
            assertions, on its own terms, have held.
        note: what is known about a result that is not "ok".
        arch: what the kernel is compiled for; a process runs the cases of one architecture.
    """

    name: str
    source: str
    tolerance: float
    run: Callable[[], Outcome | None]
    note: str = ""
    arch: str = "sm_100a"


def poisoned(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """An output full of NaN, so that an element which is never written shows."""
    return torch.full(shape, math.nan, dtype=dtype)


def normal(*shape: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Reproducible standard normal values."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)
