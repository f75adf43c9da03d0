"""Descriptor bits against constants decoded from emitted PTX (docs/sources.md 13)."""

from __future__ import annotations

import pytest

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SwizzleMode
from fa4_cute.plan.facts.umma import (
    SmemOperand,
    instruction_descriptor,
    smem_descriptor_bits,
    ss_plan,
    ts_plan,
)
from tests.plan.operand_elements import element_offset

B128 = SwizzleMode.B128
Q128 = SmemOperand(DType.BF16, 128, 128, B128)


@pytest.mark.parametrize(
    ("bits", "start", "lbo", "sbo", "swizzle"),
    [
        (0x4000404000011900, 0x19000, 16, 1024, B128),  # FA4 Q
        (0x4000404000010000, 0, 16, 1024, B128),  # dense GEMM, K-major
        (0x4000404004000000, 0, 16384, 1024, B128),  # Mamba, MN-major
        (0x0000400800010000, 0, 16, 128, SwizzleMode.NONE),  # scale factors
    ],
)
def test_matrix_descriptors(
    bits: int, start: int, lbo: int, sbo: int, swizzle: SwizzleMode
) -> None:
    assert smem_descriptor_bits(start, lbo, sbo, swizzle) == bits


@pytest.mark.parametrize(("swizzle", "code"), [("B32", 6), ("B64", 4), ("B128", 2), ("NONE", 0)])
def test_swizzle_codes(swizzle: str, code: int) -> None:
    assert smem_descriptor_bits(0, 16, 256, SwizzleMode[swizzle]) >> 61 == code


def test_a_misaligned_tile_is_refused() -> None:
    with pytest.raises(ValueError, match="start=8: must be a multiple of 16"):
        smem_descriptor_bits(8, 16, 1024, B128)
    with pytest.raises(ValueError, match="sbo=262144"):
        smem_descriptor_bits(0, 16, 1 << 18, B128)


@pytest.mark.parametrize(
    ("bits", "dtype", "m", "n", "transposed"),
    [
        (0x10200490, DType.BF16, 256, 128, (False, False)),  # FA4 S = Q K'
        (0x10210490, DType.BF16, 256, 128, (False, True)),  # FA4 O += P V
        (0x08218490, DType.BF16, 128, 128, (True, True)),
        (0x08400010, DType.FP8_E4M3, 128, 256, (False, False)),
        (0x08200010, DType.FP16, 128, 128, (False, False)),
    ],
)
def test_instruction_descriptors(
    bits: int, dtype: DType, m: int, n: int, transposed: tuple[bool, bool]
) -> None:
    a, b = transposed
    assert instruction_descriptor(dtype, m, n, a_mn_major=a, b_mn_major=b) == bits


@pytest.mark.parametrize(("m", "n"), [(96, 128), (128, 0), (128, 264), (128, 12)])
def test_shapes_no_mma_has_are_refused(m: int, n: int) -> None:
    with pytest.raises(ValueError, match="an MMA has"):
        instruction_descriptor(DType.BF16, m, n)


def test_fa4_k_steps() -> None:
    low = Q128.descriptor(0x19000) & 0xFFFFFFFF
    steps = [(Q128.descriptor(0x19000 + Q128.k_offset(k)) & 0xFFFFFFFF) - low for k in range(8)]
    assert steps == [0, 2, 4, 6, 0x400, 0x402, 0x404, 0x406]
    half_k = SmemOperand(DType.BF16, 64, 128, B128)
    assert half_k.k_offset(4) >> 4 == 0x200
    v = SmemOperand(DType.BF16, 64, 128, B128, mn_major=True)
    assert v.k_offset(1) >> 4 == 0x80


def test_fa4_element_addresses() -> None:
    assert 0x19000 + element_offset(Q128, 13, 9) == 0x19692
    v = SmemOperand(DType.BF16, 64, 128, B128, mn_major=True)
    assert element_offset(v, 20, 11) == 0x5A8


