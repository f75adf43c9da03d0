"""The operator's arguments: their names, types and defaults, and which tensors are among them.

Tensors are arguments of their own, so that torch sees every one; masks and modifiers are text
(``operator.texts``). A test compares the arguments with the fields of ``Options`` and ``Batch``,
and another one what arrives of each field, so nothing can be forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

NAMESPACE: Final = "fa4_cute"
TENSORS: Final = "Tensor[]"
"""Not "Tensor[]?", whose tensors the dispatcher does not look at; and it has no default."""
ARGUMENTS: Final[dict[str, tuple[str, Any]]] = {
    "q": ("Tensor", None),
    "k": ("Tensor", None),
    "v": ("Tensor", None),
    "mask_lengths": (TENSORS, ()),
    "mask_biases": (TENSORS, ()),
    "aux_tensors": (TENSORS, ()),
    "causal": ("bool", False),
    "softmax_scale": ("float?", None),
    "return_lse": ("bool", False),
    "mask": ("str?", None),
    "window_size": ("SymInt[]?", None),
    "score_mod": ("str?", None),
    "softcap": ("float?", None),
    "sink": ("Tensor?", None),
    "num_splits": ("SymInt?", None),
    "split": ("str?", None),
    "scheduler": ("str?", None),
    "num_qo": ("SymInt?", None),
    "pair_cta": ("bool", False),
    "arch": ("str?", None),
    "unchecked": ("bool", False),
    "q_scale": ("Tensor?", None),
    "k_scale": ("Tensor?", None),
    "v_scale": ("Tensor?", None),
    "q_scale_number": ("float?", None),
    "k_scale_number": ("float?", None),
    "v_scale_number": ("float?", None),
    "q_rope": ("Tensor?", None),
    "k_rope": ("Tensor?", None),
    "cu_seqlens_q": ("Tensor?", None),
    "cu_seqlens_k": ("Tensor?", None),
    "seqused_k": ("Tensor?", None),
    "page_table": ("Tensor?", None),
    "max_seqlen_q": ("SymInt?", None),
    "max_seqlen_k": ("SymInt?", None),
}
"""Type and default of each argument, in the order of the schema; tensors and lists have none."""

WRITTEN: Final = {"out": "Tensor(a!)", "lse": "Tensor(b!)?"}
"""What the overload ``into`` takes in front of the arguments of both, and its type."""

SCALES: Final = ("q_scale", "k_scale", "v_scale")
FLOATS: Final = ("softmax_scale", "softcap")
OF_OPTIONS: Final = (
    "causal", "return_lse", "sink", "num_splits", "split", "scheduler", "num_qo", "pair_cta",
    "arch", "unchecked", "q_rope", "k_rope",
)  # fmt: skip
"""Fields of ``Options`` that are arguments as they are."""
OF_BATCH: Final = (
    "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table", "max_seqlen_q", "max_seqlen_k",
)  # fmt: skip
"""Fields of ``Batch``, all of them arguments as they are."""


def schema_text(first: Sequence[str], returns: str) -> str:
    """Return the operator's schema, without its name, with the arguments of ``first`` in front."""
    listed = ", ".join([*first, *(_declared(name, *of) for name, of in ARGUMENTS.items())])
    return f"({listed}) -> {returns}"


def _declared(name: str, kind: str, default: Any) -> str:
    return f"{kind} {name}" if kind in ("Tensor", TENSORS) else f"{kind} {name}={default}"


def with_lists(args: Sequence[Any], num_written: int = 0) -> list[Any]:
    """Return the arguments of an overload with an empty list wherever a list is None.

    So a package of AOTInductor hands over lists without tensors; the dispatcher takes no None.
    """
    kinds = [*[""] * num_written, *(kind for kind, _ in ARGUMENTS.values())]
    pairs = zip(args, kinds, strict=False)
    return [[] if value is None and kind == TENSORS else value for value, kind in pairs]


def bound(args: Sequence[Any]) -> dict[str, Any]:
    """Return arguments of the operator by name; the dispatcher leaves out defaults at the end."""
    values = {name: default for name, (_, default) in ARGUMENTS.items()}
    values.update(zip(ARGUMENTS, with_lists(args), strict=False))
    return values


def tensors_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return every tensor among the operator's arguments by name, members of lists numbered."""
    found: dict[str, Any] = {}
    for name, (kind, _) in ARGUMENTS.items():
        value = values[name]
        if kind == TENSORS:
            found |= {f"{name}[{i}]": tensor for i, tensor in enumerate(value)}
        elif kind.startswith("Tensor") and value is not None:
            found[name] = value
    return found
