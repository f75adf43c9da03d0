"""Profiles of this package's d128 kernel and of FlashAttention-4's, and where they differ.

    CUTE_DSL_ARCH=sm_100a python -m benchmarks.timing.profiles docs/profile_d128.md

One CTA of either on a B200: 256 query rows, 32 key tiles, bf16, no mask. No GPU is needed.
"""

from __future__ import annotations

import hashlib
import re
import sys
from typing import Final

import sm100sim
from benchmarks.hopper.times.problems import Problem
from benchmarks.timing.blackwell import HEADS, ONE_TILE
from sm100sim.timing.profile import Comparison, KernelProfile, compare, profile_launch, profile_text
from sm100sim.timing.profile.comparison import Difference
from sm100sim.timing.profile.text import MEANINGS
from testing.site.target import target

CHIP, SMS, DRAWS = "b200", 148, 12
KEYS, TILE = 4096, 128
ROLES: Final = {
    "fa4_cute": {"softmax": range(8), "correction": range(8, 12), "MMA": [12], "load": [13]},
    "FA4": {"softmax": range(8), "correction": range(8, 12), "MMA": [12], "load": [14],
            "store": [13]},
}  # fmt: skip
"""Warps of either kernel; those that are not named have nothing to do in these problems."""
NAMES: Final = {"fa4_cute": "This package", "FA4": "FlashAttention-4"}
OURS: Final = "2q d128"
"""This package's kernel in `testing.kernels`."""
EXPLAINED: Final = 3
LONGEST: Final = 132
"""Characters of a line of a profile; PTX statements are cut there."""


FOLDERS: Final = re.compile(r"/\S*/site-packages/")


def _cut(text: str) -> str:
    """A profile without the folders of this machine, and with lines of some length."""
    words = (" ".join(FOLDERS.sub("", line).split("\t")) for line in text.splitlines())
    return "\n".join(w if len(w) <= LONGEST else f"{w[: LONGEST - 3]}..." for w in words)


def profiled(runner: str, tracer: object) -> KernelProfile:
    """The profile of one kernel."""
    from benchmarks.timing.attention_traces import Tracer

    assert isinstance(tracer, Tracer)
    launch = tracer.of(runner, Problem("full", 1, KEYS, KEYS, HEADS, HEADS, 128, 128))
    return profile_launch(
        launch, CHIP, ptx=tracer.ptx[runner], roles=ROLES[runner], draws=DRAWS, most=6
    )


