"""Times on several ranks: arithmetic, page, and the program on gloo with a clock of paper."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
import torch
import torch.distributed as dist

import fa4_cute
from benchmarks.hopper import scaling
from benchmarks.hopper.scaling import Asked, Member, calls_of, measured, problem_of, timed
from benchmarks.hopper.times.problems import Problem
from benchmarks.hopper.times.scaling_page import below_target, efficiency, rate, render
from fa4_cute.distributed import attend
from fa4_cute.plan.ranks.band import CAUSAL, FULL

SMALL = Problem("ranks", 1, 48, 48, 4, 2, 16, 16, causal=True)


def row(ranks: int, ms: float, method: str = "ring", **more: Any) -> dict[str, Any]:
    return {
        "tokens": 4096, "mask": "all", "method": method, "ranks": ranks, "ms": ms, "gap": 1e-3,
        "flops": 8 * 10**12, **more,
    }  # fmt: skip


def test_efficiency_is_a_share_of_the_speed_of_one_gpu() -> None:
    assert efficiency(8.0, 2.0, 4) == 1.0
    assert efficiency(8.0, 2.5, 4) == 0.8
    assert rate(8 * 10**12, 2.5, 4) == 800.0


def test_what_misses_the_target_is_named() -> None:
    rows = [row(1, 8.0), row(4, 2.5), row(1, 8.0, "all_gather"), row(4, 2.1, "all_gather")]
    assert below_target(rows) == ["4,096 tokens, all, ring: 80.0%"]
    assert below_target([row(4, 9.0)]) == []


def test_a_page_without_a_second_number_of_gpus() -> None:
    found = {
        "card": {}, "versions": {"torch": "2"}, "rounds": 3, "day": "2026-01-02", "profiles": [],
        "shape": {"heads": 4, "heads_kv": 2, "head_dim": 16}, "rows": [row(1, 8.0), row(2, 4.0),
        row(4, 2.1, method="all_gather"), row(1, 8.0, method="all_gather")], "profiled_calls": 1,
    }  # fmt: skip
    page = render(found)
    assert "| 4,096 | all | ring | 8.00 | 1000 | 4.00 | 1000 | 100.0% | – | – | – |" in page
    assert "| 4,096 | all | all-gather | 8.00 | 1000 | – | – | – | 2.10 | 952 | 95.2% |" in page
    assert "all of these reach it." in page
    assert "same time" not in page


def test_calls_cover_what_ranks_compute() -> None:
    causal = calls_of(problem_of(32768, True), 4)
    assert {call.band for call in causal} == {CAUSAL, FULL}
    assert all(len(call.parts) == 1 for call in causal)
    assert {call.band for call in calls_of(problem_of(32768, False), 2)} == {FULL}


def test_warm_up_does_not_count() -> None:
    gpu, made = Paper(), []
    assert timed(lambda: made.append(1), 3, gpu) == [2.0, 2.0, 2.0]
    assert len(made) == scaling.WARMUP + 3


def test_without_gpus_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with mock.patch.object(torch.cuda, "device_count", return_value=0):
        assert scaling.main(["--ranks", "1", "2"]) == 2
    assert "--ranks 2: 0 GPUs are there" in capsys.readouterr().out


class Paper:
    """A device whose clock goes on by two milliseconds with every mark."""

    name = "cpu"
    now = 0.0

    def mark(self) -> float:
        self.now += 2.0
        return self.now

    def between(self, marks: list[float]) -> list[float]:
        return [other - one for one, other in pairwise(marks)]

    def profile(self, call: Callable[[], Any], calls: int) -> list[Any]:
        for _ in range(calls):
            call()
        cuda = torch.autograd.DeviceType.CUDA
        times = {"fa4_sm90_x": (0.0, 9000.0), "ncclDevKernel_SendRecv": (3000.0, 6000.0)}
        return [
            SimpleNamespace(name=name, device_type=cuda, time_range=SimpleNamespace(start=a, end=b))
            for name, (a, b) in times.items()
        ]


def plain(q: Any, k: Any, v: Any, **options: Any) -> Any:
    """Attention by torch, in float32."""
    seen = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool)
    if options.get("causal"):
        seen = seen.tril(k.shape[1] - q.shape[1])
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~seen, -torch.inf)
    out = (scores.softmax(-1) @ v).transpose(1, 2).bfloat16()
    return (out, scores.logsumexp(-1)) if options.get("return_lse") else out


def on_gloo(rank: int, folder: str) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    store = dist.FileStore(f"{folder}/store", 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    groups = {ranks: dist.new_group(list(range(ranks))) for ranks in (1, 2)}
    asked = Asked((1, 2), Path(folder, "scaling"), rounds=3)
    with (
        mock.patch.object(scaling, "TABLE", (SMALL,)),
        mock.patch.object(fa4_cute, "flash_attn", plain),
        mock.patch.object(attend, "flash_attn", plain),
    ):
        measured(Member(rank, groups, asked, Paper()))
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_ranks_are_timed_compared_and_profiled(tmp_path: Path) -> None:
    torch.multiprocessing.start_processes(on_gloo, (str(tmp_path),), nprocs=2, start_method="spawn")
    found = json.loads((tmp_path / "scaling.json").read_text())
    names = [(row["ranks"], row["method"], row["ms"]) for row in found["rows"]]
    assert names == [
        (1, "ring", 2.0), (1, "all_gather", 2.0), (2, "ring", 2.0), (2, "all_gather", 2.0)
    ]  # fmt: skip
    assert [len(row["runs"]) for row in found["rows"]] == [1, 1, 2, 2]
    assert 0 < max(row["gap"] for row in found["rows"]) <= scaling.TOLERANCE
    page = (tmp_path / "scaling.md").read_text()
    assert "| 48 | causal | ring | 2.00 |" in page
    assert "on four nothing was measured." in page
    assert "NCCL's streams have high priority." in page
    assert "| 48 | causal | ring | 2 | 3.00 | 3.00 | 1.00 | 100% | 0.00 | 0.00 |" in page
