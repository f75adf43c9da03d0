from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.compute.exp2_plan import (
    MIN_EXPONENT,
    POLYNOMIAL,
    PRECISE_POLYNOMIAL,
    ROUND_MAGIC,
    Exp2Plan,
    is_cap_emulated,
)
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.tuning import Tuning
from fa4_cute.plan.facts.dtypes import DType


@pytest.mark.parametrize(
    ("bn", "count", "first", "stride"), [(128, 16, 16, 3), (192, 24, 24, 3), (64, 8, 8, 3)]
)
def test_a_quarter_of_the_pairs_by_default(bn: int, count: int, first: int, stride: int) -> None:
    plan = Exp2Plan(bn)
    assert sorted(plan.emulated_pairs) == [first + stride * i for i in range(count)]


@given(st.sampled_from((64, 128, 160, 192)), st.sampled_from((2, 4)), st.data())
def test_the_count_is_exact_and_the_first_batch_is_left_alone(
    bn: int, batches: int, data: st.DataObject
) -> None:
    window = bn // 2 - bn // 2 // batches
    count = data.draw(st.integers(0, window))
    plan = Exp2Plan(bn, batches, count)
    pairs = sorted(plan.emulated_pairs)
    assert len(pairs) == count
    assert all(plan.batch_pairs <= pair < plan.num_pairs for pair in pairs)
    gaps = np.diff(pairs)
    if count > 1:
        assert set(gaps) <= {window // count, window // count + 1}
        assert list(gaps) == sorted(gaps)


def test_the_plan_follows_the_hand_over_of_the_config() -> None:
    assert Exp2Plan.of(FA4Config.for_attention(DType.BF16, 64)).num_batches == 4
    wide = replace(FA4Config.for_attention(DType.FP8_E4M3, 64), tuning=Tuning())
    even = Exp2Plan.of(wide)
    assert (even.bn, even.num_batches) == (192, 6)
    none = FA4Config(1, 1, 128, 128, tuning=Tuning(emulated=0))
    assert Exp2Plan.of(none).emulated_pairs == frozenset()


@pytest.mark.parametrize("copies", [2, 4])
def test_a_copy_of_the_rows_has_its_own_keys_only(copies: int) -> None:
    config = FA4Config.for_attention(DType.BF16, 128, num_qo=1)
    plan = Exp2Plan.of(replace(config, row_copies=copies))
    assert (plan.bn, plan.batch_pairs) == (128 // copies, 8)
    assert plan.count == 64 // copies // 4


def test_a_share_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="num_emulated=49: choose 0 to 48"):
        Exp2Plan(128, 4, 49)
    with pytest.raises(ValueError, match="bn=66 does not divide into 4"):
        Exp2Plan(66, 4)


def polynomial_of(x: np.ndarray, coefficients: tuple[float, ...]) -> np.ndarray:
    """``2**x`` as the device computes it, and its relative error."""
    clamped = np.maximum(x, np.float32(MIN_EXPONENT))
    # add.rm: numpy rounds to nearest, so the floor is taken in double precision first.
    rounded = (np.floor(clamped.astype(np.float64)) + ROUND_MAGIC).astype(np.float32)
    fraction = (clamped - (rounded - np.float32(ROUND_MAGIC))).astype(np.float32)
    power = np.full_like(fraction, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        power = power * fraction + np.float32(coefficient)
    shifted = rounded.view(np.uint32) << np.uint32(23)
    return (power.view(np.uint32) + shifted).view(np.float32)


def test_the_polynomial_is_good_to_the_precision_of_p() -> None:
    x = np.linspace(-126.0, 0.0, 20011, dtype=np.float32)
    error = np.abs(polynomial_of(x, POLYNOMIAL) / np.exp2(x.astype(np.float64)) - 1)
    assert error.max() < 2.0**-12  # well below half a unit of bf16 (2**-9) and fp16 (2**-11)
    assert error.max() > 2.0**-16  # it is the cubic, not the hardware's function


def test_the_precise_polynomial_is_good_to_a_few_roundings() -> None:
    x = np.linspace(-126.0, 31.0, 50021, dtype=np.float32)
    error = np.abs(polynomial_of(x, PRECISE_POLYNOMIAL) / np.exp2(x.astype(np.float64)) - 1)
    assert error.max() < 2.5e-7
    lowest = np.array([-200.0, -np.inf], dtype=np.float32)
    assert polynomial_of(lowest, PRECISE_POLYNOMIAL).tolist() == [0.0, 0.0]


def test_every_second_group_of_a_softcap_has_polynomials() -> None:
    assert [is_cap_emulated(group) for group in range(4)] == [False, True, False, True]
