"""``ScoreChanges``: what changes scores before the softmax, and how much of a thread that takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..facts.dtypes import DType
from ..facts.numbers import BRIEF_CAP
from .masks import DenseBiasMask, SlidingWindowMask, Term


class Modifier(Protocol):
    """What is asked of a function of scores, ``extras.ScoreMod``."""

    @property
    def cap(self) -> float:
        """The cap of one that is a softcap and nothing else, else 0."""

    @property
    def slopes(self) -> bool:
        """Whether it is ALiBi and nothing else."""


@dataclass(frozen=True)
class ScoreChanges:
    """What a kernel does to scores besides hiding some.

    Args:
        score_mod: modifier of the scores, or None.
        terms: the mask as a union of intervals, each with its biases.
    """

    score_mod: Modifier | None
    terms: tuple[Term, ...]

    @property
    def biases(self) -> tuple[DenseBiasMask, ...]:
        """Biases of all terms, repetitions included."""
        return tuple(bias for term in self.terms for bias in term.biases)

    @property
    def are_any(self) -> bool:
        """Whether anything changes scores."""
        return self.score_mod is not None or bool(self.biases)

    @property
    def only_cap(self) -> float:
        """The cap, where a softcap of brief arithmetic is all that changes scores; else 0."""
        cap = self.score_mod.cap if self.score_mod is not None and not self.biases else 0.0
        return cap if cap <= BRIEF_CAP else 0.0

    @property
    def only_slopes(self) -> bool:
        """Whether ALiBi is all that changes scores."""
        return self.score_mod is not None and self.score_mod.slopes and not self.biases

    @property
    def only_biases(self) -> bool:
        """Whether biases of the one term of the mask are all that changes scores."""
        return self.score_mod is None and bool(self.biases) and len(self.terms) == 1

    @property
    def only_halves(self) -> bool:
        """Whether these have 16 bits, and may be loaded several at once."""
        several = (b.at_once > 1 and b.dtype is not DType.FP32 for b in self.biases)
        return self.only_biases and all(several)

    @property
    def look_back(self) -> bool:
        """Whether no row sees a key after its own, in any term: ALiBi's distances have one sign."""
        return all(
            any(isinstance(x, SlidingWindowMask) and x.right == 0 for x in term.leaves)
            for term in self.terms
        )

    @property
    def are_brief(self) -> bool:
        """Whether they are a softcap or ALiBi alone, of few registers; or none."""
        return not self.are_any or self.only_slopes or self.only_cap > 0.0
