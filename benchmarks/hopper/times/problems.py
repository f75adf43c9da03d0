"""The problems that are timed, and how much work each one is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any, Final

import torch

from fa4_cute import masks, score_mods

TOKENS: Final = 16384
HIDDEN: Final = 2048
"""Tokens of a batch and columns of all its heads, as in the tables of FlashAttention's authors."""
SHARED_HIDDEN: Final = 4096
"""Columns of all query heads where eight heads of k and v serve them."""
BYTES: Final = {"bf16": 2, "fp8": 1}


@cache
def _pairs(seqlen_q: int, seqlen_k: int, causal: bool, window: int | None) -> int:
    total = 0
    for row in range(seqlen_q):
        place = seqlen_k - seqlen_q + row
        last = min(place, seqlen_k - 1) if causal else seqlen_k - 1
        first = 0 if window is None else max(0, place - window)
        total += max(0, last - first + 1)
    return total


@dataclass(frozen=True)
class Problem:
    """One call of attention: q (batch, seqlen_q, heads, head_dim), k, v with seqlen_k, heads_kv.

    Attributes:
        group: the table that it stands in.
        head_dim_v: columns of v, head_dim unless given.
        causal: bottom-right aligned.
        dtype: "bf16", or "fp8" (e4m3 with bf16 output).
        window: keys to the left of a query that it sees besides its own, or None for all.
        page: tokens of a page of k and v, or 0 where they are one tensor.
        packed: sequences lie one after the other, without a batch dimension.
        softcap: scores are capped by it; 0 is off.
        added: what is added to scores: "alibi", a slope for each head, or "bias", a bf16 tensor of
            (heads, seqlen_q, seqlen_k) that all sequences share.
        sink: every head has a sink.
        layer: a model that has such a layer, or nothing.
    """

    group: str
    batch: int
    seqlen_q: int
    seqlen_k: int
    heads: int
    heads_kv: int
    head_dim: int
    head_dim_v: int
    causal: bool = False
    dtype: str = "bf16"
    window: int | None = None
    page: int = 0
    packed: bool = False
    softcap: float = 0.0
    added: str = ""
    sink: bool = False
    layer: str = ""

    @property
    def name(self) -> str:
        """Unique in the table; a file name and a regular expression's prey."""
        dims = f"d{self.head_dim}"
        dims += f"_{self.head_dim_v}" if self.head_dim_v != self.head_dim else ""
        queries = f"q{self.seqlen_q}_" if self.seqlen_q != self.seqlen_k else ""
        parts = [
            self.group, dims, f"{queries}k{self.seqlen_k}", f"b{self.batch}",
            f"h{self.heads}_{self.heads_kv}",
        ]  # fmt: skip
        parts += ["causal"] * self.causal
        if self.window is not None and (self.layer or self.window != USUAL_WINDOW):
            parts.append(f"w{self.window + 1}")
        if self.layer:
            parts += ["sink"] * self.sink + ["cap"] * bool(self.softcap)
        if self.page:
            parts.append(f"page{self.page}")
        return "-".join(parts)

    def pairs(self) -> int:
        """(query, key) pairs that a head of one sequence looks at."""
        return _pairs(self.seqlen_q, self.seqlen_k, self.causal, self.window)

    def flops(self) -> int:
        """Two operations for each pair and column of q k' and of p v; masked pairs do not count."""
        return 2 * self.batch * self.heads * self.pairs() * (self.head_dim + self.head_dim_v)

    def bytes(self) -> int:
        """What must be read and written at least: q, k, v, O and visible biases once each."""
        element, both = BYTES[self.dtype], self.head_dim + self.head_dim_v
        keys = self.batch * self.seqlen_k * self.heads_kv * both * element
        rows = self.batch * self.seqlen_q * self.heads
        biases = self.heads * self.pairs() * BYTES["bf16"] * (self.added == "bias")
        return keys + biases + rows * (self.head_dim * element + self.head_dim_v * BYTES["bf16"])

    @property
    def by_bandwidth(self) -> bool:
        """Whether memory bounds it, so that GB/s say more than TFLOPS."""
        return self.group in ("decode", "paged", "steps")

    def our_options(self) -> dict[str, Any]:
        """What ``fa4_cute.warmup`` has to know to compile the kernel for it."""
        options: dict[str, Any] = {
            "head_dim": self.head_dim, "head_dim_v": self.head_dim_v, "causal": self.causal,
            "dtype": {"bf16": "bf16", "fp8": "fp8_e4m3"}[self.dtype], "batch": self.batch,
            "seqlen_q": self.seqlen_q, "seqlen_k": self.seqlen_k, "heads_q": self.heads,
            "heads_k": self.heads_kv, "arch": "sm_90a",
        }  # fmt: skip
        if self.window is not None:
            options["window_size"] = (self.window, 0)
        if self.page:
            options["page_size"] = self.page
        if self.softcap:
            options["softcap"] = self.softcap
        if self.added == "alibi":
            slopes = torch.ones(self.heads)
            options["score_mod"] = score_mods.alibi(slopes)
        if self.added == "bias":
            shape = (1, self.heads, self.seqlen_q, self.seqlen_k)
            options["mask"] = masks.bias(torch.empty(shape, dtype=torch.bfloat16, device="meta"))
        options["sink"] = self.sink
        if self.packed:
            options["ragged_q"] = options["ragged_k"] = True
        return options


