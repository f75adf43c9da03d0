"""What ``shard`` deals out, ``unshard`` puts together; both on one rank. More: test_interface."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

from fa4_cute import distributed
from fa4_cute.distributed import sharding
from fa4_cute.distributed.members import Members


@pytest.fixture
def of_two(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """This process is the rank of that number, of two."""
    rank = [0]
    of = classmethod(lambda cls, group: cls(group, rank[0], 2))
    monkeypatch.setattr(sharding, "Members", type("Pair", (Members,), {"of": of}))
    return rank


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"dim": 0}, ([0, 1, 6, 7], [2, 3, 4, 5])),
        ({"dim": -1, "layout": "contiguous"}, ([0, 1, 2, 3], [4, 5, 6, 7])),
        ({"cu_seqlens": [0, 4, 8]}, ([0, 3, 4, 7], [1, 2, 5, 6])),
        ({"cu_seqlens": torch.tensor([0, 0, 8])}, ([0, 1, 6, 7], [2, 3, 4, 5])),
    ],
)
def test_rows_of_two_ranks(
    given: dict[str, Any], expected: tuple[list[int], list[int]], of_two: list[int]
) -> None:
    for rank, rows in enumerate(expected):
        of_two[0] = rank
        assert distributed.shard(torch.arange(8), **given).tolist() == rows


def test_a_batch_is_cut_along_its_rows(of_two: list[int]) -> None:
    x = torch.arange(2 * 8 * 3).view(2, 8, 3)
    assert torch.equal(distributed.shard(x), x[:, [0, 1, 6, 7]])
    of_two[0] = 1
    assert torch.equal(distributed.shard(x[:, :1]), x[:, :0])


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool])
def test_one_rank_gets_back_what_it_had(dtype: torch.dtype) -> None:
    x = (torch.arange(24) % 5).view(2, 4, 3).to(dtype)
    assert torch.equal(distributed.unshard(distributed.shard(x)), x)
    assert torch.equal(distributed.unshard(x.transpose(1, 2), dim=-1), x.transpose(1, 2))
    packed = distributed.unshard(x[0], cu_seqlens=[0, 1, 4])
    assert torch.equal(packed, x[0])
    assert distributed.unshard(x[:, :0]).shape == (2, 0, 3)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"tensor": 3}, TypeError, "tensor: expected a torch.Tensor, got int"),
        ({"dim": 2}, ValueError, r"dim=2: shape \(6, 2\) has dimensions 0 to 1"),
        ({"dim": -3}, ValueError, "dim=-3: must be -2 or more"),
        ({"layout": "snake"}, ValueError, "layout='snake': nearest supported choice: zigzag or"),
        ({"cu_seqlens": [0, 5]}, ValueError, "holds 6 rows|ends with 5, .* has 6 rows"),
        ({"group": "all"}, TypeError, "group=str: expected a ProcessGroup"),
        ({"group": dist.GroupMember.NON_GROUP_MEMBER}, ValueError, "not one of its ranks"),
    ],
)
@pytest.mark.parametrize("function", [distributed.shard, distributed.unshard])
def test_refusals(
    function: Any, given: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        function(**{"tensor": torch.zeros(6, 2), **given})


def test_without_a_process_group_there_is_a_sentence() -> None:
    with pytest.raises(ValueError, match=r"torch\.distributed has no process group yet"):
        distributed.shard(torch.zeros(2, 2))
