"""``torch.ops.fa4_cute.attention``: the operator, and what torch does with it.

Importing this module defines it, and imports nothing that a call needs: ``operator.arrival`` does
so as soon as torch is there. Two overloads share one list of arguments: ``default`` returns new
tensors, ``into`` writes those it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from .schema import ARGUMENTS, NAMESPACE, WRITTEN, bound, schema_text, tensors_of, with_lists

_LIBRARY: Final = torch.library.Library(NAMESPACE, "FRAGMENT")
_AUTOCAST_DEVICES: Final = ("cpu", "cuda")
_CAST: Final = ("q", "k", "v", "q_rope", "k_rope")
_CAST_FROM: Final = (torch.float32, torch.float16, torch.bfloat16)
Kernel = Callable[..., Any]


def _run(*args: Any) -> tuple[Any, Any]:
    """Compute O, and LSE, empty unless ``return_lse``."""
    out, lse = _computed(bound(args))
    return out, torch.empty(0, dtype=torch.float32, device=out.device) if lse is None else lse


def _run_into(out: Any, lse: Any, *args: Any) -> None:
    """Compute O and LSE into the first two arguments."""
    _computed({**bound(args), "out": out, "lse": lse})


def _computed(values: dict[str, Any]) -> tuple[Any, Any]:
    from ..run.compute import compute
    from .carry import unpacked

    return compute(*unpacked(values))


def _shapes(*args: Any) -> tuple[Any, Any]:
    from .fake import results

    return results(bound(args))


def _shapes_into(out: Any, lse: Any, *args: Any) -> None:
    from .fake import results

    results({**bound(args), "out": out, "lse": lse})


def _without_derivative(operator: Any, num_written: int) -> Kernel:
    """Return the kernel that refuses what a derivative is asked of, as a plain call does."""

    def kernel(keyset: Any, *args: Any) -> Any:
        from ..ask.checks import check_no_grad

        tensors = tensors_of(bound(args[num_written:]))
        written = zip(WRITTEN, args[:num_written], strict=False)
        tensors |= {name: tensor for name, tensor in written if tensor is not None}
        check_no_grad(tensors)
        for name, tensor in tensors.items():
            if _has_tangent(tensor):
                raise NotImplementedError(
                    f"{name} carries a tangent: there is no forward-mode derivative; nearest "
                    f"supported choice: torch.autograd.forward_ad.unpack_dual({name}).primal"
                )
        with torch._C._AutoDispatchBelowAutograd():
            below = keyset & torch._C._after_autograd_keyset
            return operator.redispatch(below, *with_lists(args, num_written))

    return kernel


def _has_tangent(tensor: Any) -> bool:
    from torch.autograd import forward_ad

    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(tensor).tangent is not None


def _autocast(operator: Any, num_written: int, device: str) -> Kernel:
    """Return the kernel that casts q, k, v and rope columns as autocast casts SDPA's operands.

    fp8 operands stay as they are, and so do sinks, scales, biases and auxiliary tensors.
    """
    key = getattr(torch._C.DispatchKey, f"Autocast{device.upper()}")
    places = [place for place, name in enumerate(ARGUMENTS, num_written) if name in _CAST]

    def kernel(_: Any, *args: Any) -> Any:
        dtype = torch.get_autocast_dtype(device)
        cast = with_lists(args, num_written)
        for place in places:
            tensor = cast[place] if place < len(cast) else None
            if tensor is not None and tensor.device.type == device and tensor.dtype in _CAST_FROM:
                cast[place] = tensor.to(dtype)
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key)):
            return operator(*cast)

    return kernel


def _mapped(operator: Any) -> Kernel:
    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
        from .folding import mapped

        return mapped(operator, info.batch_size, in_dims, args)

    return rule


def _not_mapped(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[Any, Any]:
    raise NotImplementedError(
        "out, lse: not under vmap, which lays out its results itself; nearest supported choice: "
        "out.copy_(torch.vmap(...)(...))"
    )


def _defined(overload: str = "") -> Any:
    """Define an overload with all that torch may do with it, and return it."""
    name = f"attention.{overload}" if overload else "attention"
    written, returns = (WRITTEN, "()") if overload else ({}, "(Tensor, Tensor)")
    first = [f"{kind} {argument}" for argument, kind in written.items()]
    _LIBRARY.define(name + schema_text(first, returns), tags=(torch.Tag.pt2_compliant_tag,))
    operator = getattr(getattr(torch.ops, NAMESPACE).attention, overload or "default")
    count = len(written)
    _LIBRARY.impl(name, _run_into if overload else _run, "CompositeExplicitAutograd")
    _LIBRARY.impl(name, _without_derivative(operator, count), "Autograd", with_keyset=True)
    for device in _AUTOCAST_DEVICES:
        kernel = _autocast(operator, count, device)
        _LIBRARY.impl(name, kernel, f"Autocast{device.upper()}", with_keyset=True)
    full_name = f"{NAMESPACE}::{name}"
    shapes = _shapes_into if overload else _shapes
    torch.library.register_fake(full_name, shapes, lib=_LIBRARY)
    rule = _not_mapped if overload else _mapped(operator)
    torch.library.register_vmap(full_name, rule, lib=_LIBRARY)
    return operator


ATTENTION: Final = _defined()
ATTENTION_INTO: Final = _defined("into")
