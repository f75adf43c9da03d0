"""The sweep of a main loop: its rows, the loops, and the page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.timing import mainloop
from benchmarks.timing.mainloop import Row, predicted

LINES = """M,N,K,TILE_M,TILE_N,TILE_K,STAGES,dtype,time_ms,TFLOPS
64,16,131072,64,16,64,0,BF16,0.7,0.3
64,16,131072,64,16,64,4,BF16,0.512,0.3
128,256,131072,128,256,512,8,FP8_E4M3,BUILD_FAILED,
""".splitlines()
ROW = Row(128, 64, 64, 4, "BF16", 0)


def test_rows_without_a_time_are_left_out_and_0_stages_are_as_many_as_fit() -> None:
    many, row = mainloop.read_rows(LINES)
    assert many == replace(row, stages=22, cycles=many.cycles)  # of 10,256 bytes each
    assert (row.m, row.n, row.k, row.stages, row.dtype) == (64, 16, 64, 4, "BF16")
    assert row.cycles == pytest.approx(0.512e6 / 2048 * 1.3)
    assert row.footprint == 80 * 131072 * 2


def test_with_many_stages_the_slowest_server_sets_the_pace() -> None:
    """192 rows at 120 bytes a cycle; 128 x 256 waits for its products, 512 cycles."""
    assert predicted(replace(ROW, stages=8)) == pytest.approx(192 * 128 / 120, rel=0.01)
    wide = Row(128, 256, 128, 8, "FP8_E4M3", 0)
    assert predicted(wide) == pytest.approx(4 * 128, rel=0.01)


def test_with_two_stages_a_turn_is_half_a_round_trip() -> None:
    draw = mainloop.draw_for()
    trip = 2 * predicted(replace(ROW, stages=2))
    known = draw["copy_latency"] + 192 * draw["copy_row_cycles"] + 4 * 48 + draw["mma_fixed"]
    assert known < trip < known + 250
    assert predicted(ROW) < trip / 2


def test_what_exceeds_half_of_the_l2_comes_from_memory() -> None:
    near, far = Row(128, 64, 64, 2, "BF16", 0), Row(128, 128, 64, 2, "BF16", 0)
    assert near.footprint < mainloop.HALF_L2 < far.footprint
    extra = 2 * (predicted(far) - predicted(near))
    assert extra > mainloop.draw_for()["hbm_latency"]


def test_of_a_line_of_the_l2_only_the_first_turn_waits_for_memory() -> None:
    """In bf16 a turn of k = 16 has a quarter of a line; with two stages a turn is half a trip."""
    narrow = [Row(64, n, 16, 2, "BF16", 0) for n in (128, 192)]
    near, far = (predicted(row) for row in narrow)
    rows, product = 64 * mainloop.draw_for()["copy_short_row_cycles"], 64 / 2
    extra = far - near - (rows + product) / 2
    assert narrow[0].footprint < mainloop.HALF_L2 < narrow[1].footprint
    assert extra == pytest.approx(mainloop.draw_for()["hbm_latency"] / 4, rel=0.1)


def test_the_page_has_errors_by_tile_and_of_all() -> None:
    cycles = predicted(ROW)
    lines = mainloop.page([replace(ROW, cycles=cycles / 1.1), replace(ROW, cycles=cycles / 0.8)])
    assert "| BF16 | 128 × 64 | 2 | -5.0% | 15.0% | -20.0% (64, 4) |" in lines.splitlines()
    assert lines.endswith(mainloop.REASONS)
    table = lines.removesuffix(mainloop.REASONS).splitlines()
    assert "| all | | 2 | -5.0% | 15.0% | -20.0% |" in table
    assert table[-1] == "| 128 and more | 2 | -5.0% | 15.0% |"
    assert mainloop.main([]) == 64