DIMS: Final = ((64, 64), (96, 96), (128, 128), (192, 128), (256, 256))
FP8_DIMS: Final = ((64, 64), (128, 128), (192, 128), (256, 256))
USUAL_WINDOW: Final = 1023
WINDOWS: Final = ((64, USUAL_WINDOW), (128, USUAL_WINDOW), (64, 127), (96, USUAL_WINDOW),
                  (128, 4095), (256, USUAL_WINDOW))  # fmt: skip
"""Head dims, and keys before its own that a query sees."""
CAP: Final = 50.0
"""That of Gemma 2."""
LENGTHS: Final = (512, 1024, 2048, 4096, 8192, 16384, 32768)


def _square(group: str, dims: tuple[int, int], length: int, **options: Any) -> Problem:
    heads = max(1, HIDDEN // dims[0])
    batch = max(1, TOKENS // length)
    return Problem(group, batch, length, length, heads, heads, *dims, **options)


LAYERS: Final[tuple[tuple[str, tuple[int, int], tuple[int, int], dict[str, Any]], ...]] = (
    ("gpt-oss", (64, 8), (64, 64), {"causal": True, "sink": True}),
    ("gpt-oss, window", (64, 8), (64, 64), {"causal": True, "sink": True, "window": 127}),
    ("Gemma 2 9B", (16, 8), (256, 256), {"causal": True, "softcap": CAP}),
    ("Gemma 2 9B, window", (16, 8), (256, 256), {"causal": True, "softcap": CAP, "window": 4095}),
    ("Gemma 2 27B, window", (32, 16), (128, 128), {"causal": True, "softcap": CAP, "window": 4095}),
    ("Gemma 3 12B, window", (16, 8), (256, 256), {"causal": True, "window": 1023}),
    ("Gemma 3 27B, window", (32, 16), (128, 128), {"causal": True, "window": 1023}),
    ("Mistral 7B v0.1", (32, 8), (128, 128), {"causal": True, "window": 4095}),
    ("Phi-3 mini", (32, 32), (96, 96), {"causal": True, "window": 2046}),
    ("Llama 3.1 70B", (64, 8), (128, 128), {"causal": True}),
    ("Qwen 2.5 0.5B", (14, 2), (64, 64), {"causal": True}),
    ("DeepSeek-V3, prompt", (128, 128), (192, 128), {"causal": True}),
    ("MPT 7B", (32, 32), (128, 128), {"causal": True, "added": "alibi"}),
)
"""Layers of prompts, 2 x 8,192 tokens: models, heads of queries and keys, head dims of q and v."""
ENCODERS: Final = (
    ("ViT-L/14, 336", 32, 577, 16, 64), ("SigLIP So400m/14", 32, 729, 16, 72),
    ("ViT-H/14", 64, 257, 16, 80), ("DINOv2 g/14", 16, 1370, 24, 64),
    ("Whisper large", 16, 1500, 20, 64), ("SDXL, 64 x 64", 8, 4096, 10, 64),
    ("FLUX.1, 1024 x 1024", 4, 4608, 24, 128), ("HunyuanVideo", 1, 32760, 24, 128),
)  # fmt: skip
"""Layers without a mask: models, sequences, tokens, heads, head dim."""
STEPS: Final[tuple[tuple[str, int, int, int, int, int, dict[str, Any], tuple[int, ...]], ...]] = (
    ("gpt-oss", 64, 4096, 64, 8, 64, {"sink": True}, (16, 64)),
    ("gpt-oss, window", 64, 4096, 64, 8, 64, {"sink": True, "causal": True, "window": 127}, (16,)),
    ("Qwen3 32B", 32, 8192, 64, 8, 128, {}, (16, 64)),
    ("Gemma 3 27B", 16, 8192, 32, 16, 128, {}, (16,)),
    ("Gemma 2 9B", 16, 8192, 16, 8, 256, {"softcap": CAP}, (64,)),
    ("Llama 3.1 70B, 1 of 8", 64, 8192, 8, 1, 128, {}, (16,)),
)  # fmt: skip
"""Steps of decoding: models, sequences, keys, heads, head dim, what they have besides, pages."""


def _layers() -> Iterator[Problem]:
    for layer, heads, dims, options in LAYERS:
        yield Problem("layers", 2, 8192, 8192, *heads, *dims, layer=layer, **options)
    yield Problem("layers", 8, 2048, 2048, 64, 8, 128, 128, causal=True, packed=True,
                  layer="Llama 3.1 70B, packed")  # fmt: skip
    for layer, batch, tokens, heads_, dim in ENCODERS:
        yield Problem("encoders", batch, tokens, tokens, heads_, heads_, dim, dim, layer=layer)
    for layer, batch, keys, heads_q, heads_kv, dim, more, pages in STEPS:
        for page in pages:
            yield Problem("steps", batch, 1, keys, heads_q, heads_kv, dim, dim, page=page,
                          layer=layer, **more)  # fmt: skip


def _problems() -> Iterator[Problem]:
    for dims, causal, length in product(DIMS, (False, True), LENGTHS):
        yield _square("full", dims, length, causal=causal)
    some = tuple(product((False, True), (1024, 4096, 16384)))
    for causal, length in some:
        many = _square("gqa", (128, 128), length, causal=causal)
        yield replace(many, heads=SHARED_HIDDEN // 128, heads_kv=8)
    for dims, (causal, length) in product(FP8_DIMS, some):
        yield _square("fp8", dims, length, causal=causal, dtype="fp8")
    for (dim, left), length in product(WINDOWS, (4096, 16384)):
        group = "window" if (dim, left) in WINDOWS[:2] else "windows"
        yield _square(group, (dim, dim), length, causal=True, window=left)
    for dims, length in product(((128, 128), (256, 256)), (4096, 16384)):
        yield _square("softcap", dims, length, causal=True, softcap=CAP)
    for added in ("alibi", "bias"):
        for causal, length in product((False, True), (1024, 4096)):
            yield _square(added, (128, 128), length, causal=causal, added=added)
    for dims, length in product(((64, 64), (128, 128)), (1024, 4096)):
        yield _square("sink", dims, length, causal=True, sink=True)
    for length in (1024, 4096):
        yield _square("packed", (128, 128), length, causal=True, packed=True)
    steps = [
        Problem("decode", batch, 1, length, 32, 8, 128, 128)
        for length, batch in ((4096, 64), (16384, 16), (65536, 4), (65536, 1))
    ]
    yield from steps
    for heads, dim in ((8, 128), (28, 128), (64, 128), (32, 64), (16, 256)):
        heads_kv = 4 if heads == 28 else 8
        yield Problem("decode", 8, 1, 16384, heads, heads_kv, dim, dim)
    yield replace(steps[3], seqlen_q=128)
    for step in steps:
        yield replace(step, group="paged", page=64)
    yield replace(steps[1], group="paged", page=16)
    yield replace(steps[3], group="paged", page=16)
    yield from _layers()


TABLE: Final = tuple(_problems())
"""All problems, in the order in which they are timed."""
