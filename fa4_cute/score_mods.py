"""Score modifiers for :func:`fa4_cute.flash_attn`: functions of a score, traced into the kernel.

A modifier is called as ``function(score, batch, head, q_idx, kv_idx, aux)``: the scaled score
(float32, natural units) of query ``q_idx`` and key ``kv_idx``, both counted from the start of
their sequence, and returns the score to use. ``aux[i][a, b]`` reads auxiliary tensor ``i`` as
float32; functions of FlexAttention, without ``aux``, are taken too. It is arithmetic on single
numbers: ``+ - * /``, and for more, such as ``where`` for a choice, the functions of
``fa4_cute.device.math.score_math``. What a mask hides stays hidden, and a bias is added
afterwards. Modifiers can be pickled if their functions can be, which lambdas cannot. ::

    def relative(score, batch, head, q_idx, kv_idx, aux):
        return score + aux[0][head] * (kv_idx - q_idx)

    fa4_cute.flash_attn(q, k, v, score_mod=relative, aux_tensors=(slopes,))
"""

from __future__ import annotations

import hashlib
import inspect
import math
import numbers
import re
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from .plan.facts.function_digest import DIGEST_CHARACTERS, digest_of
from .plan.facts.numbers import as_float
from .plan.spec.extras import ScoreMod

_SCORE_MATH = "fa4_cute.device.math.score_math"
_CHOICES = ("where", "exp", "tanh", "absolute")
_WITH_AUX, _WITHOUT_AUX = 6, 5
"""Arguments of a modifier, and of one as FlexAttention takes them."""


class ScoreModError(TypeError):
    """A score modifier cannot be traced, or returns no score."""


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a modifier.

    Attributes:
        kind: ``softcap``, ``alibi`` or ``function``.
        name: part of the kernel's entry name.
        digest: identifies code and constants.
        function: what is traced; for a ``function`` the user's own.
        tensors: its auxiliary tensors.
        constants: numbers that the function closes over.
        takes_aux: whether the function has an argument for auxiliary tensors.
        counts_rows: whether it takes the query's row, counted from the first key, for ``q_idx``.
    """

    kind: str
    name: str
    digest: str
    function: Callable[..., Any]
    tensors: tuple[Any, ...] = ()
    constants: tuple[float, ...] = ()
    takes_aux: bool = True
    counts_rows: bool = False

    def apply(self, score: Any, *where: Any) -> Any:
        """Trace the step.

        Raises:
            ScoreModError: its function cannot be traced, or returns no score.
        """
        try:
            found = self.function(score, *(where if self.takes_aux else where[:-1]))
        except Exception as error:
            said = _said(error, self.function)
            # The compiler's own message is several lines in colours.
            raise ScoreModError(f"{self._title} cannot be traced: {said}{_HINT}") from None
        numeric = import_module("cutlass").Numeric
        if not isinstance(found, numeric | int | float):
            kind = type(found).__name__
            raise ScoreModError(
                f"{self._title} returns {'nothing' if found is None else kind}; expected the score "
                f"to use; nearest supported choice: return score"
            )
        return found

    @property
    def _title(self) -> str:
        return f"score_mod {getattr(self.function, '__name__', self.kind)}"


SOFTCAP: Final = "softcap"
"""A softcap's digest is this word and the cap."""
ALIBI: Final = "alibi"
_KNOWN: Final[dict[str, Step]] = {}
"""Functions of this process by digest, without tensors: what a traced or loaded graph finds."""


@dataclass(frozen=True, eq=False)
class ScoreModifier:
    """Steps applied one after the other, with their tensors."""

    steps: tuple[Step, ...]

    @cached_property
    def tensors(self) -> tuple[Any, ...]:
        """Auxiliary tensors of all steps in order."""
        return tuple(tensor for step in self.steps for tensor in step.tensors)

    @cached_property
    def plan(self) -> ScoreMod:
        """The modifier without its tensors."""
        ranks = tuple(int(tensor.dim()) for tensor in self.tensors)
        digests = " ".join(step.digest for step in self.steps)
        digest = hashlib.sha256(digests.encode()).hexdigest()[:DIGEST_CHARACTERS]
        name = "_".join(step.name for step in self.steps)
        kinds = [step.kind for step in self.steps]
        (cap,) = self.steps[0].constants if kinds == [SOFTCAP] else (0.0,)
        return ScoreMod(name, digest, ranks, self._apply, cap, kinds == [ALIBI])

    def _apply(self, score: Any, *where: Any) -> Any:
        """Trace all steps; ``where`` is (batch, head, q_idx, kv_idx, aux)."""
        batch, head, query, key, aux = where
        used = 0
        for step in self.steps:
            own = tuple(aux[used : used + len(step.tensors)])
            place = query + aux.offset if step.counts_rows else query
            score = step.apply(score, batch, head, place, key, own)
            used += len(own)
        return score


def softcap(cap: float) -> ScoreModifier:
    """Return the modifier ``cap * tanh(score / cap)``, off by a few float32 roundings of ``cap``.

    Above a cap of 256, by a few roundings of the result.

    Args:
        cap: positive and finite; part of the kernel, so that each value is compiled once.

    Raises:
        TypeError, ValueError: ``cap`` is no number, or outside its domain.
    """
    cap = _checked_cap(cap)

    name = f"softcap_{re.sub('[^0-9a-z]', '_', repr(cap))}"
    # Names of caps may be equal, such as those of 1e16 and 1e-16.
    digest = f"{SOFTCAP} {cap!r}"
    return ScoreModifier((Step(SOFTCAP, name, digest, _Softcap(cap), constants=(cap,)),))


