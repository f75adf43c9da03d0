"""Calls with odd arguments, drawn from a seed: a good call with one or two arguments replaced."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import torch

import fa4_cute
from fa4_cute import masks, score_mods

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
NUMBERS: tuple[Any, ...] = (
    math.nan, math.inf, -math.inf, 10**400, -(10**400), 2**1024, "1", b"1", True, None, [], 1j,
    Fraction(1, 3), np.float32(0.1), np.float64("nan"), np.int64(3), torch.tensor(0.1),
    torch.tensor([0.1, 0.2]), 3.4e38, 1e39, -0.0, 5e-324, object(), {}, 0.5, 2.0, -1.0, 1e9, 1e20,
)  # fmt: skip
INTEGERS = (
    -1, 0, 1, 2, 3, 7, 9, 16, 257, 65536, 2**31 - 1, 2**31, 2**32, 2**63, 10**30, -(2**63), 1.0,
    2.5, math.nan, "2", True, None, [1], np.int32(2), torch.tensor(2),
)  # fmt: skip
LISTS: tuple[list[int], ...] = (
    [0], [], [1], [0, 0, 12], [0, 5, 12], [0, 12, 12], [0, 9, 5], [1, 5, 12], [0, 5, 13],
    [0, -5, 12], [0, 2**31, 12], [-1, 3], [20, 20], [20, 21], [0, 0], [17, 3],
    [2**63 - 1, 1], [3, 4, 5, 6],
)  # fmt: skip
_ONE: Any = 1
NAMES = (
    "workspace", "cluster", "tile", "persistent", "dynamic", "x", "", b"tile", 0, None, ["tile"],
)  # fmt: skip
FLAGS = (True, False, 1, 0, None, "no", np.bool_(True), torch.tensor(True))


@dataclass
class Case:
    """A call, and what was replaced in it."""

    inputs: list[Any]
    options: dict[str, Any] = field(default_factory=dict)
    replaced: list[str] = field(default_factory=list)

    @property
    def function(self) -> Callable[..., Any]:
        """The public function that the call is of."""
        packed = "cu_seqlens_q" in self.options
        return fa4_cute.flash_attn_varlen if packed else fa4_cute.flash_attn


def ints(values: list[int]) -> torch.Tensor:
    far = any(abs(value) >= 2**31 for value in values)
    return torch.tensor(values, dtype=torch.int64 if far else torch.int32)


def good_case(rng: random.Random) -> Case:
    """Dense, packed, paged or with cache lengths; 9 or 12 queries, up to 30 keys."""
    generator = torch.Generator().manual_seed(rng.getrandbits(32))

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(BF16)

    kind = rng.choice(("dense", "used", "packed", "paged"))
    if kind == "packed":
        inputs = [drawn(12, 2, 64), drawn(30, 1, 64), drawn(30, 1, 64)]
        offsets = {"cu_seqlens_q": ints([0, 5, 12]), "cu_seqlens_k": ints([0, 11, 30])}
        return Case(inputs, dict(offsets))
    if kind == "paged":
        inputs = [drawn(2, 9, 2, 64), drawn(5, 16, 1, 64), drawn(5, 16, 1, 64)]
        table = torch.tensor([[0, 1], [2, 3]], dtype=torch.int32)
        return Case(inputs, {"page_table": table, "seqused_k": ints([20, 17])})
    inputs = [drawn(2, 9, 2, 64), drawn(2, 20, 1, 64), drawn(2, 20, 1, 64)]
    return Case(inputs, {"seqused_k": ints([20, 3])} if kind == "used" else {})


def _is_small(value: Any) -> bool:
    """Whether a value is a tensor that can be converted: one that was not expanded without end."""
    return isinstance(value, torch.Tensor) and value.numel() < 10**6 and not value.is_complex()


def odd_tensor(good: Any, rng: random.Random) -> Any:
    """Another type, shape, layout or device than ``good`` has."""
    if not _is_small(good):
        return good
    ways: tuple[Callable[[torch.Tensor], Any], ...] = (
        lambda t: None, lambda t: 5, lambda t: t.tolist(), lambda t: t.float(), lambda t: t.half(),
        lambda t: t.to(torch.int16), lambda t: t.to("meta"), lambda t: t[:1].squeeze(0),
        lambda t: t[None],
        lambda t: t[:0], lambda t: t[..., :0], lambda t: t[..., :7], lambda t: t[..., :32],
        lambda t: t.bool(), lambda t: t.flatten(), lambda t: t.flip(0), lambda t: t.to(FP8),
        lambda t: t.to(torch.complex64), lambda t: t.float().requires_grad_(),
        lambda t: t[:1].expand(10**6, *t.shape[1:]), lambda t: t.to(torch.float8_e5m2),
        lambda t: torch.empty(1, dtype=t.dtype).expand(2**31, *t.shape[1:]),
        lambda t: t.transpose(0, -1), lambda t: t.to(BF16).to_sparse(),
    )  # fmt: skip
    return rng.choice(ways)(good)


def _mask(rng: random.Random) -> Any:
    def number() -> Any:
        return rng.choice(INTEGERS)

    ways: tuple[Callable[[], Any], ...] = (
        lambda: masks.sliding_window(number(), number()), lambda: masks.chunked(number()),
        lambda: masks.chunked_causal(number()), lambda: masks.padding(ints(rng.choice(LISTS))),
        lambda: masks.bias(rng.choice(_BIASES)()), lambda: masks.causal() & _ONE,
        rng.choice(_BIASES), lambda: torch.rand(9, 20) < 0.5,
        lambda: torch.rand(2, 1, 20) < 0.5, lambda: torch.ones(20, dtype=torch.bool),
        lambda: "causal", lambda: masks.causal, lambda: masks.dense(torch.rand(2, 2, 9, 20) < 0.3),
    )  # fmt: skip
    return rng.choice(ways)()


_BIASES: tuple[Callable[[], Any], ...] = (
    lambda: torch.randn(2, 2, 9, 20), lambda: torch.randn(2, 2, 9, 19), lambda: torch.randn(9, 20),
    lambda: torch.full((1, 1, 1, 20), -1e38), lambda: torch.full((1, 1, 9, 20), -math.inf),
    lambda: torch.ones(1, 1, 9, 20, dtype=torch.int64), lambda: torch.zeros(1, 1, 1, 1), lambda: 5,
    lambda: torch.zeros(1, 1, 1, 20, dtype=torch.bool), lambda: torch.zeros(0, 2, 9, 20),
)  # fmt: skip
_SINKS: tuple[Callable[[], Any], ...] = (
    lambda: torch.randn(2), lambda: torch.randn(3), lambda: torch.randn(2, 1), lambda: [0, 0],
    lambda: torch.full((2,), math.nan), lambda: torch.full((2,), -1e30), lambda: 1.0,
    lambda: torch.full((2,), 3.4e38), lambda: torch.zeros(2, dtype=torch.bool),
)  # fmt: skip
_MODIFIERS: tuple[Callable[[], Any], ...] = (
    lambda: 1, lambda: "x", lambda: print, lambda: math.sin, lambda: score_mods.softcap,
    lambda: lambda s: s, lambda: lambda s, b, h, i, j: s * 0.5, lambda: score_mods.softcap(20.0),
    lambda: lambda s, b, h, i, j, aux: None, lambda: lambda s, b, h, i, j, aux: s if s > 0 else -s,
    lambda: lambda s, b, h, i, j, aux: aux[0][h], lambda: lambda *where: 1 / 0,
    lambda: score_mods.alibi(torch.randn(2)), lambda: score_mods.alibi(torch.randn(3)),
)  # fmt: skip
_LIKE_Q: tuple[Callable[[], Any], ...] = (
    lambda: torch.ones(2, 9, 2), lambda: torch.ones(3, 3), lambda: torch.ones(1),
    lambda: torch.tensor([]), lambda: torch.tensor(math.nan), lambda: torch.ones(2, 9, 2).double(),
)  # fmt: skip
REPLACED: dict[str, Callable[[random.Random], Any]] = {
    "softmax_scale": lambda rng: rng.choice(NUMBERS),
    "softcap": lambda rng: rng.choice(NUMBERS),
    "window_size": lambda rng: rng.choice(
        (5, "ab", b"ab", (1,), (1, 2, 3), [0, 0], (rng.choice(INTEGERS), rng.choice(INTEGERS)))
    ),
    "cu_seqlens_q": lambda rng: ints(rng.choice(LISTS)),
    "cu_seqlens_k": lambda rng: ints(rng.choice(LISTS)),
    "seqused_k": lambda rng: ints(rng.choice(LISTS)),
    "page_table": lambda rng: ints(rng.choice(LISTS)).reshape(1, -1).expand(rng.choice((1, 2)), -1),
    "num_splits": lambda rng: rng.choice(INTEGERS),
    "split": lambda rng: rng.choice(NAMES),
    "scheduler": lambda rng: rng.choice(NAMES),
    "num_qo": lambda rng: rng.choice(INTEGERS),
    "max_seqlen_q": lambda rng: rng.choice(INTEGERS),
    "max_seqlen_k": lambda rng: rng.choice(INTEGERS),
    "causal": lambda rng: rng.choice(FLAGS),
    "return_lse": lambda rng: rng.choice(FLAGS),
    "pair_cta": lambda rng: rng.choice(FLAGS),
    "unchecked": lambda rng: rng.choice((1, None, "x", False)),
    "mask": _mask,
    "score_mod": lambda rng: rng.choice(_MODIFIERS)(),
    "aux_tensors": lambda rng: rng.choice((1, None, [], [1], (torch.ones(2),), torch.ones(2), {})),
    "sink": lambda rng: rng.choice(_SINKS)(),
    "q_scale": lambda rng: rng.choice((*NUMBERS, rng.choice(_LIKE_Q)())),
    "k_scale": lambda rng: rng.choice((*NUMBERS, rng.choice(_LIKE_Q)())),
    "v_scale": lambda rng: rng.choice(NUMBERS),
    "q_rope": lambda rng: rng.choice((1, torch.ones(2, 9, 2, 64).to(BF16))),
    "is_causal": lambda rng: True,
}
"""Argument -> what may stand in its place."""


def odd_case(seed: int) -> Case | str:
    """Return the case of ``seed``, or the sentence with which a constructor refused it."""
    rng = random.Random(seed)
    case = good_case(rng)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice((*REPLACED, "q", "k", "v", "good tensor"))
        case.replaced.append(name)
        if name in ("q", "k", "v"):
            place = "qkv".index(name)
            found = odd_tensor(case.inputs[place], rng)
            # A q without memory makes torch watch the call, which the operator's tests are about.
            watched = name == "q" and getattr(found, "is_meta", False)
            case.inputs[place] = case.inputs[place] if watched else found
        elif name == "good tensor":
            tensors = [n for n, x in case.options.items() if isinstance(x, torch.Tensor)]
            if tensors:
                chosen = rng.choice(tensors)
                case.options[chosen] = odd_tensor(case.options[chosen], rng)
        else:
            if name.endswith("_scale") and name != "softmax_scale" and rng.random() < 0.7:
                case.inputs = [
                    x.to(FP8) if _is_small(x) and x.dtype == BF16 else x for x in case.inputs
                ]
            try:
                case.options[name] = REPLACED[name](rng)
            except (TypeError, ValueError, NotImplementedError) as error:
                return str(error)
    return case
