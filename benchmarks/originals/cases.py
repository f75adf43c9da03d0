"""What is compared: one call of this package, and the program that asks Modular for the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from benchmarks.originals.programs import Defines
from testing.arguments import Arguments, arguments
from testing.cases import FP8, Case, dense

ROPE_COLUMNS: Final = 64
BOTH: Final = ("26.6", "26.7")
CAUSAL: Final = {"mask": 0}
FORCED: Final = {"FA4_FORCE_2Q": 1}
"""Modular's build flag against its own choice of one query tile for few CTAs; 26.6 has none."""


@dataclass(frozen=True)
class Original:
    """One comparison.

    Attributes:
        name: of the row.
        program: of ``mojo``.
        case: shapes and features; of a program without a counterpart here, its shapes.
        defines: compile-time parameters of the program, besides those that follow from ``case``.
        options: further arguments of this package's call.
        releases: of Modular.
        counterpart: whether this package has such a kernel.
    """

    name: str
    program: str
    case: Case
    defines: Defines = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    releases: tuple[str, ...] = BOTH
    counterpart: bool = True

    @property
    def definitions(self) -> Defines:
        """All compile-time parameters of the program."""
        case = self.case
        shapes = {"depth": case.head_dim, "heads": case.heads, "kv_heads": case.kv_heads}
        if self.program in ("prefill", "decode"):
            shapes = {"heads": case.heads}
        if case.page_size:
            shapes["page"] = case.page_size
        return {**shapes, **self.defines}

    def arguments(self) -> Arguments:
        """Inputs and options, the same for both."""
        given = arguments(self.case, **self.options)
        if self.program == "prefill":
            add_rope(given)
        if "sink" in given.options:  # Modular's are of the operands' type
            given.options["sink"] = given.options["sink"].bfloat16().float()
        return given


def add_rope(given: Arguments) -> None:
    """Add rope columns, the keys' for all heads at once, and the scale of all columns."""
    random = torch.Generator().manual_seed(1)
    of_q, of_k = (*given.q.shape[:-1], ROPE_COLUMNS), (*given.k.shape[:-2], 1, ROPE_COLUMNS)
    for name, shape in (("q_rope", of_q), ("k_rope", of_k)):
        given.options[name] = torch.randn(shape, generator=random).to(given.q.dtype)
    given.options["softmax_scale"] = (given.q.shape[-1] + ROPE_COLUMNS) ** -0.5


def clustered(seqlen: int, head_dim: int, heads: int) -> Case:
    """One query tile, and two CTAs for its keys."""
    return Case(
        frozenset({"causal", "cluster"}), head_dim, heads=heads, kv_heads=heads,
        lengths=((seqlen, seqlen),), num_qo=1,
    )  # fmt: skip


EVERYTHING: Final = frozenset({"causal", "page64", "ragged", "sink"})
PAGED: Final = Case(
    EVERYTHING, 128, heads=4, kv_heads=2, lengths=((300, 500), (40, 40), (129, 400)), num_qo=2,
    num_splits=1,
)  # fmt: skip
SHORT: Final = Case(
    EVERYTHING, 128, heads=8, kv_heads=2, lengths=((1, 300), (3, 133), (17, 400)), num_splits=1
)
STEPS: Final = Case(
    frozenset({"causal", "page128", "ragged"}), 128, heads=32, kv_heads=8,
    lengths=((1, 1000), (1, 129), (1, 300)), num_splits=1,
)  # fmt: skip

CASES: Final = (
    Original(
        "2Q d128 causal", "dense", dense(512, 512, 128, 2, 2, causal=True),
        {**CAUSAL, **FORCED}, releases=("26.7",),
    ),
    Original(
        "2Q d128 causal, 40 sequences", "dense",
        dense(512, 512, 128, 2, 2, causal=True, batch=40), {**CAUSAL, **FORCED},
    ),
    Original("1Q d128 causal, split in a cluster", "dense", clustered(512, 128, 2), CAUSAL),
    Original("d256 causal, CTA pair", "dense", dense(512, 512, 256, 4, 2, causal=True), CAUSAL),
    Original("d512 causal, CTA pair", "dense", dense(512, 512, 512, 8, 1, causal=True), CAUSAL),
    Original("MLA prefill 192/128", "prefill", dense(512, 512, 128, 2, 2, causal=True)),
    Original("paged, ragged, sinks", "paged", PAGED, {"sink": 1, **FORCED}),
    Original("short prompts, paged, ragged, sinks", "paged", SHORT, {"sink": 1}),
    Original(
        "2Q d128 fp8", "dense", dense(512, 512, 128, 2, 2, causal=True, dtype=FP8),
        {**CAUSAL, **FORCED, "fp8": 1},
    ),
    Original(
        "2Q d64, no mask", "dense", dense(300, 640, 64, 4, 4), {"mask": 1, **FORCED}
    ),
    Original(
        "2Q d128 window 200, 8/2 heads", "dense", dense(512, 512, 128, 8, 2),
        {"mask": 200, **FORCED}, {"window_size": (199, 0)},
    ),
    Original("decoding, paged, 32/8 heads", "paged", STEPS, releases=("26.7",)),
    Original("MLA decode 576/512", "decode", dense(1, 256, 576, 16, 1), counterpart=False),
)  # fmt: skip
