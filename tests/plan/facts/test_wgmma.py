from __future__ import annotations

import pytest

from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SwizzleMode
from fa4_cute.plan.facts.umma import SmemOperand
from fa4_cute.plan.facts.wgmma import (
    LANES_PER_ROW,
    NUM_ROWS,
    ROW_DISTANCE,
    LaneColumns,
    WgmmaPlan,
    descriptor_words,
    operand_order,
    padded_columns,
    row_registers,
)
from tests.plan.operand_elements import key_at

K = SmemOperand(DType.BF16, 80, 128, SwizzleMode.B128)
Q = SmemOperand(DType.BF16, 64, 128, SwizzleMode.B128)
V = SmemOperand(DType.FP16, 192, 112, SwizzleMode.B128, mn_major=True)


def isa_place(lane: int, register: int) -> tuple[int, int]:
    """Row and column in the warp of a register of D (PTX ISA, wgmma m64nNk16, fragment of D)."""
    row = lane // 4 + (8 if register % 4 >= 2 else 0)
    return row, 8 * (register // 4) + lane % 4 * 2 + register % 2


@pytest.mark.parametrize("n", [8, 72, 128])
def test_rows_and_columns_of_a_thread_are_those_of_the_isa(n: int) -> None:
    seen = set()
    for lane in range(32):
        for half in range(NUM_ROWS):
            columns = LaneColumns(0, n)
            registers = row_registers(n // 2, half)
            assert len(columns) == len(registers) == n // LANES_PER_ROW
            for i, register in enumerate(registers):
                place = (lane // 4 + half * ROW_DISTANCE, columns[i] + lane % 4 * 2)
                assert place == isa_place(lane, register)
                seen.add(place)
    assert seen == {(row, column) for row in range(16) for column in range(n)}


def test_registers_of_an_accumulator_are_those_of_a() -> None:
    """A of m64k16 (PTX ISA): register i has row + 8 (i & 1), columns 2 (lane % 4) + 8 (i >> 1)."""
    for lane in (0, 7, 30):
        for i in range(4):
            pair = isa_place(lane, 2 * i), isa_place(lane, 2 * i + 1)
            row, column = lane // 4 + 8 * (i & 1), lane % 4 * 2 + 8 * (i >> 1)
            assert pair == ((row, column), (row, column + 1))


def test_an_fp8_operand_takes_keys_in_another_order() -> None:
    """A of m64k32 (PTX ISA): byte i of register r has row + 8 (r & 1), column 4 (lane % 4) + i,
    + 16 from register 2 on."""
    assert operand_order(8, DType.BF16) == tuple(range(8))
    order = operand_order(32, DType.FP8_E4M3)
    assert sorted(order) == list(range(32))
    for lane in (0, 5, 30):
        for place, register in enumerate(order):
            step, within = divmod(place, 16)
            word, byte = divmod(within, 4)
            position = 32 * step + lane % 4 * 4 + byte + (16 if word >= 2 else 0)
            row = lane // 4 + 8 * (word & 1)
            assert isa_place(lane, register) == (row, key_at(position))
    assert sorted(map(key_at, range(64))) == list(range(64))


def test_fp8_is_multiplied_along_rows_only() -> None:
    v = SmemOperand(DType.FP8_E4M3, 64, 128, SwizzleMode.B128, mn_major=True)
    with pytest.raises(ValueError, match="dtype=fp8_e4m3"):
        WgmmaPlan(DType.FP8_E4M3, 64, 128, v)


def test_steps_advance_inside_and_between_chunks() -> None:
    plan = WgmmaPlan(DType.BF16, 80, 128, K, Q)
    assert plan.a_steps == (0, 2, 4, 6, 512, 514, 516, 518)  # 64 rows of 128 bytes a chunk
    assert plan.b_steps == (0, 2, 4, 6, 640, 642, 644, 646)
    assert plan.instruction == "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16"
    assert (plan.num_registers, plan.num_steps) == (40, 8)


def test_steps_of_values_advance_by_keys() -> None:
    plan = WgmmaPlan(DType.FP16, 192, 112, V)
    assert plan.b_steps == tuple(range(0, 7 * 128, 128))
    assert plan.a_steps == ()
    assert plan.instruction == "wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16"


def test_descriptors_lack_the_constant_of_blackwell() -> None:
    low, high = descriptor_words(V)
    assert low == 112 * 128 >> 4 << 16  # LBO: the keys of a chunk
    assert high == 1024 >> 4 | 1 << 30  # SBO: eight keys; swizzle of 128 bytes at bit 62


@pytest.mark.parametrize(("n", "k"), [(4, 16), (264, 16), (12, 16), (64, 24), (64, 0)])
def test_shapes_that_no_instruction_has(n: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"n={n}|k={k}"):
        WgmmaPlan(DType.BF16, n, k, K)


def test_columns_are_read_like_a_range() -> None:
    columns = LaneColumns(0, 24)
    assert columns[:] == (0, 1, 8, 9, 16, 17)
    assert columns[3] == 9
    assert (columns.start, columns.stop, len(columns)) == (0, 24, 6)
    assert [padded_columns(d) for d in (1, 8, 72)] == [8, 8, 72]
