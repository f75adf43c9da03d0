"""`make check` covers every configuration family, with the seeds and times that it promises."""

from __future__ import annotations

from benchmarks import feature_cases
from benchmarks.check import CASES, HEAD_DIMS, SEEDS, check, family, uncovered_families
from benchmarks.launches import Case, Launch
from tests.kernel.feature_case import FEATURES


def test_every_configuration_family_has_a_case() -> None:
    assert uncovered_families(CASES) == []
    assert len({family(head_dim) for head_dim in HEAD_DIMS} - {None}) >= 6


def test_a_family_without_a_case_is_named() -> None:
    (missing,) = uncovered_families(tuple(c for c in CASES if c.head_dim != 512))
    assert missing == family(512)


def test_all_element_types_masks_and_grouped_heads_are_there() -> None:
    kernels = {family(c.head_dim): {type(c)} for c in CASES}
    assert len({str(k[0]) for k in kernels if k}) == 2
    assert len({c.dtype for c in CASES}) == 3
    assert {c.causal for c in CASES} == {True, False}
    assert {c.heads > c.kv_heads for c in CASES} == {True, False}
    assert SEEDS >= 16


def test_a_case_gives_a_time_for_each_mode_and_a_verdict() -> None:
    row = check(Case(10, 20, 64))
    assert (row.verdict, row.equal, row.findings) == ("clean", True, [])
    assert min(row.plain, row.fast, row.late, row.random) > 0


def test_every_feature_is_checked_in_every_kernel_that_has_it() -> None:
    kernels = {1: set(), 2: set(), None: set()}  # type: dict[int | None, set[str]]
    for case in feature_cases.CASES:
        kernels[case.num_qo] |= case.features | ({"tokens"} if case.token_scales else set())
    here = set(FEATURES) - {"page256"}
    assert all(names >= here for names in kernels.values()), {
        kernel: here - names for kernel, names in kernels.items()
    }
    assert len({case.name for case in feature_cases.CASES}) == len(feature_cases.CASES)
    scaled = [case for case in feature_cases.CASES if case.token_scales]
    assert {case.num_qo for case in scaled} == {1, 2, None}
    assert {case.head_dim for case in feature_cases.CASES} >= {64, 128, 256, 512}


def test_split_keys_bring_the_combine_kernel_along() -> None:
    case = next(c for c in feature_cases.CASES if "split" in c.features and c.num_qo == 1)
    launch = Launch(case)
    combines = ["fa4_combine" in request.kernel for request in launch.requests]
    assert combines == [False, True]
