"""Rope columns with other features, in every kernel that has them: v narrower than q and k."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testing.cases import KERNELS, Case
from testing.runner import check
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

PAIR = "two Q tiles per CTA of a pair"
CASES = (
    (PAIR, (192, 128), "tokens persistent page16"),
    ("two Q tiles", (192, 128), "split function cache"),
    ("one Q tile", (128, 64), "cluster causal ragged"),
)
MORE = (
    (PAIR, (128, 64), "ragged page64 causal"),
    ("one Q tile", (192, 128), "page64 split sink"),
    (PAIR, (128, 64), "function softcap"),
    (PAIR, (192, 128), "window sink ragged"),
    ("two Q tiles", (192, 128), "tokens ragged page16"),
    *((PAIR, (128, 64), names) for names in (
        "page16 sink", "page256", "fp8 persistent page64", "tokens cache", "union alibi padding",
        "split bias",
    )),
    *((PAIR, (192, 128), names) for names in (
        "fp8 ragged cache", "bias split", "tokens union softcap", "persistent function",
    )),
    ("two Q tiles", (192, 128), "persistent union"),
    ("one Q tile", (128, 64), "persistent fp8"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "depths", "names"),
    [*CASES, *also(*MORE)],
)
def test_they_go_with_the_features(kernel: str, depths: tuple[int, int], names: str) -> None:
    assert kernel in KERNELS
    head_dim, head_dim_v = depths
    plain = Case.of(names.split(), kernel)
    check(replace(plain, head_dim=head_dim, head_dim_v=head_dim_v))
