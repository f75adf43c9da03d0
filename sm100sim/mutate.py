"""Synchronisation faults planted in PTX, one at a time: what a checker is worth is what it finds.

`mutants(ptx, kernel)` lists the possible faults of a kernel; each is one edited statement.  The
program that runs them decides what counts as found (a fault, a finding, another result).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .ptx.parser import parse
from .ptx.program import Imm, Instr, Kernel


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
        """Unique within a kernel."""
        return f"{self.kind}@{self.line}"


Edit = tuple[str, str]
"""(kind, replacement statement)."""

Rule = Callable[[Instr], Iterator[Edit]]


def _starts(ins: Instr, *mods: str) -> bool:
    return ins.mods[: len(mods)] == mods


def _swap_number(text: str, old: int, new: int) -> str:
    """Replace the last integer `old` of a statement."""
    head, _, tail = text.rpartition(str(old))
    return f"{head}{new}{tail}"


def _waits(ins: Instr) -> Iterator[Edit]:
    """try_wait: never wait; wait for the other parity."""
    if ins.opcode != "mbarrier" or not ins.mods or ins.mods[0] not in ("try_wait", "test_wait"):
        return
    predicate = re.match(r"\S+\s+([^,\s]+)\s*,", ins.text[ins.text.index("mbarrier") :])
    if predicate:
        yield "drop-wait", f"setp.eq.u32 {predicate.group(1)}, 0, 0"
    parity = ins.operands[2] if len(ins.operands) > 2 else None
    if isinstance(parity, Imm):
        target, _, rest = ins.text.partition("]")
        yield "wrong-parity", f"{target}]{rest.replace(parity.text, str(parity.value ^ 1), 1)}"


def _arrivals(ins: Instr) -> Iterator[Edit]:
    """mbarrier.arrive: leave it out, or announce other byte counts; mbarrier.init: other counts."""
    if ins.opcode != "mbarrier":
        return
    if _starts(ins, "arrive", "expect_tx") or _starts(ins, "expect_tx"):
        amount = ins.operands[-1]
        yield "drop-expect-tx", ""
        if isinstance(amount, Imm):
            yield "more-tx-bytes", _swap_number(ins.text, amount.value, amount.value + 128)
            yield "fewer-tx-bytes", _swap_number(ins.text, amount.value, amount.value - 128)
    elif _starts(ins, "arrive"):
        yield "drop-arrive", ""
    elif _starts(ins, "init"):
        yield "drop-init", ""


def _asynchronous(ins: Instr) -> Iterator[Edit]:
    """Commits, waits and fences of asynchronous work."""
    if ins.opcode == "tcgen05" and ins.mods:
        if ins.mods[0] == "commit":
            yield "drop-commit", ""
        elif ins.mods[0] == "wait::st":
            yield "drop-wait-st", ""
        elif ins.mods[0] == "dealloc":
            yield "drop-dealloc", ""
        elif ins.mods[0] == "relinquish_alloc_permit":
            yield "drop-relinquish", ""
    if ins.opcode == "fence" and ins.mods[:1] in (("proxy",), ("mbarrier_init",)):
        yield f"drop-fence-{ins.mods[0]}", ""
    if ins.opcode == "cp" and _starts(ins, "async", "bulk", "commit_group"):
        yield "drop-bulk-commit", ""
    if ins.opcode == "cp" and _starts(ins, "async", "bulk", "wait_group"):
        yield "drop-bulk-wait", ""
    if ins.opcode == "cp" and _starts(ins, "async", "bulk", "tensor"):
        yield "drop-copy", ""


def _barriers(ins: Instr) -> Iterator[Edit]:
    """Named and cluster barriers, register budgets."""
    if ins.opcode in ("bar", "barrier") and "warp" not in ins.mods:
        yield f"drop-{ins.opcode}-{ins.mods[-1]}", ""
        last = ins.operands[-1] if len(ins.operands) > 1 else None
        if isinstance(last, Imm) and last.value > 32:
            yield "wrong-bar-count", _swap_number(ins.text, last.value, last.value - 32)
    if ins.opcode == "setmaxnreg" and ins.mods[:1] == ("inc",):
        amount = ins.operands[0]
        if isinstance(amount, Imm):
            yield "greedy-setmaxnreg", _swap_number(ins.text, amount.value, amount.value + 8)


def _tensor(ins: Instr) -> Iterator[Edit]:
    """MMA and TMEM addresses: another column; accumulate flag; multicast mask."""
    if ins.opcode == "tcgen05" and ins.mods[:1] in (("ld",), ("st",)):
        found = re.search(r"\[\s*([%\w$]+)\s*(\+\s*(-?\w+))?\s*\]", ins.text)
        if found:
            offset = int(found.group(3), 0) if found.group(3) else 0
            moved = f"[{found.group(1)}+{offset + 8}]"
            yield "wrong-tmem-column", ins.text[: found.start()] + moved + ins.text[found.end() :]
    if ins.opcode == "tcgen05" and ins.mods[:1] == ("commit",):
        mask = ins.operands[-1]
        if isinstance(mask, Imm) and mask.value == 3:
            yield "one-cta-mask", _swap_number(ins.text, 3, 1)


RULES: tuple[Rule, ...] = (_waits, _arrivals, _asynchronous, _barriers, _tensor)


def _init_counts(ins: Instr) -> Iterator[Edit]:
    """mbarrier.init with a register or immediate count: one more, one fewer."""
    if ins.opcode != "mbarrier" or not _starts(ins, "init"):
        return
    count = ins.operands[-1]
    if isinstance(count, Imm):
        yield "count-plus-one", _swap_number(ins.text, count.value, count.value + 1)
        if count.value > 1:
            yield "count-minus-one", _swap_number(ins.text, count.value, count.value - 1)
        return
    name = getattr(count, "name", None)
    if name:
        scope = "{{ .reg .b32 mutant_count; add.s32 mutant_count, {name}, {step}; {text}; }}"
        changed = ins.text[: ins.text.rindex(name)] + "mutant_count"
        yield "count-plus-one", scope.format(name=name, step=1, text=changed)
        yield "count-minus-one", scope.format(name=name, step=-1, text=changed)


def _dynamic_parity(ins: Instr) -> Iterator[Edit]:
    """try_wait whose parity is in a register: wait for the other one."""
    if ins.opcode != "mbarrier" or not ins.mods or ins.mods[0] != "try_wait":
        return
    parity = getattr(ins.operands[2], "name", None) if len(ins.operands) > 2 else None
    if parity:
        head, _, tail = ins.text.partition("]")
        changed = head + "]" + tail.replace(parity, "mutant_parity", 1)
        yield (
            "wrong-parity",
            f"{{ .reg .b32 mutant_parity; xor.b32 mutant_parity, {parity}, 1; {changed}; }}",
        )


def _apply(lines: list[str], ins: Instr, after: str) -> str | None:
    """The module with one statement replaced, or None when the statement is not on one line."""
    text = lines[ins.line - 1]
    if text.count(ins.text) != 1:
        return None
    changed = text.replace(
        ins.text + ";", after if after == "" or after.startswith("{") else after + ";", 1
    )
    if changed == text:
        return None
    return "\n".join([*lines[: ins.line - 1], changed, *lines[ins.line :]])


def _guarded(ins: Instr, after: str) -> str:
    """Keep the guard of the statement when the whole statement is replaced by another."""
    guard = re.match(r"@!?[%\w$]+\s+", ins.text)
    if guard and after and not after.startswith(("@", "{")):
        return guard.group() + after
    return after


def _early_commits(kernel: Kernel, lines: list[str]) -> Iterator[Mutant]:
    """A commit moved in front of the MMAs that it should cover."""
    body = kernel.body
    for ins in body:
        if ins.opcode != "tcgen05" or ins.mods[:1] != ("commit",):
            continue
        mma = next(
            (
                x
                for x in reversed(body[: ins.index])
                if x.opcode == "tcgen05" and x.mods[0] == "mma"
            ),
            None,
        )
        if mma is None or ins.index - mma.index > 24 or lines[ins.line - 1].count(ins.text) != 1:
            continue
        moved = lines.copy()
        moved[ins.line - 1] = moved[ins.line - 1].replace(ins.text + ";", "", 1)
        moved[mma.line - 1] = ins.text + "; " + moved[mma.line - 1]
        yield Mutant(
            "early-commit", ins.line, ins.text, f"before line {mma.line}", "\n".join(moved)
        )


def mutants(ptx: str, kernel: str) -> list[Mutant]:
    """Every planted fault of a kernel that still parses, in the order of its lines.

    Raises:
        PtxError: the PTX itself is not understood.
        KeyError: the module has no such kernel.
    """
    typed = parse(ptx).kernels[kernel]
    lines = ptx.split("\n")
    found = []
    for ins in typed.body:
        for rule in (*RULES, _init_counts, _dynamic_parity):
            for kind, after in rule(ins):
                changed = _apply(lines, ins, _guarded(ins, after))
                if changed is not None:
                    found.append(Mutant(kind, ins.line, ins.text, after, changed))
    return found + list(_early_commits(typed, lines))
