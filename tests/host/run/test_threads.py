"""A kernel's clusters run in several threads: the same bits, the same report."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
import torch

import fa4_cute

IGNORED = {"seconds", "prepare_seconds", "options", "places"}


def _paged(k: torch.Tensor, v: torch.Tensor) -> dict[str, Any]:
    """The keys in pages of 64 rows, in another order."""
    order = torch.randperm(k.shape[1] // 64, generator=torch.Generator().manual_seed(2))
    pages = [x.reshape(-1, 64, *x.shape[2:])[order].contiguous() for x in (k, v)]
    table = torch.argsort(order).to(torch.int32)[None]
    used = torch.tensor([k.shape[1]], dtype=torch.int32)
    return {"k": pages[0], "v": pages[1], "page_table": table, "seqused_k": used}


CALLS: dict[str, dict[str, Any]] = {
    "dense": {"causal": True, "return_lse": True},
    "persistent": {"causal": True, "scheduler": "persistent"},
    "paged": {"causal": True},
    "split": {"num_splits": 3, "split": "workspace"},
    "cluster": {"num_splits": 2, "split": "cluster"},
}


def _reported(name: str, threads: int, **options: Any) -> tuple[list[torch.Tensor], list[Any]]:
    """Results and reports of a call of 400 x 640, 4 heads on 2."""
    generator = torch.Generator().manual_seed(1)
    q = torch.randn(1, 400, 4, 64, generator=generator).bfloat16()
    k, v = (torch.randn(1, 640, 2, 64, generator=generator).bfloat16() for _ in range(2))
    given = {"k": k, "v": v, **(_paged(k, v) if name == "paged" else {}), **CALLS[name]}
    with fa4_cute.simulator_options(threads=threads, **options):
        made = fa4_cute.flash_attn(q, given.pop("k"), given.pop("v"), **given)
    report = fa4_cute.last_report()
    assert report is not None
    shown = [getattr(report, f.name) for f in fields(report) if f.name not in IGNORED]
    return list(made) if isinstance(made, tuple) else [made], shown


QUICK = "dense"


@pytest.mark.parametrize("name", [
    QUICK,
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("persistent", "split", "cluster")),
    pytest.param("paged", marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_threads_change_nothing(name: str) -> None:
    one, report = _reported(name, 1, checks="all", trace_cluster=1)
    for threads in (2, 3):
        several, other = _reported(name, threads, checks="all", trace_cluster=1)
        assert all(torch.equal(a, b) for a, b in zip(one, several, strict=True))
        assert other == report


def test_threads_change_no_random_schedule() -> None:
    options = {"mode": "random", "seed": 5, "trace_cluster": 3}
    one, report = _reported("dense", 1, **options)
    several, other = _reported("dense", 2, **options)
    assert torch.equal(one[0], several[0])
    assert other == report
