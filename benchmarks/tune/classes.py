"""The problem classes that choices are searched for, and the launches that judge a choice.

A class is a row of ``fa4_cute.plan.config.tuned``. It is judged by cells: a mask and a length. What
a cell costs follows from one CTA at two lengths (``measure``), so that a long cell is as cheap as a
short one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from benchmarks.hopper.times.problems import HIDDEN, TOKENS, Problem
from fa4_cute.plan.config.tuning import RoleRegisters, Tuning

TRACED: Final = (1024, 2048)
"""Keys of the CTAs that are executed."""
DECODED: Final = (64, 32, 8)
"""Sequences, query heads and heads of K and V of a decoding step."""
SHORT: Final = 128
"""Queries of a prompt that one Q tile holds."""
SHARES: Final = (16, 20, 24, 28)
"""Of 64 pairs of exponentials."""
REGISTERS: Final = (RoleRegisters(), RoleRegisters(200, 88, 24))
PARTS: Final = ((3, 1), (2, 1, 1))
"""Slots of K and V are no axis: what they are for, misses of the L2, is not in the model."""


@dataclass(frozen=True)
class Cell:
    """A launch: all keys or causal, a prompt of one Q tile, or a decoding step, at a length.

    Attributes:
        name: e.g. "full 1K". kind: "full", "causal", "short" or "decode". keys: of a sequence.
    """

    kind: str
    keys: int

    @property
    def name(self) -> str:
        """Kind and length."""
        return f"{self.kind} {self.keys // 1024}K"


@dataclass(frozen=True)
class ProblemClass:
    """Kernels that share a row of the table.

    Attributes:
        name: on the command line. kernel: "2q", "1q" or "pair". dtype: "bf16" or "fp8".
        depth, ov_depth: head dims of Q and K, and of V.
        cells: what judges a choice; the first two decide what is tried.
        axes: per free choice the values that are tried, in the order in which they are.
    """

    name: str
    kernel: str
    dtype: str
    depth: int
    ov_depth: int
    cells: tuple[Cell, ...]
    axes: tuple[tuple[str, tuple[Any, ...]], ...]

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of Q, K and V."""
        return 1 if self.dtype == "fp8" else 2

    def problem(self, kind: str, keys: int) -> Problem:
        """Return the smallest problem whose only, or last, CTA is one of a cell's."""
        causal = kind == "causal"
        if kind == "decode":
            group = DECODED[1] // DECODED[2]
            dims = (self.depth, self.ov_depth)
            return Problem("tune", 1, 1, keys, group, 1, *dims, dtype=self.dtype)
        queries = SHORT if kind == "short" else keys if causal else 256
        dims = (self.depth, self.ov_depth)
        return Problem("tune", 1, queries, keys, 1, 1, *dims, causal=causal, dtype=self.dtype)

    def launch(self, cell: Cell) -> Problem:
        """Return the whole problem of a cell: 16K tokens of 2048 columns, or a decoding step."""
        dims = (self.depth, self.ov_depth)
        if cell.kind == "decode":
            batch, heads, heads_kv = DECODED
            return Problem("tune", batch, 1, cell.keys, heads, heads_kv, *dims, dtype=self.dtype)
        heads = max(1, HIDDEN // self.depth)
        queries = SHORT if cell.kind == "short" else cell.keys
        batch = max(1, TOKENS // queries)
        causal = cell.kind == "causal"
        return Problem(
            "tune", batch, queries, cell.keys, heads, heads, *dims, causal=causal,
            dtype=self.dtype,
        )  # fmt: skip

    def choices(self, start: Tuning) -> tuple[tuple[str, tuple[Tuning, ...]], ...]:
        """Return, axis by axis, ``start`` with each value of the axis."""
        return tuple(
            (name, tuple(replace(start, **{name: value}) for value in values))
            for name, values in self.axes
        )


PROMPT: Final = tuple(Cell(kind, keys) for kind in ("full", "causal") for keys in (1024, 8192))
ONE_TILE: Final = (
    *(Cell("short", keys) for keys in (1024, 8192)), *(Cell("decode", n) for n in (8192, 65536))
)  # fmt: skip
"""Prompts, whose rows fill the Q tile, and steps of decoding, which have copies of few rows."""
_COMMON: Final = (("emulated", SHARES), ("registers", REGISTERS), ("parts", PARTS))
_OF_PAIRS: Final = (("emulated", (8, *SHARES, 32, 36)),)
"""What else the pairs of wide heads could vary is no choice: nothing of theirs spills, their ring
is what fits, and two S and O fill Tensor Memory. Their order is known (``docs/pair_cta.md``)."""
_CROSSES: Final = ("crosses", (False, True))


def _prompt(
    name: str, dtype: str, depth: int, ov_depth: int, *more: tuple[str, tuple[object, ...]]
) -> ProblemClass:
    return ProblemClass(name, "2q", dtype, depth, ov_depth, PROMPT, (*more, _CROSSES, *_COMMON))


CLASSES: Final = (
    _prompt("d64", "bf16", 64, 64, ("keys", (0, 128))),
    _prompt("d96", "bf16", 96, 96),
    _prompt("d128", "bf16", 128, 128),
    _prompt("d192/128", "bf16", 192, 128),
    _prompt("fp8 d64", "fp8", 64, 64, ("keys", (0, 128))),
    _prompt("fp8 d96", "fp8", 96, 96),
    _prompt("fp8 d128", "fp8", 128, 128),
    _prompt("fp8 d192/128", "fp8", 192, 128),
    ProblemClass("1q d64", "1q", "bf16", 64, 64, ONE_TILE, (("keys", (0, 128)), *_COMMON)),
    ProblemClass("1q fp8 d64", "1q", "fp8", 64, 64, ONE_TILE, (("keys", (0, 128)), *_COMMON)),
    ProblemClass("1q d128", "1q", "bf16", 128, 128, ONE_TILE, _COMMON),
    *(
        ProblemClass(f"{prefix}d{depth}", "pair", dtype, depth, depth, PROMPT, _OF_PAIRS)
        for dtype, prefix in (("bf16", ""), ("fp8", "fp8 ")) for depth in (256, 512)
    ),
)  # fmt: skip
"""In the order of the table: the first row that holds a kernel is taken."""
