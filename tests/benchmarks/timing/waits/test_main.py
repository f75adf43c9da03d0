"""What a GPU's CTAs wrote becomes one, and stands beside the machine's wait by wait."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.timing.waits.__main__ import compared, main, middle, placed
from benchmarks.timing.waits.records import BEGIN, END, WORDS, Waits, counted, decoded

SITES = [{"kind": "mbarrier", "line": 7}, {"kind": "products", "line": 9}]


def cta(copy: int, *, begin: int = 0) -> Waits:
    """Two warps alike that wait twice for a copy and once for products, and one that does not."""
    waits = [[BEGIN, begin, 0], [0, 10, copy], [1, 500, 60], [0, 600, copy], [END, 1000 + copy, 0]]
    return [waits, waits, [[BEGIN, 2, 0], [END, 40, 0]]]


def test_the_middle_of_three() -> None:
    assert middle([cta(100), cta(900), cta(200)]) == cta(200)


def test_who_went_another_way_is_left_out() -> None:
    other = cta(900)
    other[2] = [[BEGIN, 2, 0], [1, 3, 4], [END, 40, 0]]
    assert middle([cta(100), other, cta(200)])[2] == cta(200)[2]


def test_waits_stand_beside_the_machines() -> None:
    assert list(compared(cta(300), cta(200), SITES)) == [
        "| 0–1 | from begin to end | 1 | 1,300 | 1,200 | -100 |",
        "| 0–1 | mbarrier, line 7 | 2 | 300 | 200 | -200 |",
        "| 0–1 | products, line 9 | 1 | 60 | 60 | +0 |",
        "| 2 | from begin to end | 1 | 38 | 38 | +0 |",
    ]


def test_the_machine_beside_itself_has_no_difference() -> None:
    assert all(row.endswith("| +0 |") for row in compared(cta(200), cta(200), SITES))


def test_a_warp_that_wrote_nothing_has_no_cycles() -> None:
    silent = [*cta(200)[:2], []]
    assert list(compared(middle([silent]), cta(200), SITES))[-1].endswith("| 0 | 38 | +38 |")


def test_where_a_cta_was() -> None:
    words = np.zeros((1, 1, 3, WORDS), np.uint32)
    words[0, 0] = [(BEGIN, 2**32 - 10, 77, 5000), (0, 0, 5, 0), (END, 90, 77, 6000)]
    ctas = decoded(words, 1, 3)
    assert placed(ctas, words) == [[77, 5000, 100]]
    assert counted(ctas[0]) == [[[BEGIN, 0, 0], [0, 10, 5], [END, 100, 0]]]


def test_a_table_of_what_was_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {"K": {"machine": cta(200), "sites": SITES}, "L": {"machine": cta(1), "sites": SITES}}
    (tmp_path / "machine.json").write_text(json.dumps(said))
    out = tmp_path / "measured.json"
    kernels = {"K": {"waits": cta(300)}, "L": {"failed": "wrong: error nan"}}
    out.write_text(json.dumps({"kernels": kernels}))
    assert main(["show", str(tmp_path), str(out)]) == 0
    text = capsys.readouterr().out
    assert "## K" in text
    assert "| 0–1 | mbarrier, line 7 | 2 | 300 | 200 | -200 |" in text
    assert "wrong: error nan" in text
    assert main(["other"]) == 64


def test_an_h200_answered_for_every_kernel() -> None:
    kept = json.loads(Path("benchmarks/timing/waits/h200.json").read_text())
    assert kept["card"]["name"] == "NVIDIA H200"
    assert len(kept["kernels"]) == 14
    for name, answer in kept["kernels"].items():
        assert any(answer["waits"]), name
        assert len(answer["placed"]) >= 64


def test_the_first_barrier_of_this_package_is_passed_late() -> None:
    """Of the warp whose lanes initialise mbarriers, one after the other."""
    kept = json.loads(Path("benchmarks/timing/waits/h200.json").read_text())
    first, barrier = kept["kernels"]["fa4_cute d64-1024 fewer consumers"]["waits"][0][:2]
    assert barrier[1] - first[1] == pytest.approx(1694)


def odd() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("benchmarks/timing/waits/h200_odd.json").read_text())
    return found["kernels"]


def test_who_of_a_head_begins_later_waits_less() -> None:
    """Of Triton's attention with 8 warps; the machine has 1,036 cycles a wait for each CTA."""
    kept = odd()["Triton attention d64-2048 128 × 128, 2 stages, 8 warps"]
    cycles = np.array(kept["placed"])[:, 2]
    assert (cycles.min(), cycles.max()) == (51759, 64422)
    waits = [took for site, _, took in kept["waits"][0] if site == 1]
    assert len(waits) == 16
    assert np.mean(waits) == pytest.approx(684, abs=1)


def test_two_slots_begin_sooner() -> None:
    """The first wait of this package's d64 kernel with one tile a CTA, for Q and K."""
    kept = odd()

    def first(variant: str) -> float:
        warps = kept[f"fa4_cute d64-1024 {variant}"]["waits"][:12]
        found = [next(took for site, _, took in warp if site == 1) for warp in warps]
        return float(np.mean(found))

    assert 160 < first("one tile a CTA") - first("2 stages") < 215


def test_a_last_section_of_heads_has_shorter_tiles_sooner() -> None:
    """FlashAttention-4's CTAs from 1,024 on are of 16 heads, those before of 32."""
    kept = odd()["FA4 d192_128-2048-causal as shipped"]["placed"]
    cycles = np.array(kept)[:, 2]
    assert all(np.diff(cycles[52:]) < 0)
    assert (cycles[26], cycles[51], cycles[52], cycles[63]) == (55192, 7877, 48444, 11432)
