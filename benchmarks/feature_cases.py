"""Calls with features that ``make check`` runs: every feature in every kernel that has it."""

from __future__ import annotations

from typing import Any

from fa4_cute.plan.facts.hardware import SM90A
from testing.cases import BF16, FP8, FP16, Case, Lengths, featured

LONG = ((150, 300), (0, 20), (140, 17))
"""Sequences of more than one CTA, and with fewer keys than queries."""
SHORT = ((20, 300), (3, 133), (0, 20), (17, 7))
"""Decoding: 3 key tiles of 128, and 2, and 1; an empty sequence."""
CUT = ((3, 2300), (1, 130), (0, 20), (4, 1000))
"""Query tiles that several CTAs have parts of, by stream-K, and others."""
STEPS = ((5, 300), (0, 20), (1, 133), (2, 17), (1, 0))
"""Few rows, of which lanes hold copies: key tiles for both groups, for the first, and none."""
DENSE = ((140, 300),)
HALVES = ((150, 304), (0, 20), (140, 17))
"""As the first, but biases of 16 bits whose rows are whole vectors: Hopper stages them."""
PAGED = ("ragged page16 causal sink", "ragged cache padding", "page64 window split")
PERSISTENT = ("persistent causal", "persistent ragged page16 window", "persistent split sink")
"""Query tiles of several sequences and heads for each CTA."""
DYNAMIC = ("dynamic causal", "dynamic ragged page16 window")
"""A CTA for each of these, of which the first takes over all others that it can."""
MASKS = ("window", "union sink", "bias causal", "function softcap", "chunked alibi padding")


def _cases(
    head_dim: int, names: tuple[str, ...], lengths: Lengths, heads: int = 2, **options: Any
) -> tuple[Case, ...]:
    return tuple(featured(name.split(), head_dim, lengths, heads, **options) for name in names)


