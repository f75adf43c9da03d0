from __future__ import annotations

import pytest

from fa4_cute.plan.compute.value_transpose import (
    EVEN_BYTES,
    HALVES,
    ODD_BYTES,
    ValueTranspose,
)
from fa4_cute.plan.config.sm90_config import SM90Config
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.facts.hardware import SwizzleMode
from tests.plan.operand_elements import key_at

B32, B64, B128 = SwizzleMode.B32, SwizzleMode.B64, SwizzleMode.B128
PLANS = [
    ValueTranspose(128, 128, B128, B128), ValueTranspose(96, 64, B64, B32),
    ValueTranspose(64, 192, B64, B64), ValueTranspose(32, 128, B128, B32),
    ValueTranspose(128, 192, B64, B128), ValueTranspose(96, 256, B128, B32),
]  # fmt: skip
by_plan = pytest.mark.parametrize("plan", PLANS, ids=str)


def place(swizzle: SwizzleMode, rows: int, row: int, column: int) -> int:
    """Byte of a column in a swizzled slot (CUDA driver API, tensor maps: bits 4.. ^= 7..)."""
    chunk, within = divmod(column, swizzle.bytes)
    plain = (chunk * rows + row) * swizzle.bytes + within
    return plain ^ (plain >> 3 & swizzle.bytes - 16)


Word = tuple[int, int]


def words(memory: dict[int, Word], rows: list[int], lane: int) -> list[list[Word]]:
    """What ``ldmatrix.x4.trans`` gives a lane: of matrix i rows 2 q and 2 q + 1 of a column."""
    found = []
    for matrix in range(4):
        starts = [rows[8 * matrix + 2 * (lane % 4) + i] + 2 * (lane // 4) for i in range(2)]
        found.append([memory[start + byte] for start in starts for byte in range(2)])
    return found


def chosen(low: list[Word], high: list[Word], selector: int) -> list[Word]:
    """What ``prmt`` gives."""
    return [(low + high)[selector >> 4 * i & 7] for i in range(4)]


@by_plan
def test_every_byte_arrives_where_wgmma_looks_for_it(plan: ValueTranspose) -> None:
    loaded = {
        place(plan.loaded, plan.keys, key, column): (key, column)
        for key in range(plan.keys)
        for column in range(plan.columns)
    }
    stored: dict[int, object] = {}
    for block in range(plan.num_blocks):
        for half in range(HALVES):
            sources = [plan.source(lane, block, half) for lane in range(32)]
            targets = [plan.target(lane, block, half) for lane in range(32)]
            for lane in range(32):
                a, b, c, d = words(loaded, sources, lane)
                is_odd = plan.is_odd(lane // 4, 0)
                first, second = (ODD_BYTES, EVEN_BYTES) if is_odd else (EVEN_BYTES, ODD_BYTES)
                found = [chosen(*of, which) for of in ((a, b), (c, d)) for which in (first, second)]
                for matrix, four in enumerate(found):
                    start = targets[8 * matrix + lane // 4] + 4 * (lane % 4)
                    stored |= {start + i: byte for i, byte in enumerate(four)}
    assert stored == {
        place(plan.stored, plan.columns, column, position): (key_at(position), column)
        for column in range(plan.columns)
        for position in range(plan.keys)
    }


@by_plan
def test_eight_rows_lie_in_different_banks(plan: ValueTranspose) -> None:
    for block in range(plan.num_blocks):
        for of_lane in (plan.source, plan.target):
            rows = [of_lane(lane, block, 0) for lane in range(32)]
            for matrix in range(0, 32, 8):
                assert len({row // 16 % 8 for row in rows[matrix : matrix + 8]}) == 8


def test_a_plan_goes_with_a_configuration() -> None:
    narrow = SM90Config.for_attention(DType.FP8_E4M3, 48)
    wide = SM90Config.for_attention(DType.FP8_E4M3, 192, ov_depth=80, bn_cap=96)
    assert ValueTranspose.of(narrow) == ValueTranspose(96, 64, B64, B32)
    assert ValueTranspose.of(wide) == ValueTranspose(96, 128, B64, B32)
