"""Calls with features that ``make check`` runs: every feature in every kernel that has it."""

from __future__ import annotations

import torch

from .launches import Featured

LONG = ((150, 300), (0, 20), (140, 17))
"""Sequences of more than one CTA, and with fewer keys than queries."""
SHORT = ((20, 300), (3, 133), (0, 20), (17, 7))
"""Decoding: 3 key tiles of 128, and 2, and 1; an empty sequence."""
DENSE = ((140, 300),)
FP8 = torch.float8_e4m3fn
PAGED = ("ragged page16 causal sink", "ragged cache padding", "page64 window split")
MASKS = ("window", "union sink", "bias causal", "function softcap", "chunked alibi padding")


def _cases(head_dim: int, names: tuple[str, ...], lengths: tuple[tuple[int, int], ...],
           num_qo: int | None = None) -> tuple[Featured, ...]:  # fmt: skip
    return tuple(
        Featured(frozenset(name.split()), head_dim, lengths, 2, 1, num_qo=num_qo) for name in names
    )


PLAIN: frozenset[str] = frozenset()
CASES = (
    *_cases(64, MASKS, (LONG[0],), num_qo=2),
    *_cases(128, (*PAGED, "ragged split bias sink"), LONG, num_qo=2),
    *_cases(64, MASKS, ((40, 300),), num_qo=1),
    *_cases(64, ("causal", "window"), ((40, 500),), num_qo=1),
    *_cases(128, (*PAGED, "ragged split causal sink"), SHORT, num_qo=1),
    *_cases(256, MASKS, DENSE),
    *_cases(256, (*PAGED, "ragged split causal"), SHORT),
    *_cases(512, ("window sink", "ragged page16 causal", "split union"), SHORT),
    *_cases(256, ("persistent ragged causal", "persistent ragged page16 sink split"), LONG),
    *_cases(512, ("persistent ragged causal", "persistent ragged page16 sink split"), LONG),
    Featured(frozenset({"causal"}), 128, DENSE, 2, 1, FP8, num_qo=2, growth=0.01),
    Featured(PLAIN, 64, DENSE, 2, 1, FP8, num_qo=2, token_scales=True),
    Featured(frozenset({"causal"}), 128, ((40, 600),), 2, 1, FP8, num_qo=1, token_scales=True),
    Featured(frozenset({"page64", "ragged", "window"}), 128, SHORT, 2, 1, FP8, num_qo=1),
    Featured(frozenset({"causal", "sink"}), 256, DENSE, 2, 1, FP8),
)
"""Ragged, paged and cached sequences; masks; split keys with the combine kernel; one Q tile with
an even and an odd number of key tiles; float8 with and without a scale per token."""
