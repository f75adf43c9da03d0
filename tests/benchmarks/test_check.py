"""`make check` covers every configuration family, with the seeds and times that it promises."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import check as check_module
from benchmarks import feature_cases
from benchmarks.check import (
    CASES,
    HEAD_DIMS,
    SEEDS,
    Row,
    check,
    compared,
    family,
    uncovered_families,
)
from fa4_cute.plan.facts.hardware import SM90A
from sm100sim.options import RunOptions
from testing.arguments import FEATURES
from testing.cases import BF16, FP8, FP16, Case, dense, is_possible
from testing.launches import SMS, Described, Launch


def test_every_configuration_family_has_a_case() -> None:
    assert uncovered_families(CASES) == []
    assert len({family(head_dim) for head_dim in HEAD_DIMS} - {None}) >= 6


def test_a_family_without_a_case_is_named() -> None:
    (missing,) = uncovered_families(tuple(c for c in CASES if c.head_dim != 512))
    assert missing == family(512)


def test_all_element_types_masks_and_grouped_heads_are_there() -> None:
    kernels = {found[0] for c in CASES if (found := family(c.head_dim))}
    assert kernels == {"KernelSpec", "Depth512Spec"}
    assert len({c.dtype for c in CASES}) == 3
    assert {"causal" in c.features for c in CASES} == {True, False}
    assert {c.heads > c.kv_heads for c in CASES} == {True, False}
    assert SEEDS >= 16


@pytest.mark.slow
def test_a_case_gives_a_time_for_each_mode_and_a_verdict() -> None:
    row = check(dense(10, 20, 64))
    assert (row.verdict, row.equal, row.findings, row.wrong) == ("clean", True, [], [])
    assert row.ok
    assert 0 < row.error < 0.01
    assert min(row.plain, row.fast, row.late, row.random) > 0


@pytest.mark.slow
def test_results_are_compared_with_float64() -> None:
    launch = Launch(dense(10, 20, 64))
    launch.execute(RunOptions())
    compared(launch).check()
    launch.results[0][0, 3] *= 1.05
    assert not compared(launch).ok


def test_early_key_tiles_decide_in_some_cases() -> None:
    falling = [case for case in CASES if case.growth < 0]
    assert {(case.num_qo, case.pair_cta, case.head_dim > 192) for case in falling} >= {
        (2, False, False), (1, False, False), (None, True, False), (None, False, True)
    }  # fmt: skip


HEAD_DIM_OF = {1: 64, 2: 64, None: 256}


def test_every_feature_is_checked_in_every_kernel_that_has_it() -> None:
    kernels = {1: set(), 2: set(), None: set()}  # type: dict[int | None, set[str]]
    for case in feature_cases.CASES:
        kernels[case.num_qo] |= case.features | ({"rope"} if case.rope else set())
    for kernel, names in kernels.items():
        has = {name for name in FEATURES if is_possible({name}, HEAD_DIM_OF[kernel], kernel)}
        assert names >= has - {"page256"}, (kernel, has - names)
    assert len({case.name for case in feature_cases.CASES}) == len(feature_cases.CASES)
    assert {case.head_dim for case in feature_cases.CASES} >= {64, 128, 192, 256, 512}


@pytest.mark.slow
def test_every_form_of_the_operands_is_checked() -> None:
    pairs = [case for case in feature_cases.CASES if case.pair_cta]
    assert {"page16", "split", "fp8", "tokens"} <= frozenset().union(*(c.features for c in pairs))
    assert {case.rope for case in pairs if case.head_dim_v} == {None, BF16}
    fused = {Described(case).spec.config.use_fused_kv for case in pairs if case.head_dim_v}
    assert fused == {False, True}
    assert any(case.head_dim_v and case.arch == SM90A for case in feature_cases.CASES)
    narrow = [case for case in feature_cases.CASES if case.head_dim_v and case.arch is None]
    assert {case.num_qo for case in narrow} == {1, 2}
    assert {case.rope for case in narrow} == {None, FP16, BF16}
    assert {case.dtype for case in narrow if case.rope} == {BF16, FP8}
    for case in (*pairs, *narrow):
        config = Described(case).spec.config
        assert config.pair_cta == case.pair_cta
        assert config.rope_apart == (case.rope is not None)
        assert (config.rope_depth() > 0) == (case.head_dim_v > 0)


@pytest.mark.slow
def test_a_persistent_cta_takes_several_query_tiles() -> None:
    persistent = [case for case in feature_cases.CASES if "persistent" in case.features]
    for case in persistent:
        if case.arch == SM90A:  # its CTAs are persistent anyway
            work = Described(case).packed.plan.scalars["num_work"]
            assert work >= 2 * SMS, case.name
            continue
        one_each = replace(case, features=case.features - {"persistent"})
        assert Described(case).packed.plan.grid == (SMS, 1, 1)
        assert math.prod(Described(one_each).packed.plan.grid) >= 2 * SMS, case.name


@pytest.mark.slow
def test_split_keys_bring_the_combine_kernel_along() -> None:
    case = next(c for c in feature_cases.CASES if "split" in c.features and c.num_qo == 1)
    launch = Launch(case)
    combines = ["fa4_combine" in request.kernel for request in launch.requests]
    assert combines == [False, True]


def test_cases_may_run_in_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []

    def here(_: Any, calls: Sequence[tuple[Case]], processes: int) -> Iterator[Row]:
        asked.append(processes)
        for (case,) in calls:
            wrong = ["row 3"] if case.head_dim == 512 else []
            yield Row(case.name, "K", "clean", True, wrong, 0.0, 0.1, 0.2, 0.3, 0.4, [])

    monkeypatch.setattr(check_module, "each", here)
    monkeypatch.setattr(check_module, "RESULT", tmp_path / "check.json")
    assert check_module.main(["--processes", "5"]) == 1
    cases = (*CASES, *feature_cases.CASES)
    rows = json.loads((tmp_path / "check.json").read_text())["rows"]
    assert asked == [5]
    assert [row["case"] for row in rows] == [case.name for case in cases]
    right = sum(case.head_dim != 512 for case in cases)
    assert f"{right} of {len(cases)} cases right" in capsys.readouterr().out
