"""Every kernel on the virtual SM100 against float64: dtypes, head dims, masks, lengths.

With one Q tile key tiles alternate between two accumulators, so every number of tiles from none to
several matters, odd and even, and rows that see keys in one chain only.
"""

import math
from functools import partial
from typing import Any

import pytest
import torch

from fa4_cute.plan.launch import tiles
from testing.arguments import arguments
from testing.cases import FP16, Case, dense
from testing.reference.attention import attention_float64
from testing.runner import call, check, checked
from tests.kernel.random_cases import also

one_q, pair_cta = partial(dense, num_qo=1), partial(dense, pair_cta=True)
FEW = [
    # several tiles, ragged ends, more queries than keys, decode, one key
    dense(300, 700, 128, causal=True),
    dense(1000, 1, 128, causal=True),
    dense(1, 1000, 128, causal=True),
    # grouped heads packed into rows, and a group that cannot be packed
    dense(77, 133, 64, 8, 2, batch=2, causal=True),
    dense(257, 129, 72, 6, 2, causal=True, dtype=FP16),
    # narrow key tiles
    dense(333, 444, 192, causal=True),
    # one Q tile: 1, 2, 3, 4 and 5 key tiles of 128 keys, whole and ragged, and one key
    *(one_q(128, keys, 128) for keys in (1, 128, 256, 300, 511, 640)),
    # two CTAs: several tiles of both, a peer without a query, one key, blind rows
    pair_cta(1100, 900, 128, causal=True),
    pair_cta(200, 700, 128, causal=True),
    pair_cta(600, 77, 128, causal=True),
    # above 192: several tiles, decode; the rows of the second CTA all lie past the end
    dense(300, 700, 256, causal=True),
    dense(1, 1100, 256, causal=True),
    dense(300, 1100, 512, causal=True),
    dense(133, 77, 512, causal=True),
    dense(60, 300, 512),
]
MORE = [
    dense(133, 77, 128, 4, 4, batch=2, causal=True),
    dense(400, 600, 64, causal=True),
    # padded head dimension
    dense(100, 200, 8),
    # decode and short prompts; more than one tile of queries
    one_q(1, 1100, 128, causal=True),
    one_q(300, 700, 128, causal=True),
    # narrow key tiles in a shared ring of K and V; two depth parts
    *(one_q(64, keys, 192) for keys in (64, 100, 192, 256, 1100)),
    # padded depth, packed heads
    pair_cta(133, 277, 128, 8, 2, batch=2, causal=True),
    # depth parts with padding
    dense(100, 300, 200, causal=True),
]
WIDE = [
    pair_cta(300, 400, 72, causal=True),
    # depth parts that are nothing else
    dense(200, 600, 384, causal=True),
    dense(77, 300, 512, 8, 1, batch=2, causal=True, dtype=FP16),
    dense(256, 256, 128),
    dense(1, 1, 128),
    dense(300, 700, 128),
    dense(400, 600, 64),
    dense(133, 77, 64, 8, 2, batch=2, causal=True),
    dense(100, 300, 192, dtype=FP16),
    dense(200, 300, 88, causal=True),
    one_q(1, 1000, 64, 16, 2, batch=2, causal=True),
    one_q(11, 500, 64, 8, 1, causal=True),
    one_q(77, 450, 72, 6, 2, causal=True, dtype=FP16),
    one_q(128, 333, 192, 4, 1, causal=True, dtype=FP16),
    pair_cta(512, 128, 128),
    pair_cta(1, 1, 128),
    pair_cta(100, 300, 96, 3, 1, causal=True, dtype=FP16),
    dense(100, 300, 264, dtype=FP16),
    dense(256, 128, 256),
    dense(133, 300, 256, 6, 2, batch=2, causal=True, dtype=FP16),
    dense(77, 133, 256, 8, 2, batch=2, causal=True),
]
KINDS = ({"heads": 1}, {"heads": 2, "causal": True, "dtype": FP16}, {"heads": 3, "causal": True})
"""By turns full, causal with packed heads, and causal with heads apart."""
EVERY_HEAD_DIM = [
    *(dense(300, 444, d, **KINDS[d // 8 % 3]) for d in (*range(8, 129, 8), 192)),
    *(one_q(11, 900, d, **KINDS[(d // 8 + 1) % 3]) for d in (*range(8, 129, 8), 136, 160, 192)),
    *(dense(70, 300, d, **KINDS[d // 8 % 3]) for d in range(200, 513, 8)),
]


QUICK = {case.name for case in (dense(300, 700, 128, causal=True), one_q(128, 300, 128),
         pair_cta(200, 700, 128, causal=True), dense(1, 1100, 256, causal=True))}  # fmt: skip
"""One call for each of the four kernels."""


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=() if c.name in QUICK else pytest.mark.slow) for c in FEW],
    ids=str,
)
def test_output_and_lse(case: Case) -> None:
    check(case)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [*MORE, *also(*WIDE)], ids=str
)
def test_output_and_lse_of_other_shapes(case: Case) -> None:
    check(case)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", EVERY_HEAD_DIM, ids=str)
def test_every_head_dim(case: Case) -> None:
    check(case)


KERNELS: dict[str, dict[str, Any]] = {
    "2q d64": {"head_dim": 64},
    "2q d128": {"head_dim": 128},
    "1q d128": {"head_dim": 128, "num_qo": 1},
    "pair_cta d128": {"head_dim": 128, "pair_cta": True},
    "d256": {"head_dim": 256},
    "d512": {"head_dim": 512},
}
kernels = pytest.mark.parametrize("kernel", KERNELS)


@pytest.mark.slow
@kernels
@pytest.mark.parametrize("scale", [-0.3, 0.0, 1e-30, 5.0])
def test_any_finite_scale(kernel: str, scale: float) -> None:
    check(dense(200, 600, causal=True, softmax_scale=scale, **KERNELS[kernel]))


@pytest.mark.slow
@kernels
def test_maxima_that_grow_from_tile_to_tile(kernel: str) -> None:
    """Keys grow along the sequence, so that O is rescaled again and again."""
    given = arguments(dense(200, 1100, causal=True, **KERNELS[kernel]))
    growing = torch.linspace(0.1, 20, given.k.shape[1])[None, :, None, None]
    given.k = (given.k * growing).to(given.k.dtype)
    checked(call(given))


@pytest.mark.slow
@pytest.mark.parametrize("loud", [0, 1, 2])
def test_chains_with_maxima_far_apart(loud: int) -> None:
    """Scores of one key tile dwarf all others: its chain decides, and the other vanishes."""
    given = arguments(one_q(100, 333, 128))
    given.k[:, 128 * loud : 128 * (loud + 1)] *= 40
    checked(call(given))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["2q d64", "d256"])
def test_strided_operands(kernel: str) -> None:
    """q, k and v may be slices of one projection, with any batch, row and head strides."""
    given = arguments(
        dense(150, 150, heads=3, kv_heads=3, batch=2, causal=True, **KERNELS[kernel])
    )
    packed = torch.stack(given.inputs, 2)
    given.q, k, given.v = (packed[:, :, i] for i in range(3))
    given.k = k.transpose(1, 2).contiguous().transpose(1, 2)
    checked(call(given))


@pytest.mark.slow
@kernels
@pytest.mark.parametrize("where", [450, 560])
def test_not_a_number_spreads_as_in_exact_attention(kernel: str, where: int) -> None:
    """From either chain, and to the thread that holds the other keys of a row."""
    given = arguments(dense(200, 600, causal=True, **KERNELS[kernel]))
    given.k[0, where] = math.nan
    outcome = call(given)
    exact = attention_float64(*given.inputs, **given.options).out
    seen = torch.arange(200) + 400 >= where
    assert torch.isnan(outcome.out[0, seen]).all()
    assert torch.isnan(outcome.lse[0, 0, seen]).all()
    clear = outcome.out[0, ~seen]
    torch.testing.assert_close(clear.double(), exact[0, ~seen], atol=2e-2, rtol=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [dense(300, 300, 256, 4, 2, batch=2, causal=True), pair_cta(600, 300, 128, 3, 3, causal=True),
     *also(dense(300, 300, 512, 3, 3, batch=2, causal=True))],
    ids=str,
)  # fmt: skip
def test_the_bits_of_pairs_do_not_depend_on_sections(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One section of all heads, or one for each; the clusters of a query tile stay together."""
    whole = check(case, scheduler="tile").results
    monkeypatch.setattr(tiles, "SECTION_BYTES", 1)
    assert all(map(torch.equal, check(case, scheduler="tile").results, whole))


@pytest.mark.slow
def test_the_pair_computes_what_one_cta_does() -> None:
    """Same tiles, same order of additions: the results are the same bit by bit."""
    given = arguments(dense(600, 700, 128, causal=True))
    alone = call(given)
    given.options |= {"pair_cta": True, "num_qo": None}
    for x, y in zip(alone.results, call(given).results, strict=True):
        assert torch.equal(x, y)
