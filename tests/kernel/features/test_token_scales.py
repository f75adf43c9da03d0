"""Scales per token on the virtual SM100: right for any sign and tile, and never read too early.

With the features they go with: pages, packed keys, persistent CTAs, rope columns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

import fa4_cute
from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.plan.barriers.mbars import FA4MiscMBarsLayout
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.facts.hardware import SM90A, SM100A
from testing.arguments import Arguments, arguments
from testing.cases import BF16, Case, dense
from testing.runner import call, check, checked, spec_of
from testing.watchers import ONE_RANDOM, check_schedules, objections
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow


def tokens(*sizes: int, causal: bool = False, scheduler: str = "tile", **more: Any) -> Case:
    """Return a case of batch 2 with a scale for every token and head; some are negative."""
    plain = dense(*sizes, batch=2, causal=causal, **more)
    persistent = {"persistent"} if scheduler == "persistent" else set()
    return replace(plain, features=plain.features | persistent | {"tokens"})


mla = partial(tokens, head_dim=192, heads=2, kv_heads=2, head_dim_v=128)
CASES = [
    # packed heads
    tokens(300, 600, 128, 2, 1, causal=True),
    # pairs: several key tiles, both CTAs with queries; packed heads
    tokens(600, 700, 128, 2, 1, causal=True, pair_cta=True),
    tokens(200, 700, 256, 2, 1, causal=True),
    # scores with rope columns, of a type of their own and not, are scaled as a whole
    mla(150, 600, rope=BF16, scheduler="persistent"),
]
MORE = [
    # one Q tile, one query
    tokens(100, 900, 64, 3, 1, num_qo=1),
    tokens(1, 300, 80, 8, 1, causal=True, num_qo=1),
    tokens(70, 900, 512, 2, 1),
    mla(150, 600, num_qo=1),
    mla(600, 600, rope=BF16, pair_cta=True),
    tokens(300, 1100, 128, 2, 1, causal=True, num_qo=1),
    tokens(200, 500, 192, 4, 2, causal=True),
    tokens(100, 1, 16),
    tokens(1, 300, 80, 8, 1, causal=True, pair_cta=True),
    tokens(1, 300, 208, 8, 1, causal=True),
    mla(150, 600, num_qo=1, rope=BF16),
    mla(150, 600, num_qo=1, scheduler="persistent"),
    mla(150, 600),
    mla(600, 600, pair_cta=True, rope=BF16, scheduler="persistent"),
    mla(600, 600, pair_cta=True),
]


@pytest.mark.parametrize(
    "case",
    [*CASES, *also(*MORE)],
    ids=str,
)
def test_scores_are_scaled_by_row_and_key(case: Case) -> None:
    given = arguments(case)
    given.options["q_scale"][-1, -1, -1] = 0.0
    checked(check_schedules(given, schedules=({"mode": "late"}, ONE_RANDOM)))


def test_one_operand_may_have_one_scale() -> None:
    given = arguments(CASES[0])
    given.options |= {"k_scale": 0.5, "v_scale": 3.0}
    checked(call(given))


def findings(spec: Any, given: Arguments) -> list[str]:
    """What the checkers say of ``spec`` as it is compiled now, with a fault in it."""
    return objections(given, artifact=compile_kernel(spec))


def test_a_slot_that_only_the_mma_frees_is_overwritten_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = tokens(300, 1100, 128, 2, 1, causal=True)
    given, spec = arguments(case), spec_of(case)
    assert spec.config.num_kv_stages * spec.config.BN < 1100, "slots are used again"
    assert not objections(given)
    barriers = vars(FA4Config)["misc_mbars"].func

    def without_readers(config: FA4Config) -> FA4MiscMBarsLayout:
        mbars: FA4MiscMBarsLayout = replace(barriers(config), num_scale_readers=0)
        return mbars

    monkeypatch.setattr(FA4Config, "misc_mbars", property(without_readers))
    monkeypatch.setattr("fa4_cute.roles.softmax.release_scales", lambda ctx, tile: None)
    assert findings(spec, given)


TOGETHER = (
    ("one Q tile", "page256 ragged split"),
    # three loads for every score: few columns at a time
    ("two Q tiles", "persistent function"),
)
MORE_TOGETHER = (
    ("two Q tiles per CTA of a pair", "ragged page16 causal"),
    ("CTA pair", "ragged page64 causal"),
    ("two Q tiles", "persistent ragged cache"),
    ("CTA pair", "persistent function"),
    ("two Q tiles", "ragged page16 causal"),
    ("two Q tiles", "page256 bias softcap"),
    ("one Q tile", "ragged window"),
    ("two Q tiles per CTA of a pair", "cache split union"),
    ("CTA pair", "ragged sink"),
    ("CTA pair", "page256 ragged union"),
    ("one Q tile", "persistent function"),
    ("two Q tiles per CTA of a pair", "persistent function"),
)


@pytest.mark.parametrize(
    ("kernel", "names"),
    [*TOGETHER, *also(*MORE_TOGETHER)],
)
def test_they_go_with_the_features(kernel: str, names: str) -> None:
    """Groups of two heads are packed into rows; scales of rows that do not count are NaN."""
    check(Case.of({"tokens", *names.split()}, kernel))


PAIRS = pytest.mark.parametrize(
    ("head_dim", "roles"),
    [
        (128, "fa4_cute.roles."),
        *also((256, "fa4_cute.roles.depth512_")),
    ],
)


def pair_call(head_dim: int) -> tuple[Any, Arguments]:
    """A CTA pair with more key tiles than buffers: its specification, and the call."""
    case = tokens(400, 900, head_dim, pair_cta=head_dim == 128)
    return spec_of(case), arguments(case)


@PAIRS
def test_a_pair_reads_scales_that_have_arrived(
    monkeypatch: pytest.MonkeyPatch, head_dim: int, roles: str
) -> None:
    spec, given = pair_call(head_dim)
    assert not objections(given)

    def at_once(ctx: Any, line: Any, tile: Any, first: Any = 0) -> Any:
        slot = token_scales.buffer_of(ctx, tile, producer=False).index
        keys = token_scales.scale_buffer(ctx, slot) + first * 4
        return token_scales.TileScales(keys, token_scales.query_scale_address(ctx, line))

    from fa4_cute.operands import token_scales

    monkeypatch.setattr(f"{roles}softmax.wait_for_scales", at_once)
    assert findings(spec, given)


@PAIRS
def test_a_pair_keeps_scales_until_they_have_been_read(
    monkeypatch: pytest.MonkeyPatch, head_dim: int, roles: str
) -> None:
    spec, given = pair_call(head_dim)

    def at_once(ctx: Any, tile: Any) -> None:
        slot = token_scales.buffer_of(ctx, tile, producer=True).index
        arrived = spec.config.misc_mbars.scale_ring.producer_mbar(slot)
        ctx.barriers.expect(arrived, ctx.smem.layout.k_scale_stride_bytes)
        token_scales.load_key_scales(ctx, slot, tile, ctx.barriers.address_of(arrived))

    from fa4_cute.operands import token_scales

    monkeypatch.setattr(f"{roles}load.fill_scale_buffer", at_once)
    assert findings(spec, given)


@pytest.mark.parametrize("arch", [SM100A, SM90A])
@pytest.mark.parametrize("page", [0, 64])
def test_scales_of_places_without_a_token_say_nothing(page: int, arch: str) -> None:
    """What lies behind the end of a sequence may be 0 or NaN, as in a cache that nobody filled.

    Scores that are capped together share a reciprocal, so none of them may be NaN before.
    """
    torch.manual_seed(0)
    q, k, v = (torch.randn(n, h, 64).to(torch.float8_e4m3fn) for n, h in ((3, 4), (64, 1), (64, 1)))
    more: dict[str, Any] = {"cu_seqlens_k": torch.tensor([0, 5], dtype=torch.int32)}
    if page:
        k, v = k[None], v[None]
        more = {"seqused_k": torch.tensor([5], dtype=torch.int32),
                "page_table": torch.zeros(1, 1, dtype=torch.int32)}  # fmt: skip
    else:
        more["max_seqlen_k"] = 5
    keys, values = (x.reshape(64, 64)[:5].double() for x in (k, v))
    for softcap in (3.0, None):
        found = []
        for behind in (1.0, 0.0, float("nan")):
            scales = torch.full((64, 1), 0.75)
            scales[5:] = behind
            out = fa4_cute.flash_attn_varlen(
                q, k, v, cu_seqlens_q=torch.tensor([0, 3], dtype=torch.int32), max_seqlen_q=3,
                q_scale=torch.ones(3, 4), k_scale=scales[None] if page else scales, arch=arch,
                softcap=softcap, **more,
            )  # fmt: skip
            found.append(out)
        scores = torch.einsum("qhd,kd->hqk", q.double(), keys) * 0.75 / 8
        scores = softcap * (scores / softcap).tanh() if softcap else scores
        exact = (scores.softmax(-1) @ values).transpose(0, 1)
        torch.testing.assert_close(found[0].double(), exact, atol=0.05, rtol=0.05)
        assert torch.equal(found[0], found[1])
        assert torch.equal(found[0], found[2])
