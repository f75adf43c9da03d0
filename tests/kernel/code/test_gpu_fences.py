"""Which kernels pay for memory barriers of the GPU's scope, and what for.

An H200 takes 145 to 269 cycles for each of these instructions
(``docs/timing_probes.md``, "Barriers of clusters, fences"), where the CTA's scope takes 9.
"""

from __future__ import annotations

import re

import pytest

from fa4_cute.host.compile.cache import compiled
from fa4_cute.plan.spec.combine_spec import CombineSpec
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.sm90_spec import SM90Spec
from testing.kernels import KERNELS

COSTLY = re.compile(
    r"^\s*(?:@\S+\s+)?(?P<what>"
    r"barrier\.cluster\.arrive(?!\.relaxed)|mbarrier\.arrive\S*\.release\.cluster|"
    r"fence\.proxy\.async(?=\s*;|\.shared::cluster)|fence\.(?:acq_rel|sc)\.(?:cluster|gpu|sys)|"
    r"membar\.(?:gl|sys)|atom\.(?:acq_rel|acquire|release)\.gpu|st\.release\.gpu)",
    re.M,
)
"""What compiles to ``MEMBAR`` of the GPU's scope, or a wider one."""
ATOMIC, BARRIER, FENCE = "atom.acq_rel.gpu", "barrier.cluster.arrive", "fence.proxy.async"
ARRIVAL = "mbarrier.arrive.release.cluster"


def expected(name: str) -> set[str]:
    """What a kernel needs: each hands memory over to threads, or MMAs, of another CTA."""
    spec = KERNELS[name]
    if isinstance(spec, CombineSpec):
        return set()
    config, variant, needs = spec.config, spec.variant, set[str]()
    in_pair = config.cta_group() == 2
    if not in_pair and spec.cluster_size > 1:
        needs |= {ARRIVAL, BARRIER}  # partial O of all CTAs, which any may still read at the end
    if variant.partial_values:
        needs |= {FENCE}  # zeros past the last key, in a pair in the peer's part of V, too
    if isinstance(spec, SM90Spec) and spec.config.q_rows < spec.query_rows:
        needs |= {FENCE}  # zeros in the place of queries that are not there
    if in_pair and variant.is_dynamic:
        needs |= {ARRIVAL}  # answers that were read
    if isinstance(spec, Depth512Spec) and not spec.config.p_in_tmem:
        needs |= {ARRIVAL}  # P
    if variant.last_joins:
        needs |= {ATOMIC}
    return needs


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_has_no_other_barriers_of_the_gpu_s_scope(name: str) -> None:
    found = [match["what"] for match in COSTLY.finditer(compiled(KERNELS[name]).ptx)]
    assert {*found} == expected(name)
    if BARRIER not in found:  # a pair: P's and the scheduler's, and none of each role
        assert found.count(ARRIVAL) <= 2
