"""Yardsticks for results: attention in float64, in plain PyTorch, and the comparison with both.

A result passes when

* its largest error against float64 is at most twice that of plain PyTorch in the same element type,
  plus a rounding floor;
* every element is inside its own error bound, ``2.5 u (P |V|)`` with ``u`` the unit roundoff of the
  type: rounding P and O costs at most ``2 u``, so one wrong row of small numbers cannot hide
  after a row of large ones;
* O as a whole and every head of it have the right size, and every row of V counts once
  (``testing.reference.slopes``): errors that are small everywhere but never average out;
* every log-sum-exp is within :data:`LSE_ABSOLUTE` plus :data:`LSE_RELATIVE` of its magnitude, and
  minus infinity exactly where a query sees no key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from testing.reference.exact import (
    Reference,
    attention_float64,
    attention_plain,
    scale_of,
    visible,
)
from testing.reference.slopes import Rounding, slope_failures

if TYPE_CHECKING:
    import torch

__all__ = [
    "Comparison",
    "Reference",
    "ResultError",
    "attention_float64",
    "attention_plain",
    "compare",
    "scale_of",
    "visible",
]

LSE_ABSOLUTE: Final = 2e-4
LSE_RELATIVE: Final = 1e-5
PLAIN_FACTOR: Final = 2.0
ELEMENT_FACTOR: Final = 2.5
_FLOOR_SHIFT: Final = 0.3
SMALLEST_DEVIATION: Final = 2.0**-5
"""Standard deviation of scores from which on rows are taken to differ."""


class ResultError(AssertionError):
    """A result is further from the reference than allowed; names the first bad coordinate."""


@dataclass(frozen=True)
class Comparison:
    """How far a result is from the reference.

    Attributes:
        max_error: largest absolute error of O.
        plain_error: the same for plain PyTorch in the element type of the inputs.
        limit: what ``max_error`` may be.
        max_lse_error: largest absolute error of the log-sum-exp where it is finite, or None.
        failures: what is out of bounds, each with its first coordinate; empty when all is well.
    """

    max_error: float
    plain_error: float
    limit: float
    max_lse_error: float | None
    failures: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the result passes."""
        return not self.failures

    def check(self) -> Comparison:
        """Return self.

        Raises:
            ResultError: when the result does not pass.
        """
        if self.failures:
            raise ResultError("; ".join((*self.failures, str(self))))
        return self

    def __str__(self) -> str:
        """Return the errors in one line."""
        lse = "" if self.max_lse_error is None else f", LSE error {self.max_lse_error:.2e}"
        return (
            f"max error {self.max_error:.3e} (plain PyTorch {self.plain_error:.3e}, limit "
            f"{self.limit:.3e}){lse}"
        )


def compare(
    out: torch.Tensor,
    lse: torch.Tensor | None,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    **options: Any,
) -> Comparison:
    """Compare a result with float64 and with plain PyTorch.

    Args:
        out: the result, (batch, seqlen_q, heads, head_dim_v) or (total_q, heads, head_dim_v).
        lse: its log-sum-exp, or None when there is none to compare.
        inputs: q, k and v that it was computed from.
        options: the further arguments that it was computed with.
    """
    exact = attention_float64(*inputs, **options)
    plain = attention_plain(*inputs, **options)
    plain_error = _largest((plain.double() - exact.out).abs())
    limit = PLAIN_FACTOR * plain_error + _rounding_floor(exact.out, out.dtype)
    error = (out.double() - exact.out).abs()
    bound = ELEMENT_FACTOR * _unit_roundoff(out.dtype) * exact.weight + _smallest(out.dtype)
    failures = _shape_failures(out, lse, exact)
    if not failures:
        failures += _first_failure("O", out, exact.out, error, error.new_tensor(limit))
        failures += _first_failure("O (element bound)", out, exact.out, error, bound)
        failures += _lse_failures(lse, exact.lse)
        if _rows_differ(inputs[0], options.get("softmax_scale")):
            failures += slope_failures(out, exact, Rounding.of(out.dtype))
    return Comparison(
        max_error=_largest(error),
        plain_error=plain_error,
        limit=limit,
        max_lse_error=None if lse is None else _largest(_lse_error(lse, exact.lse)),
        failures=tuple(failures),
    )


def _rows_differ(q: torch.Tensor, scale: float | None) -> bool:
    """Return whether scores differ enough for rows to round independently of one another.

    With a scale near 0 all rows that see the same keys are one row: their errors do not average
    out, and slopes say nothing. Scores of normal operands deviate by the scale times the root of
    the head dim; that has to be much more than an element's precision.
    """
    return scale is None or abs(scale) * float(q.shape[-1]) ** 0.5 > SMALLEST_DEVIATION


def _shape_failures(out: torch.Tensor, lse: torch.Tensor | None, exact: Reference) -> list[str]:
    import torch

    failures = []
    if out.shape != exact.out.shape:
        failures.append(f"O has shape {tuple(out.shape)}, not {tuple(exact.out.shape)}")
    if lse is not None and lse.shape != exact.lse.shape:
        failures.append(f"LSE has shape {tuple(lse.shape)}, not {tuple(exact.lse.shape)}")
    if lse is not None and lse.dtype != torch.float32:
        failures.append(f"LSE has dtype {lse.dtype}, not float32")
    return failures


def _first_failure(
    name: str, got: Any, want: Any, error: torch.Tensor, bound: torch.Tensor
) -> list[str]:
    """Name the first coordinate whose error is not within its bound; NaN is never within."""
    bad = ~(error <= bound)
    if not bad.any():
        return []
    first = tuple(int(i) for i in bad.nonzero()[0])
    return [
        f"{name}[{', '.join(map(str, first))}] = {float(got[first]):.6g}, expected "
        f"{float(want[first]):.6g} within {float(bound.expand_as(error)[first]):.2g} "
        f"({int(bad.sum())} of {bad.numel()} elements are out of bounds)"
    ]


def _lse_error(lse: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Return the absolute error, where equal infinities differ by 0."""
    import torch

    error = (lse.double() - exact).abs()
    return torch.where(lse.double() == exact, 0.0, error)


def _lse_failures(lse: torch.Tensor | None, exact: torch.Tensor) -> list[str]:
    import torch

    if lse is None:
        return []
    finite = torch.where(torch.isfinite(exact), exact.abs(), 0.0)
    bound = LSE_ABSOLUTE + LSE_RELATIVE * finite
    return _first_failure("LSE", lse, exact, _lse_error(lse, exact), bound)


def _rounding_floor(exact: torch.Tensor, dtype: torch.dtype) -> float:
    """Return twice the error that shifting the result up and down costs in ``dtype``."""
    rounded = exact.to(dtype)
    moved = (rounded + _FLOOR_SHIFT - _FLOOR_SHIFT).double()
    return 2.0 * _largest((moved - rounded.double()).abs())


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _unit_roundoff(dtype: torch.dtype) -> float:
    import torch

    return float(torch.finfo(dtype).eps) / 2


def _smallest(dtype: torch.dtype) -> float:
    import torch

    # Below the normal range rounding is absolute, and flushing P to zero costs as much.
    return float(torch.finfo(dtype).tiny)
