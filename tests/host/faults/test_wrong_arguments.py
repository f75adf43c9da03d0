"""Odd arguments end in a sentence that names one of them, soon, and never in another exception."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from fa4_cute.plan.masks.masks import CAUSAL, MAX_LEAVES, Mask

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
Q = torch.zeros(1, 20, 1, 64, dtype=BF16)
HUGE = 10**400
FLAGS = ("sink", "ragged_q", "ragged_k", "used_k", "token_scales")


def many(count: int, join: Callable[[Any, Any], Any]) -> Any:
    mask = masks.causal()
    for i in range(count):
        mask = join(mask, masks.sliding_window(i, 0))
    return mask


def unions(count: int) -> Any:
    """A mask of ``2**count`` intervals a row."""
    mask = masks.full()
    for i in range(count):
        mask = mask & (masks.sliding_window(i, 0) | masks.chunked(i + 2))
    return mask


def call(**options: Any) -> Any:
    dtype = FP8 if "v_scale" in options else BF16
    return fa4_cute.flash_attn(*(Q.to(dtype) for _ in range(3)), **options)


@pytest.mark.parametrize("value", [HUGE, -HUGE, Fraction(HUGE)], ids=["huge", "-huge", "fraction"])
@pytest.mark.parametrize("name", ["softmax_scale", "softcap", "v_scale"])
def test_numbers_beyond_floats(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=rf"{name}=-?inf"):
        call(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("softcap", torch.tensor([1.0, 2.0])), ("softcap", torch.tensor(0.0)),
        ("num_qo", torch.tensor([1, 2])), ("num_qo", torch.tensor(2)), ("num_qo", True),
        ("num_qo", 1.0), ("window_size", b"ab"),
    ],
    ids=str,
)  # fmt: skip
def test_values_that_only_look_like_numbers(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=name):
        call(**{name: value})


def test_a_width_is_shown_how() -> None:
    with pytest.raises(TypeError, match=r"window_size=5.*choice: \(5, 5\) or \(5, 0\)"):
        call(window_size=5)


@pytest.mark.timeout(20)
def test_lengths_are_counted_before_they_are_read() -> None:
    far = torch.zeros(1, dtype=torch.int32).expand(2**31)
    with pytest.raises(ValueError, match="seqused_k: 2147483648 lengths for 1 sequences"):
        call(seqused_k=far)
    with pytest.raises(ValueError, match="padding lengths: 2147483648 lengths"):
        call(mask=masks.padding(far))
    packed = Q[0]
    with pytest.raises(ValueError, match=r"cu_seqlens_q: .* unchecked=True"):
        fa4_cute.flash_attn_varlen(packed, packed, packed, cu_seqlens_q=far, cu_seqlens_k=far)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(("heads_q", "heads_k"), [(2**31 - 1, 2), (10**8 + 7, 3), (10**30, 7)])
def test_many_heads(heads_q: int, heads_k: int) -> None:
    found = fa4_cute.can_implement(head_dim=64, heads_q=heads_q, heads_k=heads_k)
    assert not found
    assert f"q has {heads_q} heads" in found.reason


def test_the_nearest_number_of_heads() -> None:
    for heads_q in range(1, 60):
        for heads_k in (n for n in range(2, 60) if heads_q % n):
            found = fa4_cute.can_implement(head_dim=64, heads_q=heads_q, heads_k=heads_k).reason
            fitting = [n for n in range(1, heads_q + 1) if heads_q % n == 0]
            nearest = min(fitting, key=lambda n: (abs(n - heads_k), n))
            assert f"choice: {nearest} key/value heads" in found


@pytest.mark.timeout(20)
def test_masks_joined_without_end() -> None:
    for join in (lambda a, b: a & b, lambda a, b: a | b):
        with pytest.raises(ValueError, match=f"mask: {MAX_LEAVES + 1} masks joined"):
            many(3000, join)
    plan: Mask = CAUSAL
    for _ in range(3000):
        plan = plan | CAUSAL
    with pytest.raises(ValueError, match="mask: 3001 masks joined"):
        call(mask=plan)
    with pytest.raises(NotImplementedError, match="mask: a union of more than"):
        call(mask=unions(30))
    assert fa4_cute.can_implement(Q, Q, Q, mask=many(MAX_LEAVES - 1, lambda a, b: a & b))


def test_values_without_columns() -> None:
    with pytest.raises(ValueError, match="v: head_dim=0"):
        fa4_cute.flash_attn(Q, Q, Q[..., :0])
    assert not fa4_cute.can_implement(head_dim=64, head_dim_v=0)
    assert "head_dim=8" in str(fa4_cute.can_implement(head_dim=64, head_dim_v=0).nearest)


@pytest.mark.parametrize("name", ["q_scale", "k_scale", "v_scale"])
def test_scales_that_are_none(name: str) -> None:
    assert fa4_cute.can_implement(Q, Q, Q, **{name: None})
    assert "SM100" in fa4_cute.explain(Q, Q, Q, **{name: None})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_splits": 2.5}, "num_splits=2.5"), ({"num_splits": "2"}, "num_splits='2'"),
        ({"page_size": "16"}, "page_size='16'"), ({"page_size": True}, "page_size=True"),
        *(({name: "no"}, f"{name}='no'") for name in FLAGS),
        ({"compute_capability": (10,)}, "compute_capability="),
        ({"compute_capability": ("10", 0)}, "compute_capability='10'"),
        ({"device_type": 3}, "device_type=3"), ({"causal": "x"}, "causal='x'"),
        ({"headdim_v": 3}, "'headdim_v'; nearest supported choice: head_dim_v"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_descriptions(options: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError) as caught:
        fa4_cute.can_implement(head_dim=64, **options)
    assert words in str(caught.value)


@pytest.mark.parametrize("options", [{"num_splits": -1}, {"num_splits": 0}, {"page_size": -16}])
def test_descriptions_out_of_range(options: dict[str, Any]) -> None:
    found = fa4_cute.can_implement(head_dim=64, **options)
    assert not found
    assert next(iter(options)) in found.reason


def test_unknown_names_are_said() -> None:
    with pytest.raises(TypeError, match="'headdim'; nearest supported choice: head_dim"):
        fa4_cute.can_implement(headdim=3)
    with pytest.raises(TypeError, match="'bogus'"):
        fa4_cute.can_implement(Q, Q, Q, bogus=1)
    wrong: tuple[Any, ...] = ("abc", None, [3])
    for problems in wrong:
        with pytest.raises(TypeError, match="problems: expected mappings"):
            fa4_cute.warmup(problems)
    with pytest.raises(TypeError, match="'headdim'"):
        fa4_cute.warmup([{"headdim": 64}])


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.zeros(n, 1, 64) for n in (3, 5)], layout=layout)
    for inputs, name in (((nested, nested, nested), "q"), ((Q, nested, Q), "k")):
        with pytest.raises(NotImplementedError, match=f"^{name}: a nested tensor.*varlen"):
            fa4_cute.flash_attn(*inputs)


def test_sinks_beyond_the_kernels_numbers() -> None:
    for weight in (3.3e38, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"sink\[0\]="):
            call(sink=torch.tensor([weight]))


def test_a_wrong_rank_beside_lengths() -> None:
    lengths = torch.tensor([20], dtype=torch.int32)
    for flat in (Q.flatten(), Q[0]):
        with pytest.raises(ValueError, match="k: shape"):
            fa4_cute.flash_attn(Q, flat, Q, seqused_k=lengths)
