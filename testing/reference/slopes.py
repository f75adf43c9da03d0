"""Slopes: do errors average out, as those of rounding do, or are they the same everywhere?

Bounds on single elements must let every P be rounded the wrong way. A factor of 1.01 on all of O,
or a key of a thousand that is left out, stays within them. Both show in a slope, the regression of
what was computed on what should have been:

* the slope of O, ``<O, exact> / <exact, exact>``, is 1 within :data:`LIMITS`, for O as a whole and
  for every head;
* the slope of a key, ``<O - exact, p v> / <p v, p v>`` with ``p v`` what the key adds to all rows,
  is 0: it is -1 when the key's row of V is lost, and 1 when it counts twice.

Rounding moves a slope at random. How far is known: P of a row and key is off by a relative error
of its own, and so is every element of O. Where :data:`DEVIATIONS` standard deviations of that are
more than the limit, as in an output of a few rows, they are the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from testing.reference.exact import Reference, Summands

if TYPE_CHECKING:
    import torch

BF16_LIMIT: Final = 2.0**-11
FP16_LIMIT: Final = 2.0**-14
FP8_LIMIT: Final = 2.0**-8
KEY_LIMIT: Final = 0.5
"""Half of what a lost key makes."""
LEAST_WEIGHT: Final = 2.0**-40
"""Largest probability of a key that has no weight."""
MOST_KEYS: Final = 4096
"""Longest sequence whose keys are looked at one by one; the cost grows with the square."""
DEVIATIONS: Final = 5.0
ROUNDING_RMS: Final = 0.42
"""Root mean square of the relative rounding error, in units of the largest."""
E4M3_ROUNDOFF: Final = 2.0**-4


@dataclass(frozen=True)
class Rounding:
    """How O came about: largest relative errors of P and of O, and the limit of the slope."""

    of_p: float
    of_o: float
    limit: float

    @classmethod
    def of(cls, dtype: torch.dtype) -> Rounding:
        """Return the rounding of kernels that take and return ``dtype``."""
        import torch

        unit = float(torch.finfo(dtype).eps) / 2
        return cls(unit, unit, FP16_LIMIT if dtype is torch.float16 else BF16_LIMIT)

    @classmethod
    def of_fp8(cls, dtype: torch.dtype) -> Rounding:
        """Return the rounding of kernels that take float8 and return ``dtype``."""
        return cls(E4M3_ROUNDOFF, cls.of(dtype).of_o, FP8_LIMIT)


@dataclass(frozen=True)
class Slope:
    """A slope of O, and how far from 1 it may be."""

    value: float
    limit: float

    @property
    def ok(self) -> bool:
        """Whether the slope is within its limit; NaN is not."""
        return abs(self.value - 1.0) <= self.limit


def slopes(out: torch.Tensor, exact: Reference, rounding: Rounding) -> dict[str, Slope]:
    """Return the slopes of O as a whole and of its heads, by name; zeros have none.

    Args:
        out: the result.
        exact: what it should have been.
        rounding: how it was rounded.
    """
    heads = range(out.shape[-2])
    sums = {f"O of head {h}": _sums_of_head(out[..., h, :], exact, h, rounding) for h in heads}
    sums["O"] = tuple(sum(x) for x in zip(*sums.values(), strict=True)) or (0.0, 0.0, 0.0)
    return {
        name: Slope(product / square, max(rounding.limit, DEVIATIONS * variance**0.5 / square))
        for name, (product, square, variance) in sums.items()
        if square > 0
    }


def slope_failures(out: torch.Tensor, exact: Reference, rounding: Rounding) -> list[str]:
    """Name what has the wrong slope: O, a head, or a key.

    What rounding may do to a slope costs far more than the slope, and matters to few: it is asked
    for where a slope is not within the limit that needs no excuse.
    """
    failures = []
    if not _all_within(out, exact, rounding.limit):
        failures = [
            f"{name} has slope 1 + {slope.value - 1:.3g}, allowed {slope.limit:.3g}"
            for name, slope in slopes(out, exact, rounding).items()
            if not slope.ok
        ]
    for number, (own, part) in enumerate(_by_sequence(out, exact)):
        if part.p.shape[-1] <= MOST_KEYS:
            failures += _key_failures(number, own, part, rounding)
    return failures


def _all_within(out: torch.Tensor, exact: Reference, limit: float) -> bool:
    """Return whether the slopes of O and of every head are 1 within ``limit``."""
    import torch

    product = (out.double() * exact.out).sum(-1).flatten(0, -2).sum(0)
    square = exact.out.square().sum(-1).flatten(0, -2).sum(0)
    off = torch.cat([product - square, (product - square).sum(0, keepdim=True)])
    bound = torch.cat([square, square.sum(0, keepdim=True)]) * limit
    return bool((off.abs() <= bound).all())


def key_slopes(out: torch.Tensor, part: Summands) -> torch.Tensor:
    """Return the slope of every key, (heads, seqlen_k).

    Args:
        out: the output of one sequence, (heads, seqlen_q, head_dim_v).
        part: what it is the sum of.
    """
    p, v = part.p, part.v
    error = out.double() - p @ v
    return ((p.transpose(1, 2) @ error) * v).sum(-1) / _square(part)


def key_deviations(part: Summands, rounding: Rounding, keys: torch.Tensor) -> torch.Tensor:
    """Return the standard deviations by rounding of the slopes of ``keys``, (heads, len(keys)).

    Args:
        part: what the output of a sequence is the sum of.
        rounding: how it was rounded.
        keys: their indices.
    """
    p, v = part.p, part.v
    of_keys = p[..., keys].square().transpose(1, 2)
    # What rounding the probabilities of other keys adds: their values are not orthogonal.
    pairs = (v[:, keys] @ v.transpose(1, 2)).square()
    variance = rounding.of_p**2 * (pairs * (of_keys @ p.square())).sum(-1)
    elements = of_keys @ (p @ v).square()
    variance += rounding.of_o**2 * (elements * v[:, keys].square()).sum(-1)
    return ROUNDING_RMS * variance.sqrt() / _square(part)[:, keys]


def _square(part: Summands) -> torch.Tensor:
    """Return the square of what every key adds to all rows."""
    return part.p.square().sum(1) * part.v.square().sum(-1)


def _key_failures(number: int, out: torch.Tensor, part: Summands, rounding: Rounding) -> list[str]:
    if not (part.p.numel() and part.v.numel()):
        return []
    slope = key_slopes(out, part)
    bad = ~(slope.abs() <= KEY_LIMIT)
    # A key without weight has no slope, and that of a key with little is lost in rounding.
    bad &= part.p.amax(1) > LEAST_WEIGHT
    keys = bad.any(0).nonzero().flatten()
    if not len(keys):
        return []
    bad[:, keys] &= key_deviations(part, rounding, keys) * DEVIATIONS < KEY_LIMIT
    if not bad.any():
        return []
    head, key = (int(i) for i in bad.nonzero()[0])
    return [
        f"key {key} of head {head} in sequence {number} counts {1 + float(slope[head, key]):.3g} "
        f"times ({int(bad.sum())} of {bad.numel()} keys do not count once)"
    ]


def _by_sequence(out: torch.Tensor, exact: Reference) -> list[tuple[torch.Tensor, Summands]]:
    """Return the output (heads, seqlen_q, head_dim_v) and the summands of every sequence."""
    import torch

    lengths = [part.p.shape[1] for part in exact.summands]
    rows = out.flatten(0, 1) if out.dim() == 4 else out
    owns = torch.split(rows, lengths) if lengths else ()
    return [(own.transpose(0, 1), part) for own, part in zip(owns, exact.summands, strict=True)]


def _sums_of_head(
    out: torch.Tensor, exact: Reference, head: int, rounding: Rounding
) -> tuple[float, float, float]:
    """Return <O, exact>, <exact, exact> and the variance of the former by rounding."""
    want = exact.out[..., head, :]
    square = want.square()
    variance = rounding.of_o**2 * float(square.square().sum())
    for part in exact.summands:
        p, v = part.p[head], part.v[head]
        variance += rounding.of_p**2 * float((p * (p @ v @ v.T)).square().sum())
    product = float((out.double() * want).sum())
    return product, float(square.sum()), ROUNDING_RMS**2 * variance
