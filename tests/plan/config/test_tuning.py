"""Free choices: what a record may hold, which row of the table a kernel gets, and what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fa4_cute.plan.compute.mma_plans import pv_plan
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.tuning import RoleRegisters, TunedRow, Tuning, tuning_of
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec

D128 = FA4Config(1, 1, 128, 128)
FEW = Tuning(emulated=4)
MANY = Tuning(emulated=24)
ROWS = (TunedRow("2q", 2, 64, 64, FEW), TunedRow("2q", 2, 128, 128, MANY))


@pytest.mark.parametrize(
    ("kernel", "dtype", "depth", "ov_depth", "found"),
    [
        ("2q", DType.BF16, 64, 64, FEW),
        ("2q", DType.FP16, 8, 8, FEW),
        ("2q", DType.BF16, 72, 72, MANY),
        ("2q", DType.BF16, 72, 64, Tuning()),
        ("2q", DType.BF16, 64, 72, Tuning()),
        ("2q", DType.BF16, 192, 128, Tuning()),
        ("1q", DType.BF16, 64, 64, Tuning()),
        ("2q", DType.FP8_E4M3, 64, 64, Tuning()),
    ],
)
def test_the_first_row_that_holds_a_kernel(
    kernel: str, dtype: DType, depth: int, ov_depth: int, found: Tuning
) -> None:
    assert tuning_of(ROWS, kernel, dtype, depth, ov_depth) == found


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"emulated": 65}, "emulated=65: choose 0 to 64"),
        ({"parts": (4,)}, "two parts or more"),
        ({"parts": (3, 2)}, "4 quarters together"),
        ({"parts": (4, 0)}, "two parts or more"),
        ({"keys": -1}, "keys=-1: choose 0"),
        ({"slots": -2}, "slots=-2: choose 0"),
    ],
)
def test_values_that_no_kernel_has(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Tuning(**values)


@pytest.mark.parametrize("parts", [(3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)])
def test_parts_are_barriers_products_and_batches(parts: tuple[int, ...]) -> None:
    spec = KernelSpec.for_attention(DType.BF16, 128)
    spec = spec.with_config(replace(spec.config, tuning=Tuning(parts=parts)))
    pv = pv_plan(spec.config)
    blocks = [pv.k_blocks(stage) for stage in range(pv.num_stages)]
    assert [len(stage) for stage in blocks] == [2 * quarters for quarters in parts]
    assert [block for stage in blocks for block in stage] == list(range(8))
    assert len(spec.first_batches) == spec.config.num_pv_stages == len(parts)
    ends = Tuning(parts=parts).ends
    assert spec.first_batches == (0, *ends[:-1])
    assert spec.config.misc_mbars.offset("S1_cons") == len(parts)
    assert spec.config.kv_budget.smem_used >= spec.config.misc_mbars.size * 8


@pytest.mark.parametrize("keys", [0, 96])
def test_p_that_crosses_is_handed_over_as_a_whole(keys: int) -> None:
    spec = KernelSpec.for_attention(DType.BF16, 128)
    tuning = Tuning(parts=(2, 1, 1), keys=keys, crosses=True)
    spec = spec.with_config(replace(spec.config, tuning=tuning))
    assert (spec.config.num_pv_stages, spec.first_batches) == (1, (0,))
    assert [*pv_plan(spec.config).k_blocks(0)] == [*range(spec.config.BN // 16)]
    assert spec.config.misc_mbars.offset("S1_cons") == 1


def test_keys_that_do_not_divide_into_quarters_are_handed_over_in_halves() -> None:
    config = FA4Config.for_attention(DType.FP8_E4M3, 64)
    config = replace(config, tuning=Tuning(parts=(2, 1, 1)))
    assert (config.BN, config.num_pv_stages) == (192, 2)


def test_fewer_keys_and_slots() -> None:
    assert (D128.BN, D128.num_kv_stages) == (128, 5)
    assert replace(D128, tuning=Tuning(keys=64)).BN == 64
    assert replace(D128, tuning=Tuning(keys=64), bn_cap=32).BN == 32
    four = replace(D128, tuning=Tuning(slots=4))
    assert (four.use_fused_kv, four.num_kv_stages) == (False, 2)
    assert replace(D128, tuning=Tuning(slots=9)).num_kv_stages == 5


def test_registers_make_the_schedule() -> None:
    spec = KernelSpec.for_attention(DType.BF16, 128)
    split = RoleRegisters(200, 88, 24)
    other = spec.with_config(replace(spec.config, tuning=Tuning(registers=split)))
    assert [role.registers for role in other.schedule.roles] == [200, 200, 88, 24, 24, 24]
    assert split.with_more_to_load() == RoleRegisters(200, 80, 32)
    too_many = replace(spec.config, tuning=Tuning(registers=RoleRegisters(200, 96, 24)))
    with pytest.raises(ValueError, match="budgets need"):
        spec.with_config(too_many)


def test_another_number_of_query_tiles_has_its_own_row() -> None:
    asked = replace(D128, tuning=FEW)
    assert asked.with_num_qo(2) is asked
    assert asked.with_num_qo(1).tuning == replace(D128, num_qo=1).tuned().tuning