@dataclass(frozen=True)
class _Softcap:
    cap: float

    def __call__(self, score: Any, *where: Any) -> Any:
        return _score_math().softcap(score, self.cap)


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

    step = Step(ALIBI, ALIBI, f"{ALIBI}{rank}", _Alibi(rank), (slopes,), counts_rows=True)
    return ScoreModifier((step,))


@dataclass(frozen=True)
class _Alibi:
    rank: int

    def __call__(
        self, score: Any, batch: Any, head: Any, row: Any, kv_idx: Any, aux: Any
    ) -> Any:
        slope = aux[0][head] if self.rank == 1 else aux[0][batch, head]
        return score - slope * _score_math().distance(row, kv_idx)


def function(code: Callable[..., Any], aux_tensors: Sequence[Any] = ()) -> ScoreModifier:
    """Return the modifier of a Python function, and let graphs find it.

    A graph of ``torch.compile`` or ``torch.export`` holds a digest of the function. Where a saved
    graph is loaded, the same function has to be given to this constructor before the graph runs.

    Args:
        code: called once per score while the kernel is traced; it may read numbers, tuples and
            functions around it, which become part of the kernel. Without its last argument,
            ``aux``, it has the signature of FlexAttention.
        aux_tensors: what it reads as ``aux``; converted to float32 where needed.

    Raises:
        TypeError: ``code`` is no Python function, has other arguments, or an auxiliary tensor is no
            tensor.
        ValueError: ``code`` depends on something that has no fixed value, or takes no ``aux`` where
            there are tensors to read.
    """
    digest = digest_of(code)
    ranks = [_tensor_rank(f"aux_tensors[{i}]", tensor) for i, tensor in enumerate(aux_tensors)]
    identity = f"{digest}{ranks}"
    label = re.sub(r"\W|[^\x00-\x7f]", "", code.__name__) or "function"
    name = f"mod_{label}_{digest[:8]}"
    known = _KNOWN.get(identity)
    if known is not None and known.name == name:
        return ScoreModifier((replace(known, tensors=tuple(aux_tensors)),))
    takes_aux = _takes_aux(code)
    if aux_tensors and not takes_aux:
        raise ValueError(
            f"aux_tensors: score_mod {code.__name__} has no argument for them; nearest supported "
            f"choice: (score, batch, head, q_idx, kv_idx, aux)"
        )
    step = Step("function", name, identity, code, tuple(aux_tensors), takes_aux=takes_aux)
    _KNOWN.setdefault(identity, replace(step, tensors=()))
    return ScoreModifier((step,))


def _takes_aux(code: Callable[..., Any]) -> bool:
    """Return whether ``code`` is called with auxiliary tensors, or as FlexAttention calls it."""
    signature = inspect.signature(code)
    for count in (_WITH_AUX, _WITHOUT_AUX):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count == _WITH_AUX
    raise TypeError(
        f"score_mod {code.__name__}{signature}: expected the arguments (score, batch, head, q_idx, "
        f"kv_idx, aux), or without aux"
    )


_HINT = (
    f"; nearest supported choice: + - * / and the functions of {_SCORE_MATH}, among them "
    f"{', '.join(_CHOICES)}"
)


def _said(error: Exception, function: Callable[..., Any]) -> str:
    """Return the first sentence of ``error`` without colours, and the line of ``function``."""
    code = getattr(function, "__code__", None)
    places = [
        f" ({Path(frame.filename).name}, line {frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if code is not None and frame.filename == code.co_filename
    ]
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).strip().splitlines()
    text = re.sub(r"^error(\[\w+\])?: *", "", lines[0]) if lines else ""
    return f"{type(error).__name__}: {text}{''.join(places[-1:])}"


def known_function(digest: str, name: str, tensors: Sequence[Any]) -> Step:
    """Return the step of a function that :func:`function` has seen in this process.

    Raises:
        ValueError: it has not, or the tensors have other ranks.
    """
    step = _KNOWN.get(digest)
    if step is None:
        raise ValueError(
            f"score_mod: the graph calls the Python function {name!r}, which is not part of it and "
            f"not known in this process; nearest supported choice: give the function to "
            f"fa4_cute.score_mods.function before the graph runs"
        )
    ranks = [int(tensor.dim()) for tensor in tensors]
    if not digest.endswith(f"{ranks}"):
        raise ValueError(f"aux_tensors: ranks {ranks} are not those that {name!r} was given with")
    return replace(step, tensors=tuple(tensors))


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
    return import_module(_SCORE_MATH)


def _checked_cap(cap: Any) -> float:
    if isinstance(cap, bool) or not isinstance(cap, numbers.Real):
        raise TypeError(f"softcap={cap!r}: expected a real number, got {type(cap).__name__}")
    value = as_float(cap)
    low, high = 2.0**-60, 2.0**60
    if not (math.isfinite(value) and low <= value <= high):
        nearest = str(min(max(value, low), high)) if value > 0 else "None"
        raise ValueError(
            f"softcap={value}: must be a positive number from 2**-60 to 2**60; nearest supported "
            f"choice: {nearest}"
        )
    return value


def _tensor_rank(name: str, tensor: Any) -> int:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name}: expected a torch.Tensor, got {type(tensor).__name__}")
    if tensor.dim() == 0:
        raise ValueError(
            f"{name}: a tensor without dimensions; nearest supported choice: {name}.reshape(1)"
        )
    return int(tensor.dim())
