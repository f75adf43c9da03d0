"""Chains that end apart: where the first Q tile leaves out its hidden last key tile.

And windows, where the second leaves out its hidden first one as well, and chain 1 leads.

The usual cases have head dim 64 and a CTA for each query tile, whose chains end together; here are
masks, lengths and schedulers beside the deeper heads, and query tiles that run on beside all.
"""

from __future__ import annotations

from typing import Any

import pytest

from fa4_cute.plan.spec.kernel_spec import KernelSpec
from testing.arguments import arguments
from testing.cases import FP8, FP16, Case
from testing.runner import checked, spec_of
from testing.watchers import ONE_RANDOM, check_schedules
from tests.kernel.random_cases import also

pytestmark = pytest.mark.slow

LENGTHS = ((300, 500), (0, 20), (40, 90), (257, 640))


def apart(features: str, head_dim: int = 128, **more: Any) -> Case:
    """Return a case of two Q tiles; the second has rows in most of its sequences."""
    given = {"heads": 2, "kv_heads": 1, "lengths": LENGTHS, "sharpness": 2.0, "num_qo": 2, **more}
    return Case(frozenset(features.split()), head_dim, **given)


def square(features: str, queries: int, keys: int, **more: Any) -> Case:
    """Return a case with one sequence of one head."""
    return apart(features, heads=1, lengths=((queries, keys),), **more)


def window(left: int, right: int = 0, features: str = "", head_dim: int = 128, **more: Any) -> Case:
    """Return a case of several query tiles with a window of other sides than usual."""
    lengths = more.pop("lengths", ((600, 900),))
    return apart(f"window {features}", head_dim, window=(left, right), lengths=lengths, **more)


CASES = (
    apart("causal ragged persistent"),
    apart("window ragged", 96),
    apart("union ragged", 192, head_dim_v=128),
    apart("causal page64 split", dtype=FP16),
    apart("causal ragged dynamic", 64),
    apart("causal ragged persistent", dtype=FP8),
    # Two load warps and a ring of three slots: no chain leads.
    apart("window page16 ragged softcap dynamic", 192, head_dim_v=128, heads=4, kv_heads=4,
          window=(127, 0), lengths=((257, 300), (600, 900), (257, 900))),
)
MORE = (
    apart("causal ragged split"),
    apart("causal ragged dynamic", dtype=FP16),
    apart("chunked ragged"),
    apart("union ragged persistent"),
    apart("window page16 persistent"),
    apart("causal window ragged"),
    apart("causal cache sink"),
    apart("causal ragged softcap"),
    apart("causal ragged function persistent"),
    apart("causal ragged padding alibi"),
    apart("causal page256", 192, head_dim_v=128),
    apart("causal ragged persistent", 192, head_dim_v=128),
    apart("window ragged split", 192, head_dim_v=128, dtype=FP16),
    apart("causal rope ragged", 128, kv_heads=1, heads=4),
    apart("causal ragged", 96, heads=6, kv_heads=2),
    # where the softmax is the limit, and query tiles run on
    apart("causal ragged persistent", 64, dtype=FP16),
    apart("union ragged dynamic", 64, heads=6, kv_heads=2),
    apart("causal page16 dynamic", 64),
    apart("causal ragged softcap persistent", 64),
    apart("chunked ragged dynamic", 96, dtype=FP8),
    apart("causal page32 dynamic", 128, dtype=FP8),
    apart("causal ragged dynamic", 192, head_dim_v=128, dtype=FP8),
    apart("causal ragged alibi persistent", 64, dtype=FP8),
    # a lone key tile; the last one a key longer, a key shorter; blind rows; hidden from no one
    *(square("causal", 256, keys) for keys in (100, 128, 129, 255, 256, 257, 384, 1000)),
    *(square("causal", queries, 300) for queries in (1, 128, 129, 255, 400, 700)),
    *(square("window", 512, keys) for keys in (383, 512, 700)),
)


RAGGED = ((600, 900), (0, 20), (257, 640), (40, 90))
WINDOWS = (
    window(127),
    window(300, features="ragged page16", lengths=RAGGED),
    window(200, features="persistent"),
    window(127, features="ragged dynamic", head_dim=64, lengths=RAGGED),
    window(300, features="ragged persistent", lengths=RAGGED, dtype=FP8),
    window(128, 5, "split ragged", 192, head_dim_v=128, lengths=RAGGED),
)
MORE_WINDOWS = (
    # its own key alone; a tile; a tile and a key; several
    *(window(left, lengths=((512, 512),), heads=1) for left in (0, 1, 126, 128, 129, 255, 511)),
    *(window(200, right, heads=1) for right in (1, 127, 128, 200)),
    *(window(255, lengths=((600, keys),), heads=1) for keys in (300, 600, 601, 727, 728, 999)),
    window(127, head_dim=96),
    window(383, head_dim=72, heads=6),
    window(127, features="ragged sink", lengths=RAGGED),
    window(250, features="ragged softcap alibi", lengths=RAGGED),
    window(250, features="cache padding", lengths=RAGGED, dtype=FP16),
    window(127, features="split", lengths=((600, 1700),)),
    window(500, features="split page64", lengths=((600, 1700),)),
    window(127, features="ragged dynamic", lengths=RAGGED),
    window(127, features="ragged dynamic page16 sink", lengths=RAGGED, dtype=FP16),
    window(300, features="persistent", lengths=((600, 600),), head_dim=96),
    window(300, features="persistent", head_dim=192, head_dim_v=128),
    window(127, features="persistent", lengths=((1100, 1100),), heads=1),
    window(127, features="ragged persistent function", lengths=RAGGED),
    window(127, features="ragged persistent page16 split", lengths=RAGGED),
    window(300, features="rope ragged", lengths=RAGGED, kv_heads=1, heads=4),
    window(127, features="rope persistent", kv_heads=1, heads=4),
    window(127, heads=8, kv_heads=1),
    window(200, 1, "ragged persistent", 64, lengths=RAGGED, dtype=FP8),
    window(255, features="persistent sink", head_dim=64, lengths=((1100, 1100),), heads=1),
    window(127, features="page16 dynamic", lengths=RAGGED, head_dim=64, dtype=FP8),
    window(383, features="ragged dynamic", head_dim=192, head_dim_v=128, dtype=FP8, lengths=RAGGED),
    window(127, 3, "causal ragged", 192, head_dim_v=128, lengths=RAGGED),
)


@pytest.mark.parametrize("case", [*WINDOWS, *also(*MORE_WINDOWS)], ids=str)
def test_results_are_right_where_the_second_chain_leads(case: Case) -> None:
    spec = spec_of(case)
    assert isinstance(spec, KernelSpec)
    assert spec.second_starts_late
    schedules = ({"mode": "late"}, ONE_RANDOM)
    checked(check_schedules(arguments(case), schedules=schedules))


@pytest.mark.parametrize("case", [*CASES, *also(*MORE)], ids=str)
def test_results_are_right_in_every_schedule(case: Case) -> None:
    spec = spec_of(case)
    assert isinstance(spec, KernelSpec)
    assert spec.first_ends_early
    schedules = ({"mode": "late"}, ONE_RANDOM)
    checked(check_schedules(arguments(case), schedules=schedules))