MLA: dict[str, Any] = {"head_dim_v": 128}
"""Queries and keys of 192, values of 128: prefill of multi-head latent attention."""
PAIR: dict[str, Any] = {"num_qo": 2, "pair_cta": True}
"""Two Q tiles per CTA of a pair."""
HOPPER: dict[str, Any] = {"arch": SM90A}
WIDE = ((400, 300),)
"""Queries for both CTAs of a pair, also where no heads are packed into rows."""
CASES = (
    *_cases(64, MASKS, (LONG[0],), num_qo=2),
    *_cases(128, (*PAGED, "ragged split bias sink"), LONG, num_qo=2),
    *_cases(128, (*PERSISTENT, *DYNAMIC), LONG, num_qo=2),
    *_cases(128, ("ragged page16 causal", "ragged split window sink", "persistent causal"), LONG,
            **PAIR),
    *_cases(128, DYNAMIC, LONG, **PAIR),
    *_cases(64, MASKS, ((40, 300),), num_qo=1),
    *_cases(64, ("causal", "window"), ((40, 500),), num_qo=1),
    *_cases(128, (*PAGED, "ragged split causal sink"), SHORT, num_qo=1),
    *_cases(128, (*PERSISTENT, *DYNAMIC), ((70, 300), (0, 20), (80, 17)), num_qo=1),
    *_cases(128, ("ragged cluster causal sink", "page64 window cluster"), SHORT, num_qo=1),
    *_cases(128, ("ragged last causal sink", "page64 window last"), SHORT, num_qo=1),
    *_cases(128, ("ragged page64 stream_k causal sink", "cache window stream_k"), CUT, num_qo=1),
    *_cases(128, ("ragged page16 causal sink", "ragged last window"), STEPS),
    *_cases(64, ("ragged cluster causal sink", "persistent ragged", "softcap cache"), STEPS),
    *_cases(64, ("ragged page16 stream_k causal sink",), CUT),
    *_cases(128, ("fp8 ragged page64 stream_k", "tokens ragged page16"), STEPS, dtype=FP8),
    *_cases(256, ("ragged page16 causal sink", "tokens ragged page64"), STEPS, dtype=FP8),
    *_cases(224, ("fp8 ragged page64 stream_k", "split ragged window"), STEPS, dtype=FP8),
    *_cases(128, ("ragged page64 stream_k causal",), CUT, **HOPPER),
    *_cases(256, ("ragged page64 stream_k causal sink",), CUT),
    *_cases(512, ("cache window stream_k",), CUT),
    *_cases(256, MASKS, DENSE),
    *_cases(256, (*PAGED, "ragged split causal"), SHORT),
    *_cases(256, (*PERSISTENT, *DYNAMIC), LONG),
    *_cases(512, ("persistent ragged page16 sink split", "dynamic ragged causal"), LONG),
    *_cases(512, ("window sink", "ragged page16 causal", "split union"), SHORT),
    *_cases(192, ("ragged causal",), LONG, num_qo=2, **MLA),
    *_cases(192, ("causal",), ((40, 300),), num_qo=1, **MLA),
    *_cases(192, ("causal", "persistent"), LONG, num_qo=2, rope=FP16, **MLA),
    *_cases(192, ("causal",), ((40, 500),), dtype=FP8, num_qo=1, rope=BF16, **MLA),
    *_cases(128, ("causal",), DENSE, dtype=FP8, num_qo=2, growth=0.01),
    *_cases(128, ("causal",), ((200, 300),), dtype=FP8, **PAIR),
    *_cases(128, ("tokens ragged page16 causal", "tokens persistent window"), LONG, dtype=FP8,
            **PAIR),
    *_cases(192, ("causal",), WIDE, **PAIR, **MLA),
    *_cases(128, ("persistent ragged page64",), LONG, head_dim_v=64, **PAIR),
    *_cases(192, ("window",), ((300, 1300),), dtype=FP8, **PAIR, **MLA),
    *_cases(192, ("tokens causal",), WIDE, dtype=FP8, rope=BF16, **PAIR, **MLA),
    *_cases(64, ("tokens",), DENSE, dtype=FP8, num_qo=2),
    *_cases(128, ("tokens persistent page64 causal", "tokens ragged page64"), LONG, dtype=FP8,
            num_qo=2),
    *_cases(128, ("tokens causal",), ((40, 600),), dtype=FP8, num_qo=1),
    *_cases(128, ("page64 ragged window",), SHORT, dtype=FP8, num_qo=1),
    *_cases(256, ("causal sink",), DENSE, dtype=FP8),
    *_cases(256, ("tokens ragged page16 causal",), SHORT, dtype=FP8),
    *_cases(256, ("tokens persistent page16",), LONG, dtype=FP8),
    *_cases(512, ("tokens ragged window",), SHORT, dtype=FP8),
    *_cases(64, ("causal", "union sink", "persistent ragged cache causal"), LONG, **HOPPER),
    *_cases(128, ("causal", "persistent split sink", "page64 window split"), LONG, **HOPPER),
    *_cases(128, ("bias causal", "persistent ragged bias", "ragged page16 bias window"), HALVES,
            **HOPPER),
    *_cases(64, ("split bias sink",), HALVES, **HOPPER),
    *_cases(128, ("softcap ragged causal", "persistent softcap"), LONG, **HOPPER),
    *_cases(128, ("softcap causal", "dynamic softcap window"), LONG, num_qo=2),
    *_cases(192, ("ragged page16 causal sink",), LONG, **HOPPER),
    *_cases(192, ("causal", "persistent ragged page64 window"), LONG, **MLA, **HOPPER),
    *_cases(64, ("causal", "persistent ragged cache window"), LONG, dtype=FP8, **HOPPER),
    *_cases(128, ("page64 split sink", "tokens ragged page16"), LONG, dtype=FP8, **HOPPER),
    *_cases(256, ("bias causal", "persistent ragged page16 window"), LONG, **HOPPER),
    *_cases(256, ("causal", "tokens persistent page16 split", "union sink"), LONG, dtype=FP8,
            **HOPPER),
    *_cases(192, ("causal", "tokens ragged cache window"), LONG, dtype=FP8, **HOPPER),
    *_cases(256, ("page64 window split",), SHORT, dtype=FP8, num_qo=1, **HOPPER),
)  # fmt: skip
"""Ragged, paged and cached sequences; masks; split keys with the combine kernel; one Q tile with
an even and an odd number of key tiles; persistent CTAs; two CTAs to an MMA; rope columns; float8
with and without a scale per token."""
