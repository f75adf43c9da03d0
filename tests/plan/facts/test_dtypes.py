from __future__ import annotations

import pytest

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SwizzleMode


@pytest.mark.parametrize(
    ("dtype", "size", "mma_k", "kind", "code"),
    [
        (DType.BF16, 2, 16, "f16", 1),
        (DType.FP16, 2, 16, "f16", 0),
        (DType.FP8_E4M3, 1, 32, "f8f6f4", 0),
    ],
)
def test_operand_types(dtype: DType, size: int, mma_k: int, kind: str, code: int) -> None:
    assert (dtype.size, dtype.mma_k, dtype.mma_kind, dtype.mma_format) == (size, mma_k, kind, code)


def test_a_missing_operand_has_no_bytes_and_no_mma() -> None:
    assert DType.INVALID.size == 0
    with pytest.raises(ValueError, match="choose bf16, fp16 or fp8_e4m3"):
        _ = DType.INVALID.mma_k


def test_f32_is_no_mma_operand_here() -> None:
    with pytest.raises(ValueError, match="'fp32' is no MMA operand"):
        _ = DType.FP32.mma_kind


@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP16, DType.FP8_E4M3])
def test_the_default_swizzle_makes_chunks_of_64_elements(dtype: DType) -> None:
    assert dtype.default_swizzle.bytes // dtype.size == 64


@pytest.mark.parametrize(
    ("name", "dtype"), [("bfloat16", DType.BF16), ("fp16", DType.FP16), ("float32", DType.FP32)]
)
def test_parse_takes_both_spellings(name: str, dtype: DType) -> None:
    assert DType.parse(name) is dtype


def test_fp8_operands_give_a_16_bit_output() -> None:
    assert DType.FP8_E4M3.output is DType.BF16
    assert all(dtype.output is dtype for dtype in (DType.BF16, DType.FP16))
    assert DType.FP8_E4M3.ptx_name == "e4m3"
    with pytest.raises(ValueError, match="'fp32' is never converted to; choose bf16"):
        _ = DType.FP32.ptx_name


def test_parse_names_what_it_knows() -> None:
    with pytest.raises(ValueError, match="dtype 'int8' is unknown; known types: bf16, fp16"):
        DType.parse("int8")


def test_a_pattern_is_eight_rows_of_its_span() -> None:
    for mode in (SwizzleMode.B32, SwizzleMode.B64, SwizzleMode.B128):
        assert mode.pattern_bytes == 8 * mode.bytes
