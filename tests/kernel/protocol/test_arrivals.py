"""Who arrives on which barrier how often: counted in a run, and held against the plan.

The PTX is extended: next to every arrival and commit, an atomic addition counts it in global memory
by CTA of the barrier, by arriving warp group, and by barrier.
"""

import re
from dataclasses import replace

import pytest
import torch

from fa4_cute.plan.barriers.barrier_spec import BarrierSpec
from fa4_cute.plan.facts.hardware import CTA_GROUP, MBARRIER_BYTES, SMEM_CAPACITY
from fa4_cute.plan.memory.depth512_smem import Depth512SMemLayout
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from testing.arguments import arguments
from testing.cases import Case, dense
from testing.runner import call, spec_of

WARP_GROUPS = 3
SMEM_BASE = 1024
"""Dynamic shared memory starts after what the system reserves."""
PLANE = SMEM_BASE + SMEM_CAPACITY
ARRIVAL = re.compile(r"(@leader )?(mbarrier\.arrive|tcgen05\.commit)[^;]*?\[(%r\d+)\][^;]*;")
WARP_GROUP_OF = {"softmax": 0, "correction": 1, "mma": 2, "load": 2}


def counted(ptx: str, counters: torch.Tensor) -> str:
    """Return ``ptx`` with an addition to ``counters`` at every arrival."""

    def with_count(match: re.Match[str]) -> str:
        guard, opcode, register = match[1] or "", match[2], match[3]
        lines = [
            ".reg .b64 counter, base;",
            ".reg .b32 offset, cta, group;",
            f"and.b32 offset, {register}, 0xFFFFFF;",
            f"shr.u32 cta, {register}, 24;",
            "mov.u32 group, %tid.x;",
            "shr.u32 group, group, 7;",
            f"mad.lo.u32 group, cta, {WARP_GROUPS}, group;",
            f"mad.lo.u32 offset, group, {PLANE}, offset;",
            "cvt.u64.u32 counter, offset;",
            f"mov.u64 base, {counters.data_ptr()};",
            "add.s64 counter, counter, base;",
            f"{guard}red.global.add.u32 [counter], 1;",
        ]
        if opcode == "tcgen05.commit":
            # A commit goes to both CTAs; the issuer is the leader.
            lines.append(f"{guard}red.global.add.u32 [counter + {WARP_GROUPS * PLANE}], 1;")
        return "{ " + " ".join(lines) + " }\n\t" + match[0]

    return ARRIVAL.sub(with_count, ptx)


def completions(spec: Depth512Spec, name: str, tiles: int, works: int) -> int:
    """Return how many phases of a fixed barrier the protocol completes in ``tiles`` key tiles.

    They are of ``works`` query tiles; in a plain persistent pair a row sum follows the factors of
    each.
    """
    if "even" in name:
        return (tiles + 1) // 2
    if "odd" in name:
        return tiles // 2
    if name in ("Q_read", "stored"):
        return works
    return tiles - works if name.startswith("C_") and not spec.correction_writes else tiles


def slot_uses(spec: Depth512Spec, slot: int, tiles: int) -> int:
    """Return how often ring slot ``slot`` is filled."""
    total, ring = tiles * spec.config.slots_per_tile, spec.config.num_kv_stages
    return (total - slot + ring - 1) // ring


def expected(
    spec: Depth512Spec, barrier: BarrierSpec, tiles: int, cta: int, works: int
) -> list[int]:
    """Return the arrivals per warp group on ``barrier`` of ``cta`` over a whole run."""
    by_group = [0] * WARP_GROUPS
    ring = re.match(r"KV_(full|empty)\[(\d+)\]", barrier.name)
    slot = int(ring[2]) if ring else None
    phases = slot_uses(spec, slot, tiles) if slot is not None else completions(
        spec, barrier.name, tiles, works
    )
    only_in_leader = any("both CTAs" in arrival.who for arrival in barrier.arrivals)
    only_in_leader |= bool(ring and ring[1] == "full")
    if cta == 1 and only_in_leader:
        return by_group
    for arrival in barrier.arrivals:
        by_group[WARP_GROUP_OF[arrival.who.split()[0]]] += arrival.count * phases
    return by_group


@pytest.mark.slow
@pytest.mark.parametrize("look_ahead", [True, False])
@pytest.mark.parametrize("head_dim", [256, 512])
@pytest.mark.parametrize("tiles", [1, 4])
def test_arrivals_are_those_of_the_plan(head_dim: int, look_ahead: bool, tiles: int) -> None:
    bn = 128 if head_dim == 256 else 256
    case = dense(100, tiles * bn - 3, head_dim)
    spec = spec_of(case)
    assert isinstance(spec, Depth512Spec)
    check_arrivals(case, replace(spec, look_ahead=look_ahead), tiles)


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [256, 512])
def test_arrivals_of_a_plain_persistent_pair_are_those_of_the_plan(head_dim: int) -> None:
    """One pair takes three query tiles."""
    bn, bm = (128, 256) if head_dim == 256 else (256, 128)
    case = replace(dense(3 * bm - 5, 3 * bn - 3, head_dim), features=frozenset({"persistent"}))
    spec = spec_of(case)
    assert isinstance(spec, Depth512Spec)
    assert spec.writes_rows
    check_arrivals(case, spec, tiles=9, works=3)


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [256, 512])
def test_arrivals_of_a_pair_by_stream_k_are_those_of_the_plan(head_dim: int) -> None:
    """One pair takes three query tiles, of which the softmax says that it has stored each."""
    bn = 128 if head_dim == 256 else 256
    case = replace(dense(100, 3 * bn - 3, head_dim, batch=3), features=frozenset({"stream_k"}))
    spec = spec_of(case)
    assert isinstance(spec, Depth512Spec)
    assert spec.writes_rows
    assert not spec.correction_writes
    check_arrivals(case, spec, tiles=9, works=3)


def check_arrivals(case: Case, spec: Depth512Spec, tiles: int, works: int = 1) -> None:
    """Run ``case`` on one pair of CTAs and compare all arrivals with the plan."""
    counters = torch.zeros(CTA_GROUP * WARP_GROUPS * PLANE // 4, dtype=torch.int32)
    given = arguments(case)
    call(
        given, spec=spec, num_sms=CTA_GROUP, rewrite=lambda ptx: counted(ptx, counters),
        more=(counters,),
    )  # fmt: skip
    found = counters.view(CTA_GROUP, WARP_GROUPS, -1)
    layout = Depth512SMemLayout(spec.config)
    first = (SMEM_BASE + layout.mbar_byte_offset) // 4
    step = MBARRIER_BYTES // 4
    barriers = found[:, :, first : first + step * spec.config.misc_mbars.size : step]
    assert barriers.sum() == counters.sum()
    for barrier in spec.config.misc_mbars.specs:
        for cta in range(CTA_GROUP):
            observed = barriers[cta, :, barrier.index].tolist()
            assert observed == expected(spec, barrier, tiles, cta, works), (barrier.name, cta)
