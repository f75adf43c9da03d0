"""Who watches a call is seen; without anybody, nothing is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from fa4_cute.host.operator.observed import is_observed

Q = torch.zeros(1, 2, 1, 8)


class Silent(TorchFunctionMode):
    """Watches and changes nothing."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class Subclass(torch.Tensor):
    """A tensor that may be anything."""


@pytest.mark.parametrize(
    "context",
    [
        contextlib.nullcontext,
        torch.no_grad,
        torch.inference_mode,
        lambda: torch.device("cpu"),
        lambda: torch.autocast("cpu", torch.bfloat16, enabled=False),
    ],
)
def test_nobody_watches(context: Callable[[], Any]) -> None:
    with context():
        assert not is_observed(Q)
        assert not is_observed(torch.nn.Parameter(Q))


@pytest.mark.parametrize(
    "context",
    [
        FakeTensorMode,
        TorchDispatchMode,
        lambda: FlopCounterMode(display=False),
        lambda: torch.autocast("cpu", torch.bfloat16),
        torch.profiler.profile,
        torch.autograd.profiler.profile,
        forward_ad.dual_level,
        Silent,
    ],
)
def test_somebody_watches(context: Callable[[], Any]) -> None:
    with context():
        assert is_observed(Q)
    assert not is_observed(Q)


def test_transforms_watch() -> None:
    seen: list[bool] = []

    def noted(x: torch.Tensor) -> torch.Tensor:
        seen.append(is_observed(x))
        return x

    torch.vmap(noted)(Q)
    torch.func.grad(lambda x: noted(x).sum())(Q)
    torch.fx.experimental.proxy_tensor.make_fx(lambda x: noted(x) + 1)(Q)
    assert seen == [True] * 3


def test_the_compiler_watches() -> None:
    compiled = torch.compile(lambda x: x + (1 if is_observed(x) else 2), backend="eager")
    assert torch.equal(compiled(Q), Q + 1)


def test_tensors_without_memory_of_their_own() -> None:
    with FakeTensorMode():
        fake = torch.empty(1, 2, 1, 8)
    assert is_observed(fake)
    assert is_observed(Q.to("meta"))
    assert is_observed(Q.as_subclass(Subclass))


def test_what_is_no_tensor_is_left_to_the_checks() -> None:
    assert not is_observed([1.0])
