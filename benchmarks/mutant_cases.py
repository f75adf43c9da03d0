"""Kernels in which ``make mutants`` plants faults, and the launches that have to find them."""

from __future__ import annotations

from typing import Any, Final

from testing.cases import BF16, FP8, FP16, Case, dense, featured

CAUSAL, PAGES = frozenset({"causal"}), frozenset({"ragged", "page16"})
PERSISTENT = frozenset({"persistent", "ragged", "causal"})
ROUNDS = frozenset({"persistent", "causal"})
"""Without a ragged batch O is written from the registers, and CTAs go back and forth."""
DYNAMIC = frozenset({"dynamic", "ragged", "causal"})
SECTIONS = frozenset({"persistent", "causal"})
CLUSTER, TOKENS = frozenset({"cluster", "causal"}), frozenset({"tokens", "causal"})
LAST = frozenset({"last", "causal"})
STREAMED = frozenset({"stream_k", "ragged", "page64", "causal"})
ROPE16: dict[str, Any] = {"head_dim_v": 128, "rope": FP16}
ROPE8: dict[str, Any] = {"head_dim_v": 128, "rope": BF16, "dtype": FP8}
STEP = frozenset({"ragged", "page16", "split", "causal"})
HOPPER = "sm_90a"
WHOLE: dict[str, Any] = {"arch": HOPPER, "num_splits": 1}
KERNELS: dict[str, tuple[Case, ...]] = {
    "2q": (dense(300, 760, 128, causal=True, growth=0.016), dense(600, 70, 128, causal=True)),
    "pair512": (dense(200, 950, 512, causal=True, growth=0.016), dense(400, 70, 512, causal=True)),
    "pair256": (
        dense(300, 760, 256, causal=True, growth=0.016, dtype=FP16),
        dense(600, 70, 256, causal=True, dtype=FP16),
    ),
    "1q": (
        dense(100, 890, 128, causal=True, growth=0.016, num_qo=1),
        dense(100, 760, 128, causal=True, growth=0.016, num_qo=1),
        dense(300, 70, 128, causal=True, num_qo=1),
    ),
    "2q-persistent": (
        featured(PERSISTENT, 128, ((300, 420), (0, 20), (200, 500)), 2, num_qo=2, sharpness=4.0),
        featured(PERSISTENT, 128, ((600, 70),), 2, num_qo=2),
    ),
    "2q-persistent-plain": (
        featured(ROUNDS, 128, ((600, 500),), 2, num_qo=2, sharpness=4.0),
        featured(ROUNDS, 128, ((600, 70),), 2, num_qo=2),
    ),
    "2q-dynamic": (
        featured(DYNAMIC, 128, ((300, 420), (0, 20), (200, 500)), 2, num_qo=2, sharpness=4.0),
        featured(DYNAMIC, 128, ((600, 70),), 2, num_qo=2),
    ),
    "1q-persistent": (
        featured(PERSISTENT, 128, ((130, 620), (0, 20), (70, 500)), 2, num_qo=1, sharpness=4.0),
        featured(PERSISTENT, 128, ((300, 70), (2, 200)), 2, num_qo=1),
        featured(PERSISTENT, 128, ((20, 890), (20, 760), (20, 1010), (20, 890)), 2, num_qo=1),
    ),
    "1q-persistent-plain": (
        featured(ROUNDS, 128, ((300, 620),), 2, num_qo=1, sharpness=4.0),
        featured(ROUNDS, 128, ((300, 70),), 2, num_qo=1),
        featured(ROUNDS, 128, ((20, 890),) * 3, 2, num_qo=1),
    ),
    "2q-pair": (
        dense(600, 760, 128, causal=True, growth=0.016, pair_cta=True),
        dense(900, 70, 128, causal=True, pair_cta=True),
        dense(512, 1700, 128, causal=True, growth=0.016, pair_cta=True),
    ),
    "pair256-pages": (
        featured(PAGES | CAUSAL, 256, ((150, 420), (40, 17)), 2, sharpness=4.0),
        featured(PAGES | CAUSAL, 256, ((300, 17), (9, 60)), 2),
    ),
    "2q-pages": (
        featured(PAGES | CAUSAL, 128, ((350, 500), (40, 17)), 2, num_qo=2, sharpness=4.0),
        featured(PAGES | CAUSAL, 128, ((300, 17), (140, 60)), 2, num_qo=2),
    ),
    "2q-rope": (
        featured(CAUSAL, 192, ((300, 760),), 1, num_qo=2, growth=0.016, **ROPE16),
        featured(CAUSAL, 192, ((600, 70),), 1, num_qo=2, **ROPE16),
    ),
    "1q-rope": (
        featured(CAUSAL, 192, ((100, 1270),), 1, num_qo=1, growth=0.016, **ROPE8),
        featured(CAUSAL, 192, ((100, 1140),), 1, num_qo=1, growth=0.016, **ROPE8),
        featured(CAUSAL, 192, ((300, 70),), 1, num_qo=1, **ROPE8),
    ),
    "2q-fp8": (
        dense(300, 1790, 128, causal=True, growth=0.016, dtype=FP8),
        dense(300, 760, 128, causal=True, dtype=FP8),
        dense(600, 70, 128, causal=True, dtype=FP8),
    ),
    "1q-tokens": (
        featured(TOKENS, 128, ((100, 1790),), 1, dtype=FP8, num_qo=1, growth=0.016),
        featured(TOKENS, 128, ((100, 1660),), 1, dtype=FP8, num_qo=1, growth=0.016),
        featured(TOKENS, 128, ((300, 70),), 1, dtype=FP8, num_qo=1),
    ),
    "pair256-tokens": (
        featured(TOKENS, 256, ((300, 760),), 1, dtype=FP8, growth=0.016),
        featured(TOKENS, 256, ((600, 70),), 1, dtype=FP8),
    ),
    "1q-cluster": (
        featured(CLUSTER, 128, ((100, 1650),), 1, num_qo=1, growth=0.016),
        featured(CLUSTER, 128, ((100, 300),), 1, num_qo=1),
        featured(CLUSTER, 128, ((300, 70),), 1, num_qo=1),
    ),
    "1q-last": (
        featured(LAST, 128, ((100, 1650),), 1, num_qo=1, growth=0.016),
        featured(LAST, 128, ((100, 300),), 1, num_qo=1),
        featured(LAST, 128, ((300, 70),), 1, num_qo=1),
    ),
    "1q-stream-k": (
        # The second CTA has one key tile of the first query tile; the first one three, and four.
        featured(
            STREAMED, 128, ((3, 2650), (1, 130), (1, 384), (2, 900)), 1, num_qo=1, growth=0.005
        ),
        featured(STREAMED, 128, ((1, 384), (20, 1000), (0, 20), (9, 7)), 1, num_qo=1),
    ),
    "2q-masks-apart": (
        dense(300, 760, 64, growth=0.016),
        dense(600, 70, 64),
        dense(200, 640, 64, growth=0.016),
        dense(100, 1790, 64, growth=0.016),
    ),
    "pair256-persistent": (
        featured(PERSISTENT, 256, ((300, 420), (0, 20), (200, 500)), 2, sharpness=4.0),
        featured(PERSISTENT, 256, ((600, 70),), 2),
    ),
    "pair256-persistent-plain": (
        featured(ROUNDS, 256, ((600, 500),), 2, sharpness=4.0),
        featured(ROUNDS, 256, ((600, 70),), 2),
    ),
    "pair256-dynamic": (
        featured(DYNAMIC, 256, ((300, 420), (0, 20), (200, 500)), 2, sharpness=4.0),
        featured(DYNAMIC, 256, ((600, 70),), 2),
    ),
    "pair256-stream-k": (
        # The second pair has one key tile of the first query tile; the first one three, and four.
        featured(STREAMED, 256, ((3, 2650), (1, 130), (1, 384), (2, 900)), 1, growth=0.005),
        featured(STREAMED, 256, ((1, 384), (20, 1000), (0, 20), (9, 7)), 1),
    ),
    "hopper": (
        dense(200, 1270, 128, causal=True, growth=0.016, arch=HOPPER),
        dense(300, 510, 128, causal=True, softmax_scale=-0.1, arch=HOPPER),
        dense(400, 70, 128, causal=True, arch=HOPPER),
    ),
    "hopper-persistent": (
        featured(PERSISTENT, 64, ((600, 920), (0, 20), (300, 1300)), 2, sharpness=4.0, **WHOLE),
        featured(PERSISTENT, 64, ((700, 70), (40, 30)), 2, softmax_scale=-0.1, **WHOLE),
    ),
    "hopper-sections": (
        featured(SECTIONS, 64, ((330, 700),) * 2, 2, sharpness=4.0, **WHOLE),
        featured(SECTIONS, 64, ((260, 70),) * 3, 2, softmax_scale=-0.1, **WHOLE),
    ),
    "hopper-fp8-wide": (
        dense(130, 630, 256, causal=True, growth=0.016, dtype=FP8, arch=HOPPER),
        dense(150, 510, 256, causal=True, softmax_scale=-0.1, dtype=FP8, arch=HOPPER),
        dense(260, 70, 256, causal=True, dtype=FP8, arch=HOPPER),
    ),
    "hopper-few": (
        featured(STEP, 128, ((9, 1100), (3, 400), (0, 20)), 2, sharpness=4.0, arch=HOPPER),
        featured(STEP, 128, ((9, 17), (20, 60)), 2, softmax_scale=-0.1, arch=HOPPER),
    ),
}
"""Per kernel: a long problem whose row maxima grow, so that O is rescaled and the rings wrap
around, whose last key tile is nearly full, and one whose first tiles see no key at all. One Q tile
runs with an odd and an even number of key tiles, a persistent CTA takes several query tiles, and
with pages rows of V that belong to no key are cleaned; sequences end within either Q tile of a
CTA, so that rows are stored one by one. The combine kernel has no synchronisation
that could be at fault."""

BASES: Final = {
    "2q-persistent-plain": "2q-persistent", "1q-persistent-plain": "1q-persistent",
    "2q-dynamic": "2q-persistent",
    "2q-pages": "2q", "2q-rope": "2q", "2q-fp8": "2q",
    "2q-masks-apart": "2q",
    "1q-rope": "1q", "1q-tokens": "1q", "1q-cluster": "1q", "1q-last": "1q",
    "1q-stream-k": "1q",
    "pair256-tokens": "pair256", "pair256-persistent": "pair256-pages",
    "pair256-persistent-plain": "pair256",
    "pair256-dynamic": "pair256-pages", "pair256-stream-k": "pair256-pages",
    "hopper-fp8-wide": "hopper", "hopper-sections": "hopper-persistent",
}  # fmt: skip
"""Kernel -> a kernel above that has most of its statements, in which all of them are at fault."""
