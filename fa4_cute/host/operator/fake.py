"""What the operator returns where tensors have no memory: shapes, types, and the same refusals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..ask.checks import check_device
from ..ask.outputs import wanted_lse, wanted_out
from ..ask.request import request
from ..choose.support import choose, require
from .carry import unpacked
from .schema import ARGUMENTS, SCALES, TENSORS, WRITTEN, tensors_of


def results(values: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return O and LSE without values, LSE empty unless ``return_lse``.

    Args:
        values: the operator's arguments by name, with ``out`` and ``lse`` where they are given.

    Raises:
        TypeError, ValueError, NotImplementedError: as the call itself, as far as sizes and types
            tell, and where all sizes are numbers.
    """
    tensors = tensors_of(values)
    q, v = values["q"], values["v"]
    for name, tensor in tensors.items():
        check_device(name, tensor, q)
    if all(map(_is_fixed, tensors.values())) and not any(map(_is_open, values.values())):
        _refuse_what_the_call_refuses(values)
    out = wanted_out(q, v.shape[-1])
    rows = wanted_lse(q).shape if values["return_lse"] else (0,)
    made = q.new_empty(out.shape, dtype=getattr(torch, out.dtype))
    return made, q.new_empty(rows, dtype=torch.float32)


def _is_fixed(tensor: Any) -> bool:
    return all(type(size) is int for size in (*tensor.shape, *tensor.stride()))


def _is_open(value: Any) -> bool:
    """Return whether an argument is a number without a value, or a list with one."""
    members = value if isinstance(value, list | tuple) else (value,)
    return any(isinstance(member, torch.SymInt | torch.SymFloat) for member in members)


def _refuse_what_the_call_refuses(values: Mapping[str, Any]) -> None:
    """Ask for the call with stand-ins of the ``meta`` device, whose values nobody looks at."""
    stands: dict[str, Any] = dict(values)
    with _disable_current_modes(), torch.no_grad():
        for name, (kind, _) in ARGUMENTS.items():
            if kind == TENSORS:
                stands[name] = [_stand_in(tensor) for tensor in values[name]]
            elif kind.startswith("Tensor") and values[name] is not None:
                stands[name] = _stand_in(values[name])
        for name in WRITTEN:
            if values.get(name) is not None:
                stands[name] = _stand_in(values[name])
        for name in SCALES:
            if stands[name] is not None and stands[name].numel() == 1:
                stands[name], stands[f"{name}_number"] = None, 1.0
        _give_lengths(stands)
        inputs, options, batch = unpacked(stands)
        require(choose(request(inputs, options, batch).problem))


def _stand_in(tensor: Any) -> Any:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _give_lengths(stands: dict[str, Any]) -> None:
    """Give the most that unread lengths could be where the call itself would read them."""
    if stands["unchecked"]:
        return
    for axis in "qk":
        longest = f"max_seqlen_{axis}"
        if stands[f"cu_seqlens_{axis}"] is not None and stands[longest] is None:
            stands[longest] = stands[axis].shape[0]
