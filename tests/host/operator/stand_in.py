"""What computes in place of a kernel: the reference in float64, after all checks of a call."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import torch

from fa4_cute.host.ask.arguments import Batch, Options
from fa4_cute.host.ask.request import request
from fa4_cute.host.choose.support import choose, require
from testing.reference.exact import Call, attention_float64

_KNOWN = {of.name for of in fields(Call)}


@dataclass
class StandIn:
    """Computes calls and remembers their arguments."""

    calls: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, inputs: Any, options: Options, batch: Batch | None = None) -> Any:
        """Return what ``compute`` returns."""
        require(choose(request(inputs, options, batch).problem))
        given = {**vars(options), **vars(Batch() if batch is None else batch)}
        self.calls.append(dict(zip("qkv", inputs, strict=True)) | given)
        q, k = (_scaled(t, given[f"{n}_scale"]) for n, t in zip("qk", inputs[:2], strict=True))
        v = _scaled(inputs[2], given["v_scale"])
        known = {name: value for name, value in given.items() if name in _KNOWN}
        exact = attention_float64(q, k, v, **known)
        dtype = inputs[0].dtype
        out = exact.out.to(torch.bfloat16 if dtype == torch.float8_e4m3fn else dtype).contiguous()
        lse = exact.lse.float().contiguous() if options.return_lse else None
        return _put(options.out, out), _put(options.lse, lse)


def _scaled(tensor: torch.Tensor, scale: Any) -> torch.Tensor:
    if scale is None:
        return tensor.double()
    by_token = hasattr(scale, "numel") and scale.numel() != 1
    return tensor.double() * (scale.unsqueeze(-1) if by_token else float(scale))


def _put(given: Any, made: Any) -> Any:
    return made if given is None else given.copy_(made)


def same(a: Any, b: Any) -> bool:
    """Whether two values of an argument, or two results, are the same."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        alike = (a.dtype, a.shape) == (b.dtype, b.shape)
        return alike and torch.equal(a.double(), b.double())
    if hasattr(a, "plan") and hasattr(b, "plan"):
        members = ("lengths", "biases") if hasattr(a, "lengths") else ("tensors",)
        return bool(a.plan == b.plan) and all(same(getattr(a, m), getattr(b, m)) for m in members)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)
