"""Sequences on several Hopper GPUs, passed on by NCCL, against one GPU.

    FA4_CUTE_CACHE_DIR=FOLDER python -m tests.hardware.test_sm90_ranks compile 2

runs the same calls on gloo and the simulator, which fills the cache with their kernels where CuTe
DSL is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist

import fa4_cute
from fa4_cute import distributed
from fa4_cute.host.ask import request
from fa4_cute.host.run import combine
from tests.hardware.hopper import needs_hopper

RANKS = (2, 4)
ROOT = Path(__file__).resolve().parents[2]
CALLS: dict[str, dict[str, Any]] = {
    "ring": {"causal": True},
    "all_gather": {"causal": True, "method": "all_gather"},
    "ring, contiguous": {"causal": True, "layout": "contiguous"},
    "ring, all keys": {},
    "all_gather, all keys": {"method": "all_gather"},
    "ring, window": {"window_size": (700, 0), "layout": "contiguous"},
}
TOLERANCE = 2.0**-7
"""The ring rounds the O of each part to 16 bits before it joins them."""


def tensors(length: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(5)
    shape = (2, length, 4, 128)
    return [torch.randn(shape, generator=random).bfloat16() for _ in range(3)]


def one_rank(rank: int, ranks: int, device: str, length: int, folder: str) -> None:
    """Make all calls as one of the ranks; raises where one differs from a single GPU's."""
    backend = "nccl" if device == "cuda" else "gloo"
    if device == "cuda":
        torch.cuda.set_device(rank)
    store = dist.FileStore(f"{folder}/store", ranks)
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks)
    q, k, v = (x.to(device) for x in tensors(length))
    for name, options in CALLS.items():
        layout = {"layout": options["layout"]} if "layout" in options else {}
        mine = [distributed.shard(x, **layout) for x in (q, k, v)]
        out, lse = distributed.context_parallel_attn(*mine, return_lse=True, **options)
        asked = {key: x for key, x in options.items() if key not in ("method", "layout")}
        whole = fa4_cute.flash_attn(q, k, v, **asked)
        gap = (out.float() - distributed.shard(whole, **layout).float()).abs().max()
        assert gap <= TOLERANCE, f"{name}: {gap} apart"
        assert lse.isfinite().all()
        print(f"rank {rank}, {backend}, {name}: at most {float(gap):.2e} apart", flush=True)
    dist.destroy_process_group()


def together(ranks: int, device: str, length: int, folder: Path) -> None:
    """Run all ranks as processes of their own; raises with what the first wrong one printed."""
    words = [sys.executable, "-m", "tests.hardware.test_sm90_ranks", device, str(length)]
    processes = [
        subprocess.Popen([*words, str(folder), str(rank), str(ranks)], cwd=ROOT, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH')}"})
        for rank in range(ranks)
    ]  # fmt: skip
    for process in processes:
        shown, _ = process.communicate(timeout=500)
        print(shown)
        assert process.returncode == 0, shown[-3000:]


@pytest.mark.gpu
@pytest.mark.parametrize(
    "ranks", [pytest.param(ranks, marks=needs_hopper(ranks)) for ranks in RANKS]
)
def test_ranks_on_nccl(ranks: int, tmp_path: Path) -> None:
    together(ranks, "cuda", 4096, tmp_path)


def main(words: list[str]) -> None:
    if words[0] == "compile":
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            together(int(words[1]), "cpu", 256, Path(folder))
        return
    device, length, folder, rank, ranks = words
    with (
        mock.patch.object(request, "arch_for", return_value="sm_90a"),
        mock.patch.object(combine, "arch_for", return_value="sm_90a"),
    ):
        one_rank(int(rank), int(ranks), device, int(length), folder)


if __name__ == "__main__":
    main(sys.argv[1:])
