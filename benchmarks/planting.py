"""Which faults ``make mutants`` plants in a kernel.

Classes that only move an address, or whose statements differ by an offset only, are thinned: they
are many and alike. A kernel with a base (``mutant_cases.BASES``) shares most of its statements with
it, and those are thinned in every class. Two statements are shared when they stand at corresponding
places of the two kernels (the longest common subsequences of ``difflib``) and are alike in
instruction, immediate operands aside, and barrier; what they do may still depend on their kernel,
so a few of each class are planted.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from functools import cache
from typing import Any, Final

from benchmarks.equivalent_mutants import barrier_of
from benchmarks.mutant_cases import BASES, KERNELS
from fa4_cute.plan.config.config import FA4Config
from fa4_cute.plan.config.depth512_config import Depth512Config
from fa4_cute.plan.config.sm90_config import SM90Config
from fa4_cute.plan.memory.depth512_smem import Depth512SMemLayout
from fa4_cute.plan.memory.sm90_smem import SM90SMemLayout
from fa4_cute.plan.memory.smem_layout import AttentionSMemLayout
from sm100sim.mutate import Mutant, faulty, mutants, thinned
from testing.launches import Launch

MOVED_ADDRESSES = frozenset({
    "a-k-step+", "a-row-group+", "a-row-group-", "b-k-step+", "b-row-group+", "b-row-group-",
    "a-wrong-stage", "b-wrong-stage", "flip-scale-d",
    "accumulator-column", "operand-column", "tmem-column+8", "tmem-column-8", "wrong-stage-buffer",
})  # fmt: skip
"""Classes that give wrong values; they run without checks first, which is faster."""
REPEATED = frozenset({
    "drop-copy", "copy-signals-neighbour", "drop-wait-ld", "drop-fence-before", "drop-fence-after",
    "drop-wgmma",
})  # fmt: skip
"""Classes with many statements that differ by an offset only."""
LIMIT: Final = 6
"""Mutants of each thinned class, spread over the kernel."""
SHARED: Final = 3
"""Mutants of each class in statements that a kernel shares with its base."""

LAYOUTS: Final[dict[type, Any]] = {
    FA4Config: AttentionSMemLayout, Depth512Config: Depth512SMemLayout, SM90Config: SM90SMemLayout,
}  # fmt: skip
"""Configuration of a kernel -> where its barriers lie in shared memory."""

Statement = tuple[str, str]
"""An instruction without registers and numbers, and its barrier: what two kernels can share."""


def barrier_names(launch: Launch) -> dict[int, str]:
    """Offset in dynamic shared memory -> name of the mbarrier there."""
    config = launch.spec.config
    layout = LAYOUTS[type(config)](config)
    return {layout.mbar_byte_offset_of(s.index): s.name for s in config.misc_mbars.specs}


@cache
def statements(kernel: str) -> dict[int, Statement]:
    """PTX line -> the statement there, of a kernel's statements that can be at fault."""
    launch = Launch(KERNELS[kernel][0])
    request = launch.request
    names, lines = barrier_names(launch), request.ptx.split("\n")
    return {
        line: (re.sub(r"%\w+|-?\b\d+\b", "", text), barrier_of(line, text, lines, names))
        for line, text in faulty(request.ptx, request.kernel).items()
    }


def common(base: dict[int, Statement], other: dict[int, Statement]) -> set[int]:
    """Lines of `other` whose statements stand at corresponding places of `base` as well."""
    mine, theirs = sorted(base), sorted(other)
    matcher = SequenceMatcher(
        None, [base[n] for n in mine], [other[n] for n in theirs], autojunk=False
    )
    return {theirs[b + i] for _, b, size in matcher.get_matching_blocks() for i in range(size)}


@cache
def shared_lines(kernel: str) -> set[int]:
    """PTX lines of the statements that a kernel shares with its base, if it has one."""
    if kernel not in BASES:
        return set()
    return common(statements(BASES[kernel]), statements(kernel))


def chosen(kernel: str) -> list[Mutant]:
    """The mutants that are planted in a kernel."""
    request, shared = Launch(KERNELS[kernel][0]).request, shared_lines(kernel)
    found = mutants(request.ptx, request.kernel)
    own = thinned([m for m in found if m.line not in shared], MOVED_ADDRESSES | REPEATED, LIMIT)
    rest = [m for m in found if m.line in shared]
    return own + thinned(rest, {m.kind for m in rest}, SHARED)
