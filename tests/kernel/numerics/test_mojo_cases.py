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
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute import masks
from testing.arguments import Arguments, arguments
from testing.cases import BF16, FP8, Case
from testing.fp8 import cosine, emulated
from testing.reference.attention import attention_float64
from testing.runner import call

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Row:
    """One case, and what the result may be off.

    Attributes:
        name: test of the reference kernel, and the case.
        case: shapes, operands and pages of the call.
        options: further arguments of the call.
        atol, rtol: gate of the reference test.
        cosine: smallest cosine of the results, where that is the gate.
        sink: range of the sinks, or None.
    """

    name: str
    case: Case
    options: dict[str, Any] = field(default_factory=dict)
    atol: float = 1e-2
    rtol: float = 1e-2
    cosine: float = 0.0
    sink: tuple[float, float] | None = None

    @property
    def dense(self) -> Arguments:
        """The arguments with the keys of a paged case in one tensor."""
        return self._of(replace(self.case, features=frozenset()))

    @property
    def arguments(self) -> Arguments:
        """The arguments of the call."""
        return self._of(self.case)

    def _of(self, case: Case) -> Arguments:
        options = dict(self.options)
        if self.sink is not None:
            low, high = self.sink
            generator = torch.Generator().manual_seed(7)
            options["sink"] = torch.rand(case.heads, generator=generator) * (high - low) + low
        return arguments(case, sum(case.lengths[0]), **options)


def row(
    name: str, lengths: tuple[int, int], heads: tuple[int, int] = (8, 1), head_dim: int = 128,
    options: dict[str, Any] | None = None, *, dtype: torch.dtype = BF16, page_size: int = 0,
    **gate: Any,
) -> Row:  # fmt: skip
    """Return a row: one sequence of (queries, keys), with query and key/value heads."""
    features = frozenset({f"page{page_size}"} if page_size else ())
    case = Case(features, head_dim, dtype, *heads, lengths=(lengths,))
    return Row(name, case, options or {}, **gate)


