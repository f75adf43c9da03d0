"""The demo runs, says what it should, and draws a timeline that shows all roles at work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from examples import demo
from examples.attention_timeline import draw_profile, meaning_of_columns
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from sm100sim.timing.records import Action

ROOT = Path(__file__).resolve().parents[2]


def test_scores_are_called_after_their_q_tile() -> None:
    """Two Q tiles: a chain for each. One: both chains have it, and share its key tiles."""
    two, one = (KernelSpec.for_attention(DType.BF16, 128, num_qo=n) for n in (2, 1))
    assert list(meaning_of_columns(two).values()) == [
        "S0 = Q0 K'", "S1 = Q1 K'", "O0 += P0 V", "O1 += P1 V",
    ]  # fmt: skip
    assert list(meaning_of_columns(one).values()) == [
        "S0 = Q0 K' of key tiles 0, 2, ...", "S1 = Q0 K' of key tiles 1, 3, ...",
        "O0 += P0 V", "O1 += P1 V",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_picture_shows_both_q_tiles_as_predicted(tmp_path: Path) -> None:
    """The labels are those of the kernel that ran, and MMAs write where they say."""
    path = tmp_path / "tile.html"
    found = demo.draw_tile(path)
    text = path.read_text()
    for label in ("S0 = Q0 K'", "S1 = Q1 K'", "O0 += P0 V", "O1 += P1 V"):
        assert json.dumps(label) in text
    assert "MMA to column" not in text
    assert [role.name for role in found.roles if role.named] == [
        "softmax0", "softmax1", "correction", "mma", "load",
    ]  # fmt: skip
    products = Counter(
        event.address
        for event in (found.detail.event(step) for step in range(len(found.detail.op)))
        if event is not None and event.kind is Action.MMA
    )
    spec = KernelSpec.for_attention(DType.BF16, 128, num_qo=2, return_lse=True)
    assert set(products) == set(meaning_of_columns(spec))
    assert len(set(products.values())) == 1  # equal parts of the work
    other = KernelSpec.for_attention(DType.BF16, 64)
    with pytest.raises(ValueError, match="the labels are of fa4_sm100_bf16_d64"):
        draw_profile(found, other, path, "")


@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", "--out", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for words in (
        "q (1, 1024, 1, 128)",
        "kernel SM100MHA2Q",
        "warp instructions in",
        "plain PyTorch",
        "causal=True",
        "critical path of",
        "limited by",
    ):
        assert words in done.stdout
    assert done.stderr == "", "silent in a pipe"
    assert (tmp_path / "timeline.png").stat().st_size > 10_000
