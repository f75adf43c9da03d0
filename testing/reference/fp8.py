"""Comparison of float8 attention with float64, on what the operands stand for.

P is rounded to e4m3, which has three fraction bits. Every P may be rounded the wrong way, so the
bounds on single elements are wide; slopes (``testing.reference.slopes``) say whether the errors
average out, and whether every key counts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from fa4_cute.plan.compute.probability import ProbabilityPlan
from fa4_cute.plan.facts.dtypes import DType
from testing.reference.attention import Comparison
from testing.reference.exact import attention_float64
from testing.reference.slopes import E4M3_ROUNDOFF, Rounding, slope_failures

if TYPE_CHECKING:
    import torch

ROUNDING: Final = E4M3_ROUNDOFF
"""Half a unit of the last of e4m3's three fraction bits."""
ROUNDING_OF_O: Final = 2.0**-8
SMALLEST_E4M3: Final = 2.0**-9
"""Subnormal; half of it rounds to zero."""
LIFT: Final = ProbabilityPlan.of(DType.FP8_E4M3).lift
LSE_LIMIT: Final = 3e-4
HOPPER_SUM_BITS: Final = 13
"""Fraction bits that wgmma keeps of a sum of fp8 products (``docs/hardware.md``)."""


def compare_fp8(
    out: torch.Tensor,
    lse: torch.Tensor,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    *,
    equal_rows: bool = False,
    sum_bits: int | None = None,
    **options: Any,
) -> Comparison:
    """Compare a result with float64; arguments as :func:`testing.reference.attention.compare`.

    Scales, one for an operand or one per token and head, are among ``options``. In ``equal_rows``
    every P is rounded alike: their errors do not average out, and slopes say nothing. ``sum_bits``
    are the fraction bits to which each MMA of Q K' cuts its sum, where it does: the scores that
    count in a log-sum-exp are about as large as it is, or as their mean before a modifier changes
    them, and each may be short by as many cuts.
    """
    import torch

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
    num_mmas = math.ceil(inputs[0].shape[-1] / DType.FP8_E4M3.mma_k)
    cuts = 0.0 if sum_bits is None else num_mmas / 2.0**sum_bits
    lse_size = torch.maximum(exact.lse.abs().nan_to_num(posinf=0.0), exact.size)
    lse_bound = LSE_LIMIT + cuts * (1.0 + lse_size)
    failures += [] if bool((lse_error <= lse_bound).all()) else ["LSE is out of bounds"]
    if not equal_rows:
        failures += slope_failures(out, exact, Rounding.of_fp8(out.dtype))
    most = (float(x.max()) if x.numel() else 0.0 for x in (error, bound, lse_error))
    max_error, limit, max_lse_error = most
    return Comparison(max_error, math.nan, limit, max_lse_error, tuple(failures))