def page(ours: KernelProfile, theirs: KernelProfile, digest: str) -> str:
    """The whole page; `digest`: of the PTX of this package's kernel."""
    ctas = tuple(one.cluster[0] for one in (ours, theirs))
    found = compare(ours, theirs, work=(ctas[0], ctas[1]))
    tiles = KEYS // TILE
    lines = [
        "# A profile: d128 on a B200, and FlashAttention-4's beside it", "",
        "Written by `python -m benchmarks.timing.profiles`; [profile.md](profile.md) says what the",
        "words mean. One CTA of either kernel: 256 query rows, 4,096 keys in 32 tiles, bf16, all",
        "keys. All numbers are predictions of `sm100sim.timing`; nothing was measured on a",
        f"Blackwell chip. This package's PTX is `{OURS}` of `testing/ptx_hashes.json`, SHA-256",
        f"{digest}.", "",
        "FlashAttention-4 is the installed release, by the same ptxas as this package. What others",
        "timed on a B200 is an older build by another one, whose loop takes fewer cycles",
        "([timing_blackwell.md](timing_blackwell.md)).", "",
        f"| kernel | the CTA's cycles over its {tiles} key tiles, start and end in them | band "
        "| limited by | tensor | MUFU | issue |",
        "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, one in (("fa4_cute", ours), ("FA4", theirs)):
        band = one.band
        lines.append(
            f"| {NAMES[name]}, CTAs of a cluster: {one.cluster[0]} | {band.median / tiles:,.0f} | "
            f"{band.low / tiles:,.0f}–{band.high / tiles:,.0f} | {one.limit} | "
            + " | ".join(f"{one.use(what):.0%}" for what in ("tensor", "MUFU", "issue"))
            + " |"
        )
    lines += [
        "", f"Ratio, draw by draw: {found.ratio.median:.3f} "
        f"({found.ratio.low:.3f} to {found.ratio.high:.3f}).", "",
        *differences(found), "## The profile of this package's kernel", "",
        "```text", _cut(profile_text(ours, 6)), "```", "",
        "## The profile of FlashAttention-4's", "", "```text", _cut(profile_text(theirs, 6)),
        "```", "",
    ]  # fmt: skip
    return "\n".join(lines)


def differences(found: Comparison) -> list[str]:
    """The largest differences of the critical paths in sentences, and tables of the others."""
    lines = [
        f"## The {EXPLAINED} largest differences", "",
        "Cycles of the critical path, per CTA, and what is behind them:", "",
    ]  # fmt: skip
    for number, one in enumerate(found.path[:EXPLAINED], 1):
        more = "more" if one.cycles > 0 else "fewer"
        lines += [
            f"{number}. **{MEANINGS.get(one.what, one.what).capitalize()}: "
            f"{abs(one.cycles):,.0f} cycles {more}** ({one.cycles / found.cycles[1]:+.1%} of its "
            f"time): {one.first:,.0f} beside {one.second:,.0f}.",
            *(f"    * {NAMES[name]}: {_code(part)}."
              for name, part in zip(NAMES, one.why.split("; and "), strict=True)),
            *(f"    * {text}." for text in (*_ways(found, one.what), *_behind(found, one.what))),
            f"    * Why: {reason(found, one.what) or 'not known'}.",
        ]  # fmt: skip
    tables = (*_table("Busy cycles of resources", found.resources, found),
              *_table("Cycles of a warp, by role and reason", found.roles, found))  # fmt: skip
    return [*lines, "", *in_words(found), *tables]


def _waited(side: KernelProfile, role: str, reason: str) -> float:
    """Cycles that a warp of a role spends on a reason."""
    members = [one for one in side.roles if one.name == role]
    warps = sum(len(one.members) for one in members)
    return sum(one.waits.get(reason, 0) for one in members) / warps if warps else 0.0


def _fullest(side: KernelProfile, resource: str) -> float:
    return next((use.fullest for use in side.uses if use.name == resource), 0.0)


def reason(found: Comparison, what: str) -> str:
    """Why the critical paths differ in something, with the figures that say so.

    A sentence stands there only where these bear it out; "" where none does.
    """
    sides = found.first, found.second
    if what == "tensor core":
        ways = [sum(h.times for h in one.handovers if h.through == what) for one in sides]
        waits = [_waited(one, "softmax", "mbarrier") for one in sides]
        if ways[0] < ways[1] and waits[0] < waits[1]:
            return (
                f"S is there before softmax asks for it: the path comes through an MMA {ways[0]} "
                f"times, FlashAttention-4's {ways[1]} times, and a softmax warp waits "
                f"{waits[0]:,.0f} cycles at mbarriers beside {waits[1]:,.0f}. Here S of a key tile "
                "is multiplied before P V of the one before; there the arrivals at the partner's "
                "barriers, between S, softmax and P, come on top"
            )
    mirrored = _mirrored(found, what)
    if mirrored:
        return mirrored
    issue, mufu = ([_fullest(one, name) for one in sides] for name in ("issue", "MUFU"))
    if what == "not selected" and issue[0] > issue[1]:
        return (
            "both softmax groups work at once where they wait less: the fullest sub-partition "
            f"issues in {issue[0]:.0%} of the cycles, beside {issue[1]:.0%}"
        )
    if what == "pipe" and mufu[0] > mufu[1]:
        work = [f"{one.first:,.0f} cycles beside {one.second:,.0f}"
                for one in found.resources if one.what == "MUFU"]  # fmt: skip
        return (
            f"exponentials come closer together: MUFU is busy in {mufu[0]:.0%} of the cycles, "
            f"beside {mufu[1]:.0%}" + "".join(f", its work being {one}" for one in work)
        )
    return ""


MIRRORED: Final = 0.5
"""Part of a difference of paths below which the warps' own times do not explain it."""


def _mirrored(found: Comparison, what: str) -> str:
    """Why softmax has more of something on one path: where the other goes through the tensor core.

    "" where the paths are not so, or the warps' own times explain half of the difference.
    """
    sides = found.first, found.second
    cores, warps = ([_on_path(one, who) for one in sides] for who in ("tensor core", "softmax"))
    passed = [_on_path(one, "softmax", what) * one.cycles for one in sides]
    own = [_waited(one, "softmax", what) for one in sides]
    more, less = (1, 0) if passed[1] > passed[0] else (0, 1)
    turned = cores[more] < cores[less] and warps[more] > warps[less]
    if not turned or not own[less] or (
        own[more] - own[less] >= MIRRORED * (passed[more] - passed[less])
    ):
        return ""
    alike = "for the most part another way of the path"
    if own[more] <= own[less]:
        alike = "another way of the path, not more of it in the warps"
    return (
        f"{alike}: a softmax warp has {own[0]:,.0f} "
        f"cycles of it beside {own[1]:,.0f}, and the path has {passed[0]:,.0f} of softmax beside "
        f"{passed[1]:,.0f}. It goes through softmax for {warps[0]:.0%} of the time, through the "
        f"tensor core for {cores[0]:.0%}; FlashAttention-4's for {warps[1]:.0%} and {cores[1]:.0%}"
    )


def _on_path(side: KernelProfile, who: str, what: str = "") -> float:
    """Part of a critical path that is somebody's, and of a reason where one is given."""
    mine = [step.cycles for step in side.steps if step.who == who and what in ("", step.what)]
    return sum(mine) / side.cycles


def in_words(found: Comparison) -> list[str]:
    """What the tables of resources and roles mean; sentences that their figures bear out."""
    busy = {one.what: one for one in found.resources}
    waits = {one.what: one for one in found.roles}
    told = []
    if found.second.cluster[0] == 2 * found.first.cluster[0] and "shared memory" in busy:
        halves = ", ".join(
            f"{name} {busy[name].first:,.0f} and {busy[name].second:,.0f}"
            for name in ("shared memory", "L2 share", "TMA loads")
            if name in busy
        )
        told.append(
            "FlashAttention-4's two CTAs share each MMA, which halves what either loads and reads "
            f"of keys and values, in busy cycles: {halves}."
        )
    named, counted = (waits.get(f"correction: {b}") for b in ("named barrier", "mbarrier"))
    if named and counted and named.cycles < 0 < counted.cycles:
        shares = [
            sum(step.cycles for step in one.steps if step.who == "correction") / one.cycles
            for one in (found.first, found.second)
        ]
        told.append(
            "Its rescaling warps wait at named barriers, ours at mbarriers, other rows of the "
            f"same wait: {shares[0]:.1%} of our critical path and {shares[1]:.1%} of its own are "
            "theirs."
        )
    return [" ".join(["In words:", *told]), ""] if told else []


BEHIND: Final = {
    "tensor core": ("tensor", "shared memory"), "mufu": ("MUFU",), "issued": ("issue",),
    "stall": ("FMA", "ALU"), "not selected": ("issue",), "pipe": ("FMA", "ALU", "MUFU"),
    "tmem": ("TMEM",), "shared": ("shared memory", "shared requests"), "TMA load": ("TMA loads",),
}  # fmt: skip
"""What a difference of the path may come from: resources."""


def _behind(found: Comparison, what: str) -> list[str]:
    """The work of the resources behind a difference."""
    named = {one.what: one for one in found.resources}
    return [
        f"Work of {name}: {named[name].first:,.0f} beside {named[name].second:,.0f} busy cycles"
        + (f" (executed: {named[name].why})" if named[name].why else "")
        for name in BEHIND.get(what, ())
        if name in named
    ]


def _ways(found: Comparison, what: str) -> list[str]:
    """The way between warps on which either path spends most of something."""
    ways = [
        max((h for h in one.handovers if h.through == what), key=lambda h: h.times, default=None)
        for one in (found.first, found.second)
    ]
    if None in ways:
        return []
    texts = [
        f"{way.giver} to {way.taker}, {way.times:,} times {way.cycles / way.times:,.0f} cycles"
        for way in ways
        if way is not None
    ]
    return [f"The most frequent way through it: {texts[0]}, beside {texts[1]}"]


def _code(text: str) -> str:
    """A sentence whose PTX statement is marked as code."""
    head, mark, statement = " ".join(text.split()).partition("PTX line ")
    number, _, rest = statement.partition(": ")
    return f"{head}{mark}{number}: `{rest.rstrip(';')[:90]}`" if mark else head


def _table(title: str, rows: tuple[Difference, ...], found: Comparison) -> list[str]:
    lines = [
        f"{title}, the largest differences:", "",
        "| what | this package | FlashAttention-4 | of its time |", "|---|---|---|---|",
    ]  # fmt: skip
    lines += [
        f"| {one.what} | {one.first:,.0f} | {one.second:,.0f} | "
        f"{one.cycles / found.cycles[1]:+.1%} |"
        for one in rows[:6]
    ]
    return [*lines, ""]


def main(arguments: list[str]) -> int:
    """Write the page; returns the exit status."""
    file = target(__doc__, arguments)
    sm100sim.activate(sm_count=SMS)  # before the DSL is imported
    from benchmarks.timing.attention_traces import Tracer

    tracer = Tracer("sm_100a", SMS, **ONE_TILE)
    ours, theirs = (profiled(runner, tracer) for runner in NAMES)
    masked = tracer.ptx["fa4_cute"].replace(ours.kernel, "KERNEL")
    digest = hashlib.sha256(masked.encode()).hexdigest()
    file.write_text(page(ours, theirs, digest))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
