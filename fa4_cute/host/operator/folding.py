"""``vmap``: the mapped dimension becomes part of the batch.

Dense queries fold: with n mapped entries, a batch of b becomes one of n * b in a single launch, and
pages of several entries one pool. Where that would change what a call means (packed rows, mapped
sinks, single scales or slopes per head, functions that read the batch index), the entries are
computed one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from .schema import ARGUMENTS, TENSORS, bound
from .texts import is_of_functions

_POOLS: Final = ("k", "v", "k_scale", "k_rope")
"""With a page table, tensors whose first dimension is pages and not sequences."""
_BY_SEQUENCE: Final = (
    "q", "k", "v", "q_scale", "k_scale", "q_rope", "k_rope", "seqused_k", "page_table",
)  # fmt: skip
"""Tensors whose first dimension is the batch, or pages."""
_NEVER: Final = ("cu_seqlens_q", "cu_seqlens_k")
_UNMAPPED: Final = ("sink", "v_scale")
Dims = Mapping[str, Any]


def mapped(
    operator: Any, n: int, in_dims: tuple[Any, ...], args: tuple[Any, ...]
) -> tuple[tuple[Any, Any], tuple[int, int | None]]:
    """Return O and LSE of ``n`` mapped calls, and which dimension of each is the mapped one.

    Args:
        operator: the overload that returns new tensors.
        n: entries of the mapped dimension.
        in_dims: for every argument the mapped dimension, or None; for lists, lists of them.
        args: the arguments.

    Raises:
        ValueError: there is no entry.
    """
    values, dims = bound(args), _dims_of(in_dims)
    if not n:
        raise ValueError("vmap over a dimension of 0 entries; nearest supported choice: 1")
    if _folds(values, dims):
        out, lse = operator(*_folded(values, dims, n).values())
        out, lse = _apart(out, n), _apart(lse, n) if values["return_lse"] else lse
    else:
        entries = [operator(*_entry(values, dims, i).values()) for i in range(n)]
        out = torch.stack([found for found, _ in entries])
        lse = entries[0][1]
        if values["return_lse"]:
            lse = torch.stack([found for _, found in entries])
    return (out, lse), (0, 0 if values["return_lse"] else None)


def _dims_of(in_dims: tuple[Any, ...]) -> dict[str, Any]:
    """Return the mapped dimension of every argument by name; lists have a list of them."""
    dims: dict[str, Any] = dict.fromkeys(ARGUMENTS)
    dims.update(zip(ARGUMENTS, in_dims, strict=False))
    return {
        name: tuple(dim) if isinstance(dim, list | tuple) else dim for name, dim in dims.items()
    }


def _folds(values: Mapping[str, Any], dims: Dims) -> bool:
    """Return whether one call with a larger batch computes the same."""
    if any(values[name] is not None for name in _NEVER):
        return False
    if any(dims[name] is not None for name in _UNMAPPED):
        return False
    for name in ("q_scale", "k_scale"):
        if dims[name] is not None and not _is_by_token(values[name], dims[name]):
            return False
    text = values["score_mod"]
    if text is not None and is_of_functions(text):
        return False
    # Slopes are one per head, or one per sequence and head; only the latter fold.
    slopes = _each(values, dims, "aux_tensors")
    return all(dim is None or tensor.dim() == 3 for tensor, dim in slopes)


def _is_by_token(scale: Any, dim: int | None) -> bool:
    return scale is not None and scale.dim() - (dim is not None) > 1


def _each(values: Mapping[str, Any], dims: Dims, name: str) -> list[tuple[Any, int | None]]:
    """Return the tensors of a list, and the mapped dimension of each."""
    tensors, found = values[name], dims[name]
    return list(zip(tensors, found or (None,) * len(tensors), strict=True))


def _folded(values: Mapping[str, Any], dims: Dims, n: int) -> dict[str, Any]:
    """Return the arguments of the call with the larger batch."""
    folded = dict(values)
    paged = values["page_table"] is not None
    shared = paged and all(dims[name] is None for name in _POOLS)
    for name in _BY_SEQUENCE:
        value = values[name]
        if value is None or (shared and name in _POOLS):
            continue
        if name.endswith("_scale") and not _is_by_token(value, dims[name]):
            continue
        folded[name] = _joined(value, dims[name], n)
    if paged and not shared:
        pages = folded["k"].shape[0] // n
        rows = _apart(folded["page_table"], n)
        first = pages * torch.arange(n, dtype=rows.dtype, device=rows.device)
        folded["page_table"] = (rows + first[:, None, None]).flatten(0, 1)
    folded["mask_lengths"] = [_joined(t, dim, n) for t, dim in _each(values, dims, "mask_lengths")]
    folded["mask_biases"] = _joined_biases(values, dims, n)
    folded["aux_tensors"] = [
        tensor if dim is None and tensor.dim() == 1 else _joined(tensor, dim, n)
        for tensor, dim in _each(values, dims, "aux_tensors")
    ]
    return folded


def _joined_biases(values: Mapping[str, Any], dims: Dims, n: int) -> list[Any]:
    """Return biases (batch | 1, heads, queries, keys) for the larger batch."""
    q, batch_dim = values["q"], dims["q"]
    batch = q.shape[0] if batch_dim is None else q.movedim(batch_dim, 0).shape[1]
    joined = []
    for bias, dim in _each(values, dims, "mask_biases"):
        if dim is None and bias.shape[0] == 1:
            joined.append(bias)
            continue
        mapped = _mapped(bias, dim, n)
        if mapped.shape[1] == 1:
            mapped = mapped.expand(n, batch, *mapped.shape[2:])
        joined.append(mapped.flatten(0, 1))
    return joined


def _mapped(tensor: Any, dim: int | None, n: int) -> Any:
    """Return ``tensor`` with the mapped dimension first; what is not mapped is the same n times."""
    return tensor.expand(n, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _apart(tensor: Any, n: int) -> Any:
    return tensor.unflatten(0, (n, tensor.shape[0] // n))


def _joined(tensor: Any, dim: int | None, n: int) -> Any:
    return _mapped(tensor, dim, n).flatten(0, 1)


def _entry(values: Mapping[str, Any], dims: Dims, i: int) -> dict[str, Any]:
    """Return the arguments of mapped entry ``i``."""
    found = dict(values)
    for name, (kind, _) in ARGUMENTS.items():
        if kind == TENSORS:
            pairs = _each(values, dims, name)
            found[name] = [t if dim is None else t.select(dim, i) for t, dim in pairs]
        elif dims[name] is not None and kind.startswith("Tensor"):
            found[name] = values[name].select(dims[name], i)
    return found
