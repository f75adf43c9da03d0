"""A profile in text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from ..records import SECTOR_BYTES
from .comparison import Comparison, Difference, Pair
from .handovers import Handover
from .held import ratio_with_error, with_error
from .kernel_profile import KernelProfile
from .roles import Role
from .spots import Spot

LEAST: Final = 0.02
"""Part of a role's time from which a reason is named by itself."""
JOBS: Final = 2
"""What a role does, in a text; the document has all."""
LONGEST: Final = 70
"""Characters of a kernel's name."""
PREDICTED: Final = "predicted cycles (sm100sim.timing; nothing was measured on this chip)"

MEANINGS: Final[Mapping[str, str]] = {
    "issued": "issues",
    "stall": "stall count of its control code",
    "branch": "a taken branch",
    "fetch": "instruction cache",
    "mbarrier": "mbarrier",
    "named barrier": "named barrier",
    "cluster barrier": "barrier of the cluster",
    "tensor": "registers of an MMA",
    "tmem": "Tensor Memory",
    "shared": "shared memory",
    "global": "global memory",
    "mufu": "result of MUFU",
    "copy": "its own copies",
    "other result": "another scoreboard",
    "blocked": "fence or register count",
    "pipe": "a full pipe",
    "queue": "a full queue",
    "not selected": "issue slot",
}
"""Reason for waiting -> what it is called in a text."""


def profile_text(found: KernelProfile, most: int = 10) -> str:
    """Return a profile for people.

    Args:
        found: the profile.
        most: hot spots of each kind, and lines of the critical path.
    """
    lines = [*_head(found), *_uses(found), *_roles(found.roles), *_path(found, most)]
    for title, spots in (
        ("source lines by time of all warps together", found.source),
        ("lines of PTX by time of all warps together", found.ptx),
        ("instructions by time of all warps together", found.sass),
        ("lines of PTX on the critical path", found.path_spots),
    ):
        if spots:
            lines.append(f"  {title}:")
            lines += [f"    {spot_text(spot)}" for spot in spots[:most]]
    return "\n".join(lines)


def short(name: str) -> str:
    """Return a kernel's name, the middle of a long one left out."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 12]}...{name[-9:]}"


def _head(found: KernelProfile) -> list[str]:
    band, occupancy = found.band, found.occupancy
    alike = f", {found.launches} launches alike" if found.launches > 1 else ""
    limit = f"limited by {found.limit}" if found.limit != "latency" else (
        "no resource is near its peak: limited by latency"
    )  # fmt: skip
    several = f", {found.copies} on each SM at once" if found.copies > 1 else ""
    waves = "once" if found.waves == 1 else f"{found.waves} times"
    if found.taken:
        waves += f", and its clusters take over {found.taken:,} others"
    waves += "; nothing is in the L2 before it" if found.cold else "; the L2 has what it reads"
    launch = []
    error = with_error(found.cycles, band, found.chip, multiplies=found.multiplies)
    if found.launch is not None:
        band_of = found.launch.band
        typical = found.launch.typical.cycles
        error = with_error(typical, band_of, found.chip, multiplies=found.multiplies)
        launch = [
            f"  the launch takes {band_of.median:,.0f} ({band_of.low:,.0f} to {band_of.high:,.0f}) "
            f"cycles, {found.launch.microseconds:,.1f} us at {found.launch.clock_mhz:,.0f} MHz"
        ]
    return [
        f"{short(found.kernel)} on {found.chip}, ptxas {found.compiler or 'of unknown version'}, "
        f"grid {found.grid}, cluster {found.cluster}, block {found.block}{alike}",
        f"  a cluster takes {band.median:,.0f} ({band.low:,.0f} to {band.high:,.0f}) {PREDICTED}; "
        f"the launch fills the chip {waves}",
        *launch,
        *(f"  {line}" for line in error),
        f"  with the chip's own values {found.cycles:,.0f}, of which all that follows speaks; "
        f"{limit}{several}",
        f"  occupancy: {occupancy.ctas} CTAs, {occupancy.warps} of {occupancy.places} warps an SM; "
        f"bound by {occupancy.bound_by} ({occupancy.registers} registers a thread, "
        f"{occupancy.shared_bytes:,} bytes of shared memory)",
        *(f"  not certain: {doubt}" for doubt in found.doubts),
    ]


def _uses(found: KernelProfile) -> list[str]:
    lines = ["  achieved over peak:"]
    for use in found.uses:
        more = f", fullest sub-partition {use.fullest:.1%}" if use.fullest > use.share else ""
        needed = f", {found.arithmetic:.1%} arithmetic" if use.name == "tensor" else ""
        lines.append(f"    {use.name:16}{use.share:6.1%}{more}{needed}")
    asked, answered = found.detail.l1
    if asked:
        lines.append(
            f"  of {SECTOR_BYTES * asked:,} bytes that loads of lanes ask for the L1 has "
            f"{answered / asked:.1%}"
        )
    return lines


def _roles(roles: Sequence[Role]) -> list[str]:
    lines = ["  roles (warps of the same code and what they do), and what their time goes to:"]
    for role in roles:
        jobs = (*role.jobs[:JOBS], *(["..."] if len(role.jobs) > JOBS else []))
        lines.append(f"    {role.name} ({', '.join(jobs)}): {role_text(role)}")
    return lines


def role_text(role: Role) -> str:
    """Return a role's time per warp and its parts, e.g. "85,700 a warp: mbarrier 35 %, ..."."""
    ordered = sorted(role.waits.items(), key=lambda item: -item[1])
    named = [(why, spent) for why, spent in ordered if spent / role.cycles >= LEAST]
    rest = role.cycles - sum(spent for _, spent in named)
    parts = [f"{MEANINGS[why]} {spent / role.cycles:.0%}" for why, spent in named]
    parts += [f"the rest {rest / role.cycles:.0%}"] if rest else []
    return f"{role.cycles / len(role.members):,.0f} a warp: {', '.join(parts)}"


