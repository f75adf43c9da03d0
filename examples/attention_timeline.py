"""Name the roles and products of a profiled attention kernel after the kernel's own plan."""

from __future__ import annotations

from pathlib import Path

from fa4_cute.plan.memory.tmem import AttentionTmem, Depth512Tmem
from fa4_cute.plan.spec.attention_spec import AttentionSpec
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from sm100sim.timing.profile import KernelProfile
from sm100sim.timing.profile.views import write_timeline
from sm100sim.timing.records import Action, DynamicEvent


def meaning_of_columns(spec: AttentionSpec) -> dict[int, str]:
    """Return what an MMA computes, by the first Tensor Memory column it writes."""
    if isinstance(spec, Depth512Spec):
        tmem = Depth512Tmem.of(spec.config)
        return {
            region.start: f"{region.name} " + ("+= P V" if "O" in region.name[0] else "= Q K'")
            for region in tmem.regions
        }
    if not isinstance(spec, KernelSpec):
        return {}
    columns = AttentionTmem.of(spec.config)
    scores = {columns.s(chain).start: scores_of(spec, chain) for chain in range(2)}
    return {**scores, columns.o(0).start: "O0 += P0 V", columns.o(1).start: "O1 += P1 V"}


def scores_of(spec: KernelSpec, chain: int) -> str:
    """Return what scores a chain of MMAs makes: of which Q tile and, if dealt out, which keys."""
    order = spec.issue_order
    which = f" of key tiles {chain}, {chain + 2}, ..." if order.deals_out else ""
    return f"S{chain} = Q{order.query_tile(chain)} K'{which}"


def warps_of(spec: AttentionSpec) -> dict[str, range]:
    """Return the warps of each role that has something to do."""
    return {
        role.name: range(role.first_warp, role.first_warp + role.num_warps)
        for role in spec.schedule.roles
        if role.name != "idle"
    }


def draw_profile(found: KernelProfile, spec: AttentionSpec, path: Path, title: str) -> Path:
    """Write the predicted timeline of a profile; MMAs are named by what they compute.

    Args:
        found: of a launch of the kernel. spec: the kernel's. path: a file, as of `write_timeline`.

    Raises:
        ValueError: the profile is of another kernel, whose labels would be wrong.
    """
    if not found.kernel.startswith(spec.name):
        raise ValueError(f"found: a profile of {found.kernel}, and the labels are of {spec.name}")
    meaning = meaning_of_columns(spec)

    def label(event: DynamicEvent) -> str:
        if event.kind is Action.MMA:
            return meaning.get(event.address, f"MMA to column {event.address}")
        return "TMA load" if event.kind is Action.COPY_LOAD else "TMA store"

    return write_timeline(found, path, label=label, title=title)
