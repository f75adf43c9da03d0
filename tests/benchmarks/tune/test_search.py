"""The search over free choices, and what a launch takes by a CTA's cycles at two lengths."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tune import __main__ as program
from benchmarks.tune import measure, records
from benchmarks.tune.classes import CLASSES, TRACED, Cell
from benchmarks.tune.records import DEFAULT, Record, best
from fa4_cute.plan.config.tuning import RoleRegisters, Tuning
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from sm100sim.timing.chips import load_chip

D64, D128 = (next(of for of in CLASSES if of.name == name) for name in ("d64", "d128"))
DECODE = next(of for of in CLASSES if of.kernel == "1q")


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[Tuning]:
    """Choices that were measured; their cycles come from a formula."""
    seen: list[Tuning] = []

    def measured(of: Any, tuning: Tuning, hashes: dict[str, str]) -> Record:
        seen.append(tuning)
        cycles = 1000 + 10 * abs(tuning.emulated - 24) + (0 if tuning.keys == 128 else 200)
        spills = 2 if tuning.registers.softmax == 200 else 0
        found: dict[str, tuple[int, ...]] = {
            cell.name: (cycles - 50 * spills,) * 3 for cell in of.cells
        }
        return Record(of.name, tuning, hashes, spills, 800, 1100, found)

    def spec_of(problem: Any, kernel: str, tuning: Tuning | None = None, **asked: Any) -> Any:
        if tuning is not None and tuning.parts != (3, 1):
            raise ValueError("parts: no such kernel")
        return tuning, asked

    monkeypatch.setattr(measure, "measured", measured)
    monkeypatch.setattr(measure, "spec_of", spec_of)
    monkeypatch.setattr(measure, "ptx_hash", repr)
    return seen


def test_the_search_keeps_what_was_best_of_the_other_choices(
    judged: list[Tuning], capsys: pytest.CaptureFixture[str]
) -> None:
    found = program.Search(D64, {}).run()
    assert best(found).tuning == Tuning(emulated=24, keys=128)
    assert Tuning(emulated=24, keys=128, registers=RoleRegisters(200, 88, 24)) in found
    assert len(judged) == len(set(judged)) == len(found)
    assert "parts: no such kernel" in capsys.readouterr().out


def test_a_record_is_kept_while_its_kernels_stay(judged: list[Tuning]) -> None:
    first = program.Search(D64, {}).run()
    count = len(judged)
    program.Search(D64, first).run()
    assert len(judged) == count
    for kind in ("full", "causal", "dynamic"):
        changed = replace(first[DEFAULT], ptx={**first[DEFAULT].ptx, kind: "other"})
        del judged[count:]
        program.Search(D64, {**first, DEFAULT: changed}).run()
        assert judged[count:] == [DEFAULT]


def test_a_class_that_is_not_searched_keeps_what_it_was_made_with(
    judged: list[Tuning], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, of_then, of_now = tmp_path / "records.json", {"model": "then"}, {"model": "now"}
    other = [Record("d64", DEFAULT, {}, 0, 1, 1, {cell.name: (1,) for cell in D64.cells})]
    records.save({"d64": of_then}, other, path)
    monkeypatch.setattr(program, "load", partial(records.load, path))
    monkeypatch.setattr(program, "save", partial(records.save, path=path))
    monkeypatch.setattr(program, "TABLE", tmp_path / "tuned.py")
    monkeypatch.setattr(program, "made_with", lambda: of_now)
    monkeypatch.setattr("sm100sim.activate", lambda **_: None)
    assert program.main(["--write", "d128"]) == 0
    assert records.load(path)[0] == {"d64": of_then, "d128": of_now}


def test_cycles_of_a_launch_follow_from_two_lengths() -> None:
    draw = load_chip("b200").draw()
    spec = KernelSpec.for_attention(DType.BF16, 128)
    launch, gap = draw["launch_cycles"], draw["cta_cycles"]
    cell = Cell("full", 1024)
    # 16 sequences, 16 heads, 4 query tiles: 1024 CTAs, 7 rounds on 148 SMs
    found = measure.launch_cycles(D128, cell, spec, (20_000, 36_000), draw)
    assert found == pytest.approx(launch + 7 * (20_000 + gap))
    longer = measure.launch_cycles(D128, Cell("full", 8192), spec, (20_000, 36_000), draw)
    per_key = 16_000 / (TRACED[1] - TRACED[0])
    assert longer == pytest.approx(launch + 7 * (20_000 + 7168 * per_key + gap))
    causal = measure.launch_cycles(D128, Cell("causal", 8192), spec, (20_000, 36_000), draw)
    assert longer / 2 < causal < longer


def test_a_decoding_step_is_bound_by_memory_where_it_is_fast() -> None:
    draw = load_chip("b200").draw()
    spec = KernelSpec.for_attention(DType.BF16, 128, num_qo=1, group=4)
    problem = DECODE.launch(DECODE.cells[0])
    moved = problem.bytes() / (draw["hbm_gbytes"] * 1e3 / draw["clock_mhz"])
    found = measure.launch_cycles(DECODE, DECODE.cells[0], spec, (10, 20), draw)
    assert found == pytest.approx(draw["launch_cycles"] + moved)


def test_problems_of_classes() -> None:
    assert D128.problem("full", 2048).seqlen_q == 256
    assert D128.problem("causal", 2048).seqlen_q == 2048
    step = DECODE.problem("decode", 1024)
    assert (step.seqlen_q, step.heads, step.heads_kv) == (1, 4, 1)
    assert D128.launch(Cell("causal", 8192)).batch == 2
    assert len({of.name for of in CLASSES}) == len(CLASSES)


def test_one_q_tile_is_judged_by_what_calls_get() -> None:
    """Steps have copies of few rows; a prompt that fills the Q tile has none."""
    specs = measure.judged_specs(DECODE, DEFAULT)
    assert {kind: spec.config.row_copies for kind, spec in specs.items()} == {
        "short": 1, "decode": 4,
    }  # fmt: skip
    prompt = DECODE.launch(Cell("short", 8192))
    assert (prompt.batch, prompt.seqlen_q, prompt.seqlen_k) == (128, 128, 8192)


def test_spills_of_a_dynamic_kernel_count_and_its_ptx_is_kept() -> None:
    specs = measure.judged_specs(D128, DEFAULT)
    assert {kind: spec.variant.is_dynamic for kind, spec in specs.items()} == {
        "full": False, "causal": False, measure.DYNAMIC: True,
    }  # fmt: skip
    pair = next(of for of in CLASSES if of.kernel == "pair")
    assert measure.DYNAMIC not in measure.judged_specs(pair, DEFAULT)


def test_today_is_what_the_table_says() -> None:
    spec = KernelSpec.for_attention(DType.BF16, 64)
    assert records.today(D64) == spec.config.tuning


def test_a_class_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(["--show", "1q d46"])
    assert ended.value.code == 2
    assert "'1q d46'; nearest supported choice: 1q d64" in capsys.readouterr().err