CAUSAL = {"causal": True}
GENERAL = [
    row(f"causal_mask-{q}x{k}", (q, k), (2, 2), options=CAUSAL, atol=1e-5,)
    for q, k in ((128, 128), (384, 384), (64, 64), (102, 102), (14, 14), (128, 256), (32, 77),
                 (201, 400), (201, 600), (1, 11), (1, 500))
]  # fmt: skip
MASKED = [
    row("causal_mask-window128", (384, 384), options={"window_size": (127, 0)}, atol=1e-5),
    row("causal_mask-window100", (201, 400), options={"window_size": (99, 0)}, atol=1e-5),
    row("chunked_causal-256", (400, 600), options={"mask": masks.chunked_causal(256)}),
    row("chunked-256", (300, 300), options={"mask": masks.chunked(256)}),
    row("window_noncausal", (500, 500), (2, 2), options={"window_size": (127, 127)}),
    row("sink_weights-11", (11, 11), (16, 2), 64, CAUSAL, rtol=3e-2, sink=(-1, 1)),
    row("sink_weights-128", (128, 128), (16, 2), 64, CAUSAL, rtol=3e-2, sink=(-1, 1)),
    row("1q_sink-96x608", (96, 608), (16, 2), 64, CAUSAL, sink=(-2, 2)),
    row("2q_sink-320x832", (320, 832), (16, 2), 64, CAUSAL, sink=(-2, 2)),
]
SPLIT = [
    row(f"1q_splitk_lse-d{d}-P{p}", (8, 520), (8, 1), d, {**mask, "num_splits": p}, atol=0.04)
    for d, p, mask in (
        (64, 1, CAUSAL), (64, 4, {"window_size": (127, 0)}), (128, 3, CAUSAL), (128, 16, {})
    )
]  # fmt: skip
DEPTH512 = [
    row(
        f"depth512_sink-d256-{q}", (q, q + 70), (4, 2), 256, {"window_size": (127, 0)},
        sink=(-2, 2),
    )
    for q in (1, 5, 8, 64, 127, 257)
] + [
    row("depth512_sink-verify8", (8, 200), (4, 2), 256, CAUSAL, sink=(-2, 2)),
    row("depth512_sink-P4", (8, 700), (4, 2), 256, {"causal": True, "num_splits": 4}, sink=(0, 2)),
    row("depth512_sink-d512", (40, 150), (16, 2), 512, CAUSAL, sink=(-2, 2)),
    row("depth512_sink-fp8", (40, 150), (4, 2), 256, CAUSAL, dtype=FP8, atol=4e-2, rtol=4e-2,
        sink=(-2, 2)),
    row("d256_pack_gqa", (60, 300), (8, 1), 256, CAUSAL),
]  # fmt: skip
SMALL_PROMPT = [
    row(f"ws_bm32-{name}-{keys}-page{page}", (8, keys), (8, 2), d, options, atol=0.04, sink=sink,
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
    row("nonws_partial_v_pages", (150, 457), (2, 1), 128, CAUSAL, atol=0.02, page_size=64)
]  # fmt: skip
FP8_ROWS = [
    row(f"fp8-d{d}-{q}x{k}", (q, k), (2, 1), d, options, cosine=0.9997, dtype=FP8)
    for d, q, k, options in (
        (64, 256, 256, CAUSAL), (128, 256, 256, {"window_size": (100, 0)}), (256, 256, 256, CAUSAL),
        (512, 130, 256, CAUSAL), (128, 1, 512, {}), (256, 1, 512, {}), (512, 1, 300, {}),
    )
] + [
    row("fp8-d256-paged", (20, 300), (2, 1), 256, CAUSAL, cosine=0.9997, dtype=FP8, page_size=128)
]  # fmt: skip
ROWS = [*GENERAL, *MASKED, *SPLIT, *DEPTH512, *SMALL_PROMPT, *FP8_ROWS]


FEW = {case.name for table in (SPLIT, SMALL_PROMPT, FP8_ROWS) for case in table[1:2]}
"""Of these tables, each of whose rows is a kernel of its own, what every run takes."""
WIDE = {case.name for case in (*SPLIT, *SMALL_PROMPT, *FP8_ROWS)} - FEW - {"nonws_partial_v_pages"}
WIDE |= {"depth512_sink-P4", "depth512_sink-d512", "d256_pack_gqa", "causal_mask-window100",
         "sink_weights-128", "1q_sink-96x608", "chunked_causal-256", "chunked-256",
         "2q_sink-320x832", "depth512_sink-fp8", "window_noncausal",
         "nonws_partial_v_pages"}  # fmt: skip
"""Other features and kernels with the same masks and sinks."""


def marks(case: Row) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.exhaustive,) if case.name in WIDE else ()


@pytest.mark.parametrize("given", [pytest.param(r, marks=marks(r), id=r.name) for r in ROWS])
def test_case(given: Row) -> None:
    dense = given.dense
    expected = {key: value for key, value in dense.options.items() if key != "num_splits"}
    exact = attention_float64(*(x.float() for x in dense.inputs), **expected)
    out = call(given.arguments).out
    assert not out.isnan().any()
    if given.cosine:
        assert cosine(out, exact.out) >= min(given.cosine, reachable_cosine(dense, exact.out))
        return
    # The gate's bf16 reference rounds as the kernel does; against float64 that rounding is granted.
    rounding = 2.0**-8 * exact.weight
    assert ((out - exact.out).abs() <= given.atol + given.rtol * exact.out.abs() + rounding).all()


def reachable_cosine(given: Arguments, exact: torch.Tensor) -> float:
    """Return the cosine that half as much error again as plain fp8 attention's leads to.

    Where all keys weigh alike, as in decoding random numbers, rounding every P to e4m3 alone leaves
    0.9997 to 0.9998: the gate was set with other data, and chance decides which side it falls.
    """
    if "window_size" in given.options:
        return 1.0
    return 1 - 1.5 * (1 - cosine(emulated(given), exact))


def test_sixteen_repetitions_are_the_same_bits() -> None:
    q, k, v = row("repeat", (32, 77), (2, 2)).dense.inputs
    first = fa4_cute.flash_attn(q, k, v, causal=True)
    for _ in range(15):
        assert torch.equal(fa4_cute.flash_attn(q, k, v, causal=True), first)


@pytest.mark.parametrize("head_dim", [64, 256])
def test_scale_0_gives_the_share_of_the_keys(head_dim: int) -> None:
    """With scale 0 all n keys and the sink share the mass: n / (n + exp(sink)) for the keys."""
    q, k, v = row("mass", (10, 90), (2, 1), head_dim).dense.inputs
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
