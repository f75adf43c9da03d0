"""Arithmetic on drawn registers beside products: the work, the module, answers and page."""

from __future__ import annotations

import json
import re
import struct
from collections import Counter
from pathlib import Path

import pytest
import torch

from benchmarks.timing.waits.registers import (
    APART,
    CHAINS,
    COUNTS,
    PRODUCTS,
    STEP,
    WARPS,
    WORK,
    kernel,
    main,
    show,
    step,
)
from sm100sim.launch_request import LaunchRequest
from sm100sim.options import RunOptions
from sm100sim.run import run

ANSWERS = json.loads(Path("benchmarks/timing/waits/h200_registers.json").read_text())["answers"]


@pytest.mark.parametrize("work", COUNTS)
def test_a_step_has_its_kinds_and_waits_for_no_result_just_before(work: str) -> None:
    lines = step(work)
    assert len(lines) == STEP
    kinds = Counter(re.findall(r"(?:add|max|fma|ex2|cvt)(?=\.)", line)[0] for line in lines)
    assert kinds == {kind: 2 * count for kind, count in COUNTS[work].items()}
    results: list[str] = []
    for line in lines:
        used = set(re.findall(r"%g\d+", line))
        assert not used & set(results[1 - APART :])
        results.append(re.findall(r"%g\d+", line)[0])


def test_chains_wait_for_the_addition_before_the_last() -> None:
    assert {line.split(",")[0].split()[-1] for line in step(CHAINS)} == {"%g0", "%g1"}


@pytest.mark.parametrize("product", ["n112", "n96, A in registers"])
def test_the_module_runs_and_all_warps_end(product: str) -> None:
    """In the simulator, whose cycles say nothing here; steps are counted where a warp works."""
    out = torch.zeros(2 * 128, 2, dtype=torch.int32)
    params = (struct.pack("<Q", out.data_ptr()), struct.pack("<I", 2), struct.pack("<I", 0))
    run(
        LaunchRequest(
            kernel("attention", product), "k", (1, 1, 1), (256, 1, 1), smem_bytes=1 << 16,
            params=params,
        ),
        RunOptions(mode="fast"),
    )  # fmt: skip
    assert (out[128:, 1] >= 1).all()


def test_answers_are_of_all_work_and_the_page_shows_them() -> None:
    assert set(ANSWERS) == {f"{w} | {p} | {n}" for w in WORK for p in PRODUCTS for n in WARPS}
    rows = "\n".join(show(ANSWERS))
    assert rows in Path("docs/timing_probes.md").read_text()


def test_additions_starve_products_and_maxima_do_not() -> None:
    assert ANSWERS["additions | n128 | 3"][0] > 1000
    assert ANSWERS["maxima | n128 | 3"][0] < 65
    alone = ANSWERS["attention | n128 | 0"][0]
    assert 1.1 < ANSWERS["attention | n128 | 3"][0] / alone < 1.3


def test_an_unknown_command_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["measure"]) == 64
    assert "run FOLDER OUT.json" in capsys.readouterr().err
