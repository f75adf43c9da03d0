"""Processes that are ranks of one gloo group, and the cases that they compute together."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import fa4_cute
from fa4_cute import distributed, masks
from fa4_cute.distributed.attend import results
from fa4_cute.plan.ranks.band import Band
from fa4_cute.plan.ranks.steps import Call, Part

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
TIMEOUT = timedelta(seconds=120)
"""How long a rank waits for another: a hang becomes an error of the test."""


@dataclass(frozen=True)
class Case:
    """One call, made by all ranks.

    Attributes:
        lengths: of the sequences of q; one number is a dense batch of two.
        lengths_k: of k, where they differ.
        method, layout: of the call.
        options: further arguments of the call; ``sink=True`` stands for a tensor.
        bands: under which bands ranks call the kernel, so that it can be compiled before.
        members: ranks of a group of their own that makes the call, or None for all.
        repeated: how often the call is made.
    """

    lengths: tuple[int, ...] | int
    method: str = "ring"
    layout: str = "zigzag"
    lengths_k: tuple[int, ...] | int | None = None
    options: dict[str, Any] = field(default_factory=dict)
    bands: tuple[Band, ...] = ()
    members: tuple[int, ...] | None = None
    repeated: int = 1

    @property
    def is_dense(self) -> bool:
        return isinstance(self.lengths, int)

    def tensors(self) -> Tensors:
        """The whole q, k and v, the same in every process."""
        random = torch.Generator().manual_seed(11)
        lengths_k = self.lengths if self.lengths_k is None else self.lengths_k

        def make(lengths: Any, heads: int) -> torch.Tensor:
            rows = (2, lengths) if isinstance(lengths, int) else (sum(lengths),)
            return torch.randn((*rows, heads, 64), generator=random).bfloat16()

        return make(self.lengths, 2), make(lengths_k, 1), make(lengths_k, 1)

    def whole(self) -> dict[str, Any]:
        """Arguments of the call on one device."""
        found = dict(self.options)
        if found.pop("sink", False):
            found["sink"] = torch.tensor([0.5, -1.0])
        if isinstance(self.lengths, tuple):
            lengths_k = self.lengths if self.lengths_k is None else self.lengths_k
            assert isinstance(lengths_k, tuple)
            for name, each in (("q", self.lengths), ("k", lengths_k)):
                found[f"cu_seqlens_{name}"] = torch.tensor([0, *accumulate(each)]).int()
        return found

    def alone(self, **more: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """O and LSE of one device."""
        call: Any = fa4_cute.flash_attn if self.is_dense else fa4_cute.flash_attn_varlen
        out, lse = call(*self.tensors(), **self.whole(), **more, return_lse=True)
        return out, lse

    def on_ranks(self, group: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """O and LSE of the ranks of ``group``, put together again."""
        given = self.whole()
        where: dict[str, Any] = {"group": group, "layout": self.layout}
        offsets = [given.get(f"cu_seqlens_{name}") for name in "qkk"]
        mine = [
            distributed.shard(x, cu_seqlens=starts, **where)
            for x, starts in zip(self.tensors(), offsets, strict=True)
        ]
        call: Any = (
            distributed.context_parallel_attn
            if self.is_dense
            else distributed.context_parallel_attn_varlen
        )
        for _ in range(self.repeated):
            out, lse = call(*mine, **given, **where, method=self.method, return_lse=True)
        return (
            distributed.unshard(out, cu_seqlens=offsets[0], **where),
            distributed.unshard(lse, cu_seqlens=offsets[0], dim=-1, **where),
        )

    def warm_up(self) -> None:
        """Compile the kernels of the case in this process, so that no rank has to."""
        kept = ("softmax_scale", "softcap")
        options = {name: x for name, x in self.options.items() if name in kept}
        rows = torch.ones((1, 2, 2, 64) if self.is_dense else (2, 2, 64)).bfloat16()
        block = rows[..., :1, :], rows[..., :1, :]
        for band in self.bands:
            results(Call(band, (Part((0, 2), (0, 2)),)), rows, block, options)


def _wrong_heads(rank: int) -> Any:
    q, k, v = (x[:, : 4 + 2 * (1 - rank)] for x in Case(8).tensors())
    return distributed.context_parallel_attn(q[:, :, : 2 - rank], k, v)


def _wrong_rows(rank: int) -> Any:
    q, k, v = (x[:, : 5 - 2 * rank] for x in Case(8).tensors())
    return distributed.context_parallel_attn(q, k, v)


def _one_mask(rank: int) -> Any:
    mine = [distributed.shard(x) for x in Case(8).tensors()]
    return distributed.context_parallel_attn(*mine, mask=masks.chunked(4) if rank else None)


def _two_windows(rank: int) -> Any:
    mine = [distributed.shard(x) for x in Case(8).tensors()]
    return distributed.context_parallel_attn(*mine, window_size=(7 + rank, 0))


def _rows_of_no_shard(rank: int) -> Any:
    return distributed.unshard(torch.zeros(2, 3 + 2 * rank))


MISTAKES: dict[str, Callable[[int], Any]] = {
    function.__name__: function
    for function in (_wrong_heads, _wrong_rows, _one_mask, _two_windows, _rows_of_no_shard)
}
"""Calls that two ranks make with arguments that do not fit together."""


def work(rank: int, ranks: int, folder: str, cases: dict[str, Case], mistakes: bool) -> None:
    """Compute all cases as one rank, and write the results into ``folder``."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    store = dist.FileStore(str(Path(folder) / "store"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks, timeout=TIMEOUT)
    found: dict[str, Any] = {}
    for name, case in cases.items():
        group = None if case.members is None else dist.new_group(list(case.members))
        if case.members is None or rank in case.members:
            found[name] = case.on_ranks(group)
    for name, mistake in MISTAKES.items() if mistakes else ():
        try:
            mistake(rank)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    torch.save(found, Path(folder) / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


def together(
    ranks: int, folder: Path, cases: dict[str, Case], mistakes: bool = False
) -> list[dict[str, Any]]:
    """Results of ``cases`` by rank, from as many processes."""
    for case in cases.values():
        case.warm_up()
    arguments = (ranks, str(folder), cases, mistakes)
    # Ranks are forked from one process that has imported all this and started no thread.
    multiprocessing.set_forkserver_preload([__name__])
    torch.multiprocessing.start_processes(work, arguments, nprocs=ranks, start_method="forkserver")
    return [torch.load(folder / f"{rank}.pt") for rank in range(ranks)]