def _path(found: KernelProfile, most: int) -> list[str]:
    lines = [f"  critical path of {found.cycles:,.0f} cycles:"]
    for step in found.steps[:most]:
        what = MEANINGS.get(step.what, step.what)
        share = step.cycles / found.cycles
        lines.append(f"    {share:6.1%} {step.who}, {what}: {step.cycles:,.0f} in {step.times:,}")
    if found.handovers:
        lines.append("  where it goes from one warp to another, or through a unit:")
        lines += [f"    {handover_text(one)}" for one in found.handovers[: most // 2 + 1]]
    return lines


def handover_text(one: Handover) -> str:
    """Return a handover in two lines."""
    through = MEANINGS.get(one.through, one.through)
    return (
        f"{one.times:,} times, {one.cycles:,.0f} cycles: {one.giver} to {one.taker} by "
        f"{through}\n        gives: {one.given}\n        waits: {one.taken}"
    )


def spot_text(spot: Spot) -> str:
    """Return a hot spot in a line."""
    meaning = MEANINGS.get(spot.reason, spot.reason)
    reason = "" if spot.reason == "issued" else f", most for {meaning}"
    return f"{spot.cycles:,.0f} in {spot.executed:,} issues{reason}: {spot.place}"


def comparison_text(found: Comparison, most: int = 10) -> str:
    """Return a comparison for people.

    Args:
        found: the comparison.
        most: differences of each kind.
    """
    first, second = found.first, found.second
    lines = [
        f"{short(first.kernel)}, ptxas {first.compiler}, over {short(second.kernel)}, "
        f"ptxas {second.compiler}, on {first.chip}:",
        f"  {found.ratio.median:.3f} ({found.ratio.low:.3f} to {found.ratio.high:.3f}) of the "
        f"{PREDICTED}, draw by draw; with the chip's own values {found.cycles[0]:,.0f} and "
        f"{found.cycles[1]:,.0f} of an SM for the same work",
        f"  {ratio_with_error(found.cycles[0] / found.cycles[1], first.chip)}",
        f"  limited by {first.limit} and by {second.limit}",
        *_pairs(found.pairs),
    ]
    for title, differences in (
        ("busy cycles of resources", found.resources),
        ("cycles of the critical path", [_in_words(one) for one in found.path]),
        ("cycles of a warp, by role and reason", [_in_words(one) for one in found.roles]),
    ):
        lines.append(f"  {title}, {'the largest' if differences else 'no'} differences:")
        lines += [f"    {difference_text(one, found.cycles[1])}" for one in differences[:most]]
    return "\n".join(lines)


def _in_words(one: Difference) -> Difference:
    """A difference of paths or roles ("producer: mufu") with the reason as profiles call it."""
    of, mark, reason = one.what.rpartition(": ")
    return replace(one, what=f"{of}{mark}{MEANINGS.get(reason, reason)}")


def _pairs(pairs: Sequence[Pair]) -> list[str]:
    """Which roles are held against each other, and which stand alone."""
    lines = ["  roles that do the same, or are named alike:"]
    both = [pair for pair in pairs if pair.first and pair.second]
    lines += [f"    {pair.name}" for pair in both] or ["    none"]
    for side, alone in (
        ("first", [pair for pair in pairs if not pair.second]),
        ("second", [pair for pair in pairs if not pair.first]),
    ):
        if alone:
            names = ", ".join(pair.name for pair in alone)
            lines.append(f"  roles of the {side} that nothing is held against: {names}")
    return lines


def difference_text(one: Difference, whole: float) -> str:
    """Return a difference in a line; `whole`: the cycles of which it is a part."""
    why = f" ({one.why})" if one.why else ""
    return f"{one.cycles / whole:+.1%} {one.what}: {one.first:,.0f} and {one.second:,.0f}{why}"


KernelProfile.as_text = profile_text
Comparison.as_text = comparison_text
