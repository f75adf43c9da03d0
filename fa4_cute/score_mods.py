"""Score modifiers for :func:`fa4_cute.flash_attn`: functions of a score, traced into the kernel.

A modifier is called as ``function(score, batch, head, q_idx, kv_idx, aux)``: the scaled score
(float32, natural units) of query ``q_idx`` and key ``kv_idx``, both counted from the start of
their sequence, and returns the score to use. ``aux[i][a, b]`` reads auxiliary tensor ``i`` as
float32. It is arithmetic on single numbers: ``+ - * /``, and for more the functions of
``fa4_cute.device.math.score_math``. What a mask hides stays hidden, and a bias is added
afterwards. ::

    def relative(score, batch, head, q_idx, kv_idx, aux):
        return score + aux[0][head] * (kv_idx - q_idx)

    fa4_cute.flash_attn(q, k, v, score_mod=relative, aux_tensors=(slopes,))
"""

from __future__ import annotations

import hashlib
import math
import numbers
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from typing import Any

from .plan.facts.function_digest import DIGEST_CHARACTERS, digest_of
from .plan.spec.variant import ScoreMod


class Derived(Enum):
    """Auxiliary tensors that the call makes itself."""

    OFFSETS = "float32 (batch,): keys minus queries of every sequence"


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a modifier.

    Attributes:
        kind: ``softcap``, ``alibi`` or ``function``.
        name: part of the kernel's entry name.
        digest: identifies code and constants.
        function: what is traced; for a ``function`` the user's own.
        tensors: its auxiliary tensors, or :class:`Derived` ones.
        constants: numbers that the function closes over.
    """

    kind: str
    name: str
    digest: str
    function: Callable[..., Any]
    tensors: tuple[Any, ...] = ()
    constants: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class ScoreModifier:
    """Steps applied one after the other, with their tensors."""

    steps: tuple[Step, ...]

    @property
    def tensors(self) -> tuple[Any, ...]:
        """Auxiliary tensors of all steps in order."""
        return tuple(tensor for step in self.steps for tensor in step.tensors)

    @cached_property
    def plan(self) -> ScoreMod:
        """The modifier without its tensors."""
        ranks = tuple(_rank(tensor) for tensor in self.tensors)
        digests = " ".join(step.digest for step in self.steps)
        digest = hashlib.sha256(digests.encode()).hexdigest()[:DIGEST_CHARACTERS]
        name = "_".join(step.name for step in self.steps)
        return ScoreMod(name, digest, ranks, self._apply)

    def _apply(self, score: Any, *where: Any) -> Any:
        """Trace all steps; ``where`` is (batch, head, q_idx, kv_idx, aux)."""
        *position, aux = where
        used = 0
        for step in self.steps:
            own = tuple(aux[used : used + len(step.tensors)])
            score = step.function(score, *position, own)
            used += len(own)
        return score


def softcap(cap: float) -> ScoreModifier:
    """Return the modifier ``cap * tanh(score / cap)``, accurate to a few float32 roundings.

    Args:
        cap: positive and finite; part of the kernel, so that each value is compiled once.

    Raises:
        TypeError, ValueError: ``cap`` is no number, or outside its domain.
    """
    cap = _checked_cap(cap)

    def function(score: Any, *where: Any) -> Any:
        return _score_math().softcap(score, cap)

    name = f"softcap_{re.sub('[^0-9a-z]', '_', repr(cap))}"
    return ScoreModifier((Step("softcap", name, name, function, constants=(cap,)),))


def alibi(slopes: Any) -> ScoreModifier:
    """Return the modifier ``score - slope * |i + seqlen_k - seqlen_q - j|`` of query i and key j.

    Args:
        slopes: (num_q_heads,) or (batch, num_q_heads), float32 or what converts to it.

    Raises:
        TypeError, ValueError: ``slopes`` is no tensor, or has another rank.
    """
    rank = _tensor_rank("alibi slopes", slopes)
    if rank not in (1, 2):
        raise ValueError(
            f"alibi slopes: shape {tuple(slopes.shape)}; expected (num_q_heads,) or (batch, "
            f"num_q_heads)"
        )

    def function(score: Any, batch: Any, head: Any, q_idx: Any, kv_idx: Any, aux: Any) -> Any:
        slope = aux[0][head] if rank == 1 else aux[0][batch, head]
        return score - slope * _score_math().distance(q_idx, kv_idx, aux[1][batch])

    tensors = (slopes, Derived.OFFSETS)
    return ScoreModifier((Step("alibi", "alibi", f"alibi{rank}", function, tensors),))


def function(code: Callable[..., Any], aux_tensors: Sequence[Any] = ()) -> ScoreModifier:
    """Return the modifier of a Python function.

    Args:
        code: called once per score while the kernel is traced; it may read numbers, tuples and
            functions around it, which become part of the kernel.
        aux_tensors: what it reads as ``aux``; converted to float32 where needed.

    Raises:
        TypeError: ``code`` is no Python function, or an auxiliary tensor is no tensor.
        ValueError: ``code`` depends on something that has no fixed value.
    """
    digest = digest_of(code)
    ranks = [_tensor_rank(f"aux_tensors[{i}]", tensor) for i, tensor in enumerate(aux_tensors)]
    label = re.sub(r"\W|[^\x00-\x7f]", "", code.__name__) or "function"
    identity = f"{digest}{ranks}"
    name = f"mod_{label}_{digest[:8]}"
    return ScoreModifier((Step("function", name, identity, code, tuple(aux_tensors)),))


def chain(*modifiers: ScoreModifier) -> ScoreModifier:
    """Return the modifier that applies ``modifiers`` from left to right.

    Raises:
        TypeError: one of them is none; wrap a function in :func:`function` first.
    """
    for modifier in modifiers:
        if not isinstance(modifier, ScoreModifier):
            raise TypeError(
                f"chain: expected a modifier of fa4_cute.score_mods, got "
                f"{type(modifier).__name__}; nearest supported choice: score_mods.function(...)"
            )
    return ScoreModifier(tuple(step for modifier in modifiers for step in modifier.steps))


def _score_math() -> Any:
    """Return the module of traced arithmetic; by name, because it exists for the compiler only."""
    return import_module("fa4_cute.device.math.score_math")


def _checked_cap(cap: Any) -> float:
    if isinstance(cap, bool) or not isinstance(cap, numbers.Real):
        raise TypeError(f"softcap={cap!r}: expected a real number, got {type(cap).__name__}")
    value = float(cap)
    low, high = 2.0**-60, 2.0**60
    if not (math.isfinite(value) and low <= value <= high):
        nearest = str(min(max(value, low), high)) if value > 0 else "None"
        raise ValueError(
            f"softcap={value}: must be a positive number from 2**-60 to 2**60; nearest supported "
            f"choice: {nearest}"
        )
    return value


def _rank(tensor: Any) -> int:
    return 1 if isinstance(tensor, Derived) else int(tensor.dim())


def _tensor_rank(name: str, tensor: Any) -> int:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.dim() == 0:
        raise ValueError(
            f"{name}: a tensor without dimensions; nearest supported choice: {name}.reshape(1)"
        )
    return int(tensor.dim())
