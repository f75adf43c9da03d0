"""``vmap`` gives what a loop gives, of dense calls in one launch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fa4_cute
from fa4_cute import masks, score_mods
from tests.host.operator.cases import CASES, INPUTS, SLOPES, TABLE, Case
from tests.host.operator.stand_in import StandIn

N = 2
ONE_LAUNCH = ("plain", "scale", "masks", "padding, bias", "window", "softcap", "cache", "pages",
              "fp8", "fp8 tokens", "rope", "splits", "hopper")  # fmt: skip


def stacked(tensor: torch.Tensor, dim: int | None) -> torch.Tensor:
    """N different tensors in one along ``dim``; positions and lengths stay what they are."""
    if dim is None:
        return tensor
    if tensor.dtype in (torch.int32, torch.float8_e4m3fn):
        return torch.stack([tensor] * N, dim)
    return torch.stack([tensor, tensor * 0.5 + 0.25], dim)


def close(got: Any, want: Any) -> bool:
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    return all(torch.allclose(a.float(), b.float(), atol=2e-3, rtol=2e-3) for a, b in pairs)


def in_a_loop(case: Case, tensors: list[torch.Tensor], dims: tuple[int | None, ...]) -> Any:
    found = []
    for i in range(N):
        entry = (t if d is None else t.select(d, i) for t, d in zip(tensors, dims, strict=True))
        found.append(case.call(*entry))
    if isinstance(found[0], tuple):
        return tuple(torch.stack(each) for each in zip(*found, strict=True))
    return torch.stack(found)


def check(name: str, dims: tuple[int | None, ...], stand_in: StandIn) -> int:
    """Compare with a loop; return how many calls vmap made."""
    case = CASES[name]
    tensors = [stacked(t, d) for t, d in zip(case.tensors, dims, strict=True)]
    want = in_a_loop(case, tensors, dims)
    stand_in.calls.clear()
    got = torch.vmap(case.call, in_dims=dims)(*tensors)
    assert close(got, want)
    return len(stand_in.calls)


@pytest.mark.parametrize("name", CASES)
def test_all_tensors_mapped(name: str, stand_in: StandIn) -> None:
    calls = check(name, (0,) * len(CASES[name].tensors), stand_in)
    assert calls == (1 if name in ONE_LAUNCH and name != "fp8" else N) or name == "pairs"


@pytest.mark.parametrize("name", CASES)
def test_only_queries_mapped(name: str, stand_in: StandIn) -> None:
    dims = (1, *(None,) * (len(CASES[name].tensors) - 1))
    calls = check(name, dims, stand_in)
    assert calls == (N if name in ("packed", "unchecked", "function") else 1)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_any_dimension_of_any_tensor(stand_in: StandIn, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(CASES)))
    tensors = CASES[name].tensors
    dims = tuple(data.draw(st.none() | st.integers(0, t.dim())) for t in tensors)
    if any(dim is not None for dim in dims):
        check(name, dims, stand_in)


def test_nested(stand_in: StandIn) -> None:
    q, k, v = (stacked(stacked(t, 0), 0) for t in INPUTS)
    got = torch.vmap(torch.vmap(fa4_cute.flash_attn))(q, k, v)
    assert close(got[1, 0], fa4_cute.flash_attn(q[1, 0], k[1, 0], v[1, 0]))
    assert len(stand_in.calls) == 2


def test_slopes_of_sequences_fold(stand_in: StandIn) -> None:
    slopes = torch.stack([SLOPES, SLOPES * 2])
    both = torch.stack([slopes, slopes + 1])

    def call(slope: torch.Tensor) -> Any:
        return fa4_cute.flash_attn(*INPUTS, score_mod=score_mods.alibi(slope))

    got = torch.vmap(call)(both)
    assert len(stand_in.calls) == 1
    assert close(got, torch.stack([call(both[0]), call(both[1])]))


def test_masks_with_the_same_mapped_lengths(stand_in: StandIn) -> None:
    lengths = torch.tensor([[3, 7], [20, 1]], dtype=torch.int32)

    def call(n: torch.Tensor) -> Any:
        mask = (masks.padding(n) & masks.causal()) | (masks.padding(n) & masks.chunked(2))
        return fa4_cute.flash_attn(*INPUTS, mask=mask)

    assert close(torch.vmap(call)(lengths), torch.stack([call(lengths[0]), call(lengths[1])]))


def test_pages_of_one_pool_stay_one_pool(stand_in: StandIn) -> None:
    case = CASES["pages"]
    check("pages", (0, None, None, 0, 0), stand_in)
    assert stand_in.calls[-1]["k"].shape == case.tensors[1].shape
    assert stand_in.calls[-1]["page_table"].shape == (N * TABLE.shape[0], TABLE.shape[1])


def test_tensors_of_the_caller_are_refused(stand_in: StandIn) -> None:
    q = torch.stack([INPUTS[0]] * 2)
    with pytest.raises(NotImplementedError, match="out, lse: not under vmap"):
        torch.vmap(lambda x, out: fa4_cute.flash_attn(x, *INPUTS[1:], out=out))(
            q, torch.empty_like(q)
        )
