"""Synchronisation faults planted in PTX, one at a time: what a checker is worth is what it finds.

`mutants(ptx, kernel)` lists the possible faults of a kernel; each is one edited or moved statement.
The program that runs them decides what counts as found (a fault, a finding, another result).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from .mutate_rules import RULES, Statement
from .ptx.errors import PtxError
from .ptx.parser import parse
from .ptx.program import Address, Instr, Kernel, Reg, Vector

STAGE_BYTES = 16384
"""Bytes by which the buffer address of a copy is wrong, unless a kernel has other stages."""


@dataclass(frozen=True)
class Mutant:
    """One planted fault.

    Attributes:
        kind: the class of fault, e.g. "drop-wait".
        line: 1-based PTX line of the edited statement.
        before, after: the statement and what takes its place.
        ptx: the whole module with the fault.
    """

    kind: str
    line: int
    before: str
    after: str
    ptx: str

    @property
    def name(self) -> str:
        """Unique within a kernel whose statements are on lines of their own."""
        return f"{self.kind}@{self.line}"


def mutants(ptx: str, kernel: str, stage_bytes: int = STAGE_BYTES) -> list[Mutant]:
    """Every planted fault of a kernel that still parses, by class of rule and line.

    Args:
        stage_bytes: how far a copy's buffer address is moved for "wrong-stage-buffer".

    Raises:
        PtxError: the PTX itself is not understood.
        KeyError: the module has no such kernel.
    """
    typed = parse(ptx).kernels[kernel]
    lines = ptx.split("\n")
    found = []
    for ins in typed.body:
        for rule in RULES:
            for edit in rule(ins, stage_bytes):
                changed = _replaced(lines, ins, edit.text)
                if changed is not None:
                    found.append(Mutant(edit.kind, ins.line, ins.text, edit.text, changed))
    moved = [
        *_early_commits(typed, lines), *_late_waits(typed, lines), *_early_releases(typed, lines)
    ]  # fmt: skip
    return found + [m for m in moved if _parses(m.ptx)]


def faulty(ptx: str, kernel: str) -> dict[int, str]:
    """PTX line -> statement, of a kernel's statements that can hold a fault.

    Raises:
        PtxError: the PTX itself is not understood.
        KeyError: the module has no such kernel.
    """
    body = parse(ptx).kernels[kernel].body
    edited = (ins for ins in body if any(True for rule in RULES for _ in rule(ins, STAGE_BYTES)))
    return {ins.line: ins.text for ins in edited}


def thinned(found: Sequence[Mutant], kinds: Collection[str], limit: int) -> list[Mutant]:
    """At most `limit` mutants of each of `kinds`, spread over the kernel; all of other kinds."""
    groups: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in found:
        groups[mutant.kind].append(mutant)
    kept: set[int] = set()
    for kind, group in groups.items():
        count = min(limit, len(group)) if kind in kinds else len(group)
        kept.update(id(group[k * len(group) // count]) for k in range(count))
    return [m for m in found if id(m) in kept]


def _parses(ptx: str) -> bool:
    try:
        parse(ptx)
    except PtxError:
        return False
    return True


def _replaced(lines: list[str], ins: Instr, after: str) -> str | None:
    """The module with one statement replaced, or None when the statement is not on one line."""
    text = lines[ins.line - 1]
    if text.count(ins.text + ";") != 1:
        return None
    end = "" if not after or after.startswith("{") else ";"
    changed = text.replace(ins.text + ";", after + end)
    return "\n".join([*lines[: ins.line - 1], changed, *lines[ins.line :]])


def _moved(lines: list[str], ins: Instr, before: Instr, text: str) -> str | None:
    """The module with `ins` left out and `text` in front of the statement `before`."""
    here, there = lines[ins.line - 1], lines[before.line - 1]
    if here.count(ins.text + ";") != 1 or there.count(before.text) != 1 or ins.line == before.line:
        return None
    changed = lines.copy()
    changed[ins.line - 1] = here.replace(ins.text + ";", "")
    changed[before.line - 1] = there.replace(before.text, f"{text} {before.text}")
    return "\n".join(changed)


COMMIT_REACH = 24
"""Instructions between an MMA and the commit that is moved in front of it."""


COMMITTED = {
    ("tcgen05", "commit"): ("tcgen05", "mma", "early-commit"),
    ("wgmma", "commit_group"): ("wgmma", "mma_async", "early-wgmma-commit"),
}
"""(opcode, first modifier) of a commit -> those of what it covers, and the class of fault."""


def _early_commits(kernel: Kernel, lines: list[str]) -> Iterator[Mutant]:
    """A commit moved in front of the last MMA that it should cover."""
    for ins in kernel.body:
        covered = COMMITTED.get((ins.opcode, ins.mods[0] if ins.mods else ""))
        if covered is None:
            continue
        *name, kind = covered
        near = kernel.body[max(0, ins.index - COMMIT_REACH) : ins.index]
        issued = [x for x in near if [x.opcode, *x.mods[:1]] == name]
        slices = _slice(kernel, issued[-1].index, ins) if issued else None
        if slices is None:
            continue
        changed = _moved(lines, ins, issued[-1], slices)
        if changed is not None:
            yield Mutant(kind, ins.line, ins.text, f"at line {issued[-1].line}", changed)


def _late_waits(kernel: Kernel, lines: list[str]) -> Iterator[Mutant]:
    """A wgmma.wait_group moved after the first instruction that uses a register of D."""
    results: set[int] = set()
    for ins in kernel.body:
        name = (ins.opcode, *ins.mods[:1])
        if name == ("wgmma", "mma_async"):
            results = {r.id for r in _registers(ins.operands[0])}
        elif name == ("wgmma", "wait_group"):
            used = _first_use(kernel.body[ins.index + 1 :], results)
            after = None if used is None else kernel.body[used.index + 1]
            changed = None if after is None else _moved(lines, ins, after, f"{ins.text};")
            if after is not None and changed is not None:
                yield Mutant(
                    "late-wgmma-wait", ins.line, ins.text, f"at line {after.line}", changed
                )


def _first_use(body: Sequence[Instr], registers: set[int]) -> Instr | None:
    """The first instruction with one of the registers, if a statement of its block follows it."""
    for ins in body[:-1]:
        if ins.target is not None or ins.opcode in ("wgmma", "ret", "exit"):
            return None
        if any(r.id in registers for operand in ins.operands for r in _registers(operand)):
            return ins
    return None


USES = {
    *(("tcgen05", "ld"), ("tcgen05", "st"), ("ld", "shared"), ("st", "shared")),
    *(("wgmma", "mma_async"), ("wgmma", "wait_group")),
}
"""What an arrival must not overtake."""


def _early_releases(kernel: Kernel, lines: list[str]) -> Iterator[Mutant]:
    """An arrival moved to the end of the wait before it, in front of the accesses it covers."""
    for ins in kernel.body:
        if ins.opcode != "mbarrier" or ins.mods[:1] != ("arrive",) or "expect_tx" in ins.mods:
            continue
        start = _region_start(kernel.body, ins.index)
        between = kernel.body[start : ins.index]
        if ins.guard or not any((x.opcode, *x.mods[:1]) in USES for x in between):
            continue
        text = _slice(kernel, start, ins)
        changed = _moved(lines, ins, kernel.body[start], text) if text else None
        if changed is not None:
            place = kernel.body[start].line
            yield Mutant("early-release", ins.line, ins.text, f"at line {place}", changed)


def _region_start(body: Sequence[Instr], end: int) -> int:
    """The first instruction from which every path leads to `end` without a loop or a wait.

    Branches between the two go forward and stay inside; nothing from outside enters after it.
    """
    start = end
    while start > 0:
        ins = body[start - 1]
        leaves = ins.target is not None and not start <= ins.target <= end
        if leaves or ins.opcode in ("ret", "exit"):
            break
        start -= 1
    while True:
        entries = [
            x.target for x in body
            if x.target is not None and start < x.target <= end and not start <= x.index < end
        ]  # fmt: skip
        inside = [x.index + 1 for x in body[start:end] if x.target is not None and x.target > end]
        if not entries and not inside:
            return start
        start = max(entries + inside)


PURE = {"mov", "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "xor", "selp", "cvt"}
"""Instructions that can be repeated elsewhere to recompute a value."""


def _registers(operand: object) -> list[Reg]:
    if isinstance(operand, Reg):
        return [operand]
    if isinstance(operand, Address):
        return _registers(operand.base)
    if isinstance(operand, Vector):
        return [r for item in operand.items for r in _registers(item)]
    return []


def _made(ins: Instr) -> list[Reg]:
    """The registers that an instruction writes; a first operand in brackets is an address."""
    if not ins.operands or ins.opcode in ("bar", "barrier"):
        return []
    first = ins.operands[0]
    return [] if isinstance(first, Address) else _registers(first)


def _slice(kernel: Kernel, start: int, ins: Instr) -> str | None:
    """Statement `ins` so that it can stand at `start`: in a scope, with the registers that are
    computed between the two computed again.  None when one of them cannot be."""
    needed = [r for operand in ins.operands for r in _registers(operand)]
    steps: list[Instr] = []
    for candidate in reversed(kernel.body[start : ins.index]):
        made = _made(candidate)
        if not {r.id for r in made} & {r.id for r in needed}:
            continue
        if candidate.opcode not in PURE or candidate.guard:
            return None
        steps.append(candidate)
        needed = [r for r in needed if r.id not in {m.id for m in made}]
        needed += [r for operand in candidate.operands[1:] for r in _registers(operand)]
    text = ""
    names: dict[str, str] = {}
    for step in reversed(steps):
        target = step.operands[0]
        if not isinstance(target, Reg):
            return None
        line, new = Statement.of(step), f"mutant{len(names)}"
        sources = tuple(_renamed(operand, names) for operand in line.operands[1:])
        text += f".reg .{target.type.name} {new}; {Statement(line.head, (new, *sources)).text()}; "
        names[target.name] = new
    return f"{{ {text}{_renamed(ins.text, names)}; }}"


def _renamed(text: str, names: dict[str, str]) -> str:
    """`text` with registers replaced."""
    for old, new in names.items():
        text = re.sub(rf"(?<![\w%$]){re.escape(old)}(?![\w$])", new, text)
    return text
