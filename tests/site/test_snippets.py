"""The Python of the pages runs: every block, on tensors that fit its names.

Blocks that are files, with commands beside them, are run by tests/sim/test_quick_start.py.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import fa4_cute
import sm100sim
from fa4_cute import masks, score_mods
from testing.site.hooks import written_pages
from testing.site.markdown import BLOCK, ROOT

ELSEWHERE = {
    "docs/quick_start.md": "tests/sim/test_quick_start.py",
    "docs/tutorial.md": "tests/sim/test_quick_start.py",
    "docs/timing.md": "its names are launches that were recorded; tests/sim/timing runs the calls",
}
"""Page -> where its blocks are run."""
BATCH, ROWS, HEADS, WIDTH = 2, 64, 2, 64
IN_A_PROCESS = {
    "docs/checking.md": "def kernel(_): import sums; sums.wrong_sums()\n",
    "docs/simulator.md": (
        "import sm100sim; sm100sim.activate()\n"
        "from sm100sim import last_report, timeline\n"
        "from sm100sim.options import Check, run_options\n"
        "def kernel(_): import sums; sums.wrong_sums()\n"
    ),
}
"""Pages whose blocks activate the simulator before the DSL is imported, and what comes first."""


def blocks(page: str) -> list[str]:
    """The Python of a page, without files."""
    found = BLOCK.findall((ROOT / page).read_text())
    return [text for kind, name, text in found if kind == "python" and not name]


ON_REQUEST = {"docs/calling.md-3"}
"""Blocks that only widen the search: one that fills a cache of its own."""
SNIPPETS = [
    pytest.param(
        page, text, id=f"{page}-{number}",
        marks=pytest.mark.exhaustive if f"{page}-{number}" in ON_REQUEST else pytest.mark.slow,
    )
    for page in written_pages()
    if page not in ELSEWHERE and page not in IN_A_PROCESS
    for number, text in enumerate(blocks(page))
]


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).bfloat16()


def tensors(packed: bool) -> dict[str, Any]:
    """q, k and v: two sequences, packed one after the other or a batch."""
    shape = (ROWS, HEADS, WIDTH) if packed else (BATCH, ROWS, HEADS, WIDTH)
    return {name: values(*shape) for name in "qkv"}


def scope() -> dict[str, Any]:
    """What the blocks name without making it."""
    wide = values(1, ROWS, HEADS, 128)
    heads_first = values(BATCH, HEADS, ROWS, WIDTH)
    pages = values(4, ROWS, HEADS, WIDTH)
    return {
        "torch": torch,
        "F": F,
        "sm100sim": sm100sim,
        "fa4_cute": fa4_cute,
        "masks": masks,
        "score_mods": score_mods,
        **dict.fromkeys(("query", "key", "value"), heads_first),
        **dict.fromkeys(("pages", "pages_k", "pages_v"), pages),
        **dict.fromkeys(("q_nope", "k_nope"), wide),
        "q_rope": values(1, ROWS, HEADS, 64),
        "k_rope": values(1, ROWS, 1, 64),
        "table": torch.tensor([[0, 1], [2, 3]], dtype=torch.int32),
        "lengths": torch.tensor([60, 50], dtype=torch.int32),
        "starts": torch.tensor([0, 40, ROWS], dtype=torch.int32),
        "slopes": torch.tensor([0.5, 0.25]),
        "sinks": torch.zeros(HEADS),
        "seqlen": ROWS,
        "attn_mask": None,
    }


def given(text: str) -> dict[str, Any]:
    """The tensors that a statement takes."""
    if "q_nope" in text:
        return {"v": values(1, ROWS, HEADS, 128)}
    if "scaled_dot_product" in text:
        return dict.fromkeys("qkv", values(BATCH, HEADS, ROWS, WIDTH))
    return tensors(packed="varlen" in text)


def execute(text: str, names: dict[str, Any]) -> None:
    """Run a block statement by statement; q, k and v fit each, unless the block makes them."""
    tree = ast.parse(text)
    named = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    makes = any(node.id == "q" and isinstance(node.ctx, ast.Store) for node in named)
    names |= given(text)
    for statement in tree.body:
        if not makes:
            names |= given(ast.unparse(statement))
        exec(compile(ast.Module([statement], []), "page", "exec"), names)


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The folder of a tiny model with random weights."""
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1, "vocab_size": 100}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    config = transformers.LlamaConfig(**sizes, **heads)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


@pytest.mark.parametrize(("page", "text"), SNIPPETS)
def test_a_block_runs(
    page: str,
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    names = scope()
    if "clear_cache" in text:
        monkeypatch.setenv("FA4_CUTE_CACHE_DIR", str(tmp_path))
    if "from_pretrained" in text:
        from transformers import AutoModelForCausalLM

        names["AutoModelForCausalLM"] = AutoModelForCausalLM
        names["name"] = request.getfixturevalue("model")
    if page == "docs/distributed.md":
        request.getfixturevalue("one_rank")
        import torch.distributed as dist

        text = text.replace('dist.init_process_group("nccl")', "assert dist.is_initialized()")
        names |= {"distributed": fa4_cute.distributed, "dist": dist}
    execute(text, names)


@pytest.fixture
def one_rank(tmp_path: Path) -> Any:
    """A process group of one rank."""
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/ranks", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("page", IN_A_PROCESS)
def test_a_block_runs_before_the_dsl_is_imported(page: str, tmp_path: Path) -> None:
    found = BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text())
    (tmp_path / "sums.py").write_text(next(text for _, name, text in found if name == "sums.py"))
    (text,) = blocks(page)
    rows = "timeline.all_rows(report), label=None"
    program = IN_A_PROCESS[page] + text.replace("rows, label=...", rows)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, text=True, check=False,
        capture_output=True, env={"PYTHONPATH": f"{ROOT}:{tmp_path}", "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ("findings" in done.stdout) == (page == "docs/checking.md")


def test_every_page_with_python_is_run() -> None:
    assert all(page in written_pages() for page in [*ELSEWHERE, *IN_A_PROCESS])
    assert {page for page in written_pages() if blocks(page)} - set(ELSEWHERE) == (
        {param.values[0] for param in SNIPPETS} | set(IN_A_PROCESS)
    )