def canonical_offset(operand: SmemOperand, row: int, k: int) -> int:
    """Element address inside one MMA's operand, from the canonical layouts of the PTX ISA."""
    size = operand.dtype.size
    unit = 16 // size
    width = operand.swizzle.bytes
    if not operand.mn_major:
        return row % 8 * width + row // 8 * operand.sbo + k // unit * 16 + k % unit * size
    units = width // 16
    block, within = divmod(row // unit, units)
    groups = k % 8 * width + k // 8 * operand.sbo
    return groups + within * 16 + block * operand.lbo + row % unit * size


OPERANDS = [
    SmemOperand(dtype, 128, 128, swizzle, mn_major)
    for dtype in (DType.BF16, DType.FP8_E4M3)
    for swizzle in (SwizzleMode.B32, SwizzleMode.B64, SwizzleMode.B128)
    for mn_major in (False, True)
]


def operand_id(operand: SmemOperand) -> str:
    major = "mn" if operand.mn_major else "k"
    return f"{operand.dtype.value}-{operand.swizzle.name}-{major}"


@pytest.mark.slow
@pytest.mark.parametrize("operand", OPERANDS, ids=operand_id)
def test_the_hardware_reads_the_elements_that_tma_wrote(operand: SmemOperand) -> None:
    k_block = operand.dtype.mma_k
    for block in range(operand.padded_k // k_block):
        for row in range(operand.mn):
            for k in range(k_block):
                seen = operand.k_offset(block) + canonical_offset(operand, row, k)
                assert seen == element_offset(operand, row, block * k_block + k)


@pytest.mark.parametrize("operand", OPERANDS, ids=operand_id)
def test_elements_fill_the_tile_without_overlap(operand: SmemOperand) -> None:
    size = operand.dtype.size
    offsets = {
        element_offset(operand, row, k)
        for row in range(operand.mn)
        for k in range(operand.padded_k)
    }
    assert offsets == set(range(0, operand.bytes, size))


def test_padding_columns_are_not_multiplied() -> None:
    tile = SmemOperand(DType.BF16, 128, 128, B128)
    plan = ss_plan(tile, tile, k=72, num_stages=2)
    assert plan.num_k_mmas == 5
    assert [list(plan.k_blocks(stage)) for stage in (0, 1)] == [[0, 1, 2, 3], [4]]


@pytest.mark.parametrize(
    ("dtype", "keys", "parts"),
    [
        (DType.BF16, 192, (9, 3)),
        (DType.BF16, 128, (6, 2)),
        (DType.FP16, 64, (3, 1)),
        (DType.FP8_E4M3, 192, (3, 3)),
        (DType.FP8_E4M3, 128, (3, 1)),
        (DType.FP8_E4M3, 64, (1, 1)),
    ],
)
def test_p_is_handed_over_three_to_one(dtype: DType, keys: int, parts: tuple[int, int]) -> None:
    v = SmemOperand(dtype, 64, keys, dtype.default_swizzle, mn_major=True)
    plan = ts_plan(v, m=128, k=keys)
    assert (len(plan.k_blocks(0)), len(plan.k_blocks(1))) == parts
    assert [*plan.k_blocks(0), *plan.k_blocks(1)] == list(range(plan.num_k_mmas))
    with pytest.raises(ValueError, match="stage=2"):
        plan.k_blocks(2)


def test_p_in_tensor_memory_advances_eight_columns_per_mma() -> None:
    for dtype in (DType.BF16, DType.FP8_E4M3):
        v = SmemOperand(dtype, 64, 128, dtype.default_swizzle, mn_major=True)
        plan = ts_plan(v, m=128, k=128)
        assert plan.a_in_tmem
        assert [plan.a_offset(k) for k in range(3)] == [0, 8, 16]


@pytest.mark.parametrize("copies", [2, 4])
@pytest.mark.parametrize("dtype", [DType.BF16, DType.FP8_E4M3])
def test_each_copy_of_the_rows_takes_keys_of_its_own(dtype: DType, copies: int) -> None:
    """A lane is written by the K blocks of its copy and by no other, its first one first."""
    keys = 128
    plan = ts_plan(
        SmemOperand(dtype, 64, keys, B128, mn_major=True),
        m=128, k=keys, num_stages=1, quarters=(), row_copies=copies,
    )  # fmt: skip
    own = keys // copies
    begun: set[int] = set()
    for block in plan.k_blocks(0):
        words = plan.disabled_lanes(block)
        written = [lane for lane in range(128) if not words[lane // 32] >> lane % 32 & 1]
        copy = block * dtype.mma_k // own
        rows = 128 // copies
        assert written == list(range(copy * rows, (copy + 1) * rows))
        assert plan.is_first_of_copy(block) == (copy not in begun)
        begun.add(copy)
    assert begun == set(range(copies))


def test_copies_of_a_pair_have_the_same_lanes_in_both_ctas() -> None:
    """A part of the keys is that of some copies: here the third and the fourth."""
    plan = ts_plan(
        SmemOperand(DType.FP8_E4M3, 128, 64, B128, mn_major=True), m=256, k=64, num_stages=1,
        quarters=(), cta_group=2, row_copies=4, copies_taken=range(2, 4),
    )  # fmt: skip
    for block, copy in enumerate((2, 3)):
        assert plan.is_first_of_copy(block)
        words = plan.disabled_lanes(block)
        assert [i for i, word in enumerate(words) if word == 0] == [copy, copy + 4]
        assert len(words) == 8


def test_an_accumulation_without_copies_names_no_lanes() -> None:
    plan = ts_plan(SmemOperand(DType.BF16, 64, 128, B128, mn_major=True), m=128, k=128)
    assert {plan.disabled_lanes(k) for k in range(plan.num_k_mmas)} == {()}
    assert [k for k in range(plan.num_k_mmas) if plan.is_first_of_copy(k)] == [0]
