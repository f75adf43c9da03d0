"""Column plans: every score is read, and none after P has overwritten it."""

import pytest

from fa4_cute.plan.compute.column_plan import ColumnPlan
from fa4_cute.plan.config.tile_config import RESIDENT_COLUMNS

TILES = (64, 128, 192, 256)
P_COLUMNS_PER_SCORE = 1 / 2


@pytest.mark.parametrize("bn", TILES)
def test_loads_cover_the_row_once_and_keep_the_resident_columns_for_last(bn: int) -> None:
    plan = ColumnPlan(bn, 4)
    columns = [column for load in plan.loads for column in load]
    assert sorted(columns) == list(range(bn))
    assert columns[bn - plan.resident :] == list(range(plan.resident))
    assert plan.resident <= RESIDENT_COLUMNS


@pytest.mark.parametrize("bn", TILES)
def test_batches_are_wholly_in_registers_or_wholly_read_again(bn: int) -> None:
    plan = ColumnPlan(bn, 4)
    assert [column for batch in plan.batches for column in batch] == list(range(bn))
    for i, batch in enumerate(plan.batches):
        assert plan.is_resident(i) == (batch.stop <= plan.resident)


@pytest.mark.parametrize("bn", TILES)
def test_no_score_is_read_again_after_p_took_its_column(bn: int) -> None:
    """A batch is loaded while the batch before it is stored."""
    plan = ColumnPlan(bn, 4)
    for i, batch in enumerate(plan.batches):
        if not plan.is_resident(i):
            assert batch.start >= plan.batches[i - 1].stop * P_COLUMNS_PER_SCORE


def test_uneven_tiles_are_refused() -> None:
    with pytest.raises(ValueError, match="bn=80"):
        ColumnPlan(80, 4)
