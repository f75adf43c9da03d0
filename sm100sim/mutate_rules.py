"""Which faults a PTX statement can hold: rules from one instruction to its wrong forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from .ptx.operands import split_top
from .ptx.program import Imm, Instr, Reg, Vector

BARRIER_BYTES = 8
"""Size of an mbarrier object: the neighbour is another stage, or another event."""
K_STEP, ROW_GROUP = 2, 64
"""Descriptor address units of 16 bytes: 16 two-byte elements, and 8 rows of 128 bytes."""
DESCRIPTOR_BYTES = 16
"""Unit of a matrix descriptor's address."""
COLUMNS = 8
"""Tensor Memory columns by which an address is moved."""
TX_BYTES = 16
"""Transaction bytes by which an announcement is wrong: the smallest amount that a copy moves."""
MAX_REGISTERS = 256
"""Largest operand of setmaxnreg."""


@dataclass(frozen=True)
class Edit:
    """One wrong form of a statement: the class of fault, and what takes the statement's place."""

    kind: str
    text: str


Rule = Callable[[Instr, int], Iterator[Edit]]
"""From an instruction and the bytes of one buffer stage to its wrong forms."""


@dataclass(frozen=True)
class Statement:
    """A statement in three parts, so that one operand can be replaced."""

    head: str
    operands: tuple[str, ...]

    @classmethod
    def of(cls, ins: Instr) -> Statement:
        """Split guard and instruction name from the operands."""
        found = re.match(r"(?:@\s*!?\s*[\w$%]+\s+)?[\w.:]+\s*", ins.text)
        assert found is not None
        rest = ins.text[found.end() :]
        return cls(found.group(), tuple(s.strip() for s in split_top(rest)) if rest else ())

    def text(self) -> str:
        """The statement without its semicolon."""
        return self.head + ", ".join(self.operands)

    def put(self, position: int, operand: str) -> Statement:
        """Return the statement with another operand at `position`."""
        operands = list(self.operands)
        operands[position] = operand
        return replace(self, operands=tuple(operands))

    def moved(self, position: int, distance: int) -> str:
        """The statement with the address at `position` moved by `distance`."""
        inner = self.operands[position].strip("[] ")
        base, _, offset = (part.strip() for part in inner.partition("+"))
        return self.put(position, f"[{base}+{int(offset or '0', 0) + distance}]").text()

    def computed(self, position: int, kind: str, operation: str) -> str:
        """The statement in a scope in which `operation` makes operand `position` anew.

        Args:
            kind: PTX type of the operand, e.g. "b32".
            operation: "add.s32 {new}, {old}, 1" and the like.
        """
        line = operation.format(new="mutant", old=self.operands[position])
        changed = self.put(position, "mutant").text()
        return f"{{ .reg .{kind} mutant; {line}; {changed}; }}"


def _starts(ins: Instr, opcode: str, *mods: str) -> bool:
    return ins.opcode == opcode and ins.mods[: len(mods)] == mods


def _number(ins: Instr, position: int, **steps: int) -> Iterator[Edit]:
    """Wrong values of an integer operand of 32 bits: class of fault = difference."""
    statement, value = Statement.of(ins), ins.operands[position]
    for key, step in steps.items():
        name = key.replace("_", "-")
        if not isinstance(value, Imm):
            add = f"add.s32 {{new}}, {{old}}, {step}"
            yield Edit(name, statement.computed(position, "b32", add))
        elif value.value + step > 0:
            yield Edit(name, statement.put(position, str(value.value + step)).text())


def waits(ins: Instr, stage: int) -> Iterator[Edit]:
    """try_wait and test_wait: never wait; wait for the other parity; wait on the barrier before,
    which in a ring is complete earlier (the next one would often be a longer wait and no fault);
    acquire from the own CTA only."""
    if ins.opcode != "mbarrier" or not ins.mods or ins.mods[0] not in ("try_wait", "test_wait"):
        return
    statement, parity = Statement.of(ins), ins.operands[2] if "parity" in ins.mods else None
    guard = re.match(r"@\s*!?\s*[\w$%]+\s+", ins.text)
    yield Edit(
        "drop-wait", (guard.group() if guard else "") + f"setp.eq.u32 {statement.operands[0]}, 0, 0"
    )
    if isinstance(parity, Imm):
        yield Edit("wrong-parity", statement.put(2, str(parity.value ^ 1)).text())
    elif parity is not None:
        yield Edit("wrong-parity", statement.computed(2, "b32", "xor.b32 {new}, {old}, 1"))
    yield Edit("wait-on-neighbour", statement.moved(1, -BARRIER_BYTES))
    if {"acquire", "cluster"} <= set(ins.mods):
        yield Edit("narrow-acquire", ins.text.replace(".acquire.cluster", ".acquire.cta"))


def arrivals(ins: Instr, stage: int) -> Iterator[Edit]:
    """arrive: none, two, at another barrier, with a scope that does not reach it; expect_tx: none,
    other bytes; init: other counts."""
    if ins.opcode != "mbarrier" or not ins.mods:
        return
    statement = Statement.of(ins)
    if "expect_tx" in ins.mods[:2]:
        address = len(ins.operands) - 2
        yield Edit("drop-expect-tx", "")
        yield from _number(ins, -1, more_tx_bytes=TX_BYTES, fewer_tx_bytes=-TX_BYTES)
        yield Edit("expect-tx-at-neighbour", statement.moved(address, BARRIER_BYTES))
    elif ins.mods[0] == "arrive":
        yield Edit("drop-arrive", "")
        yield Edit("double-arrive", f"{{ {ins.text}; {ins.text}; }}")
        yield Edit("arrive-at-neighbour", statement.moved(1, BARRIER_BYTES))
        if {"release", "cluster"} <= set(ins.mods):
            yield Edit("narrow-release", ins.text.replace(".release.cluster", ".release.cta"))
    elif ins.mods[0] == "init":
        yield Edit("drop-init", "")
        yield from _number(ins, -1, count_plus_one=1, count_minus_one=-1)


def commits(ins: Instr, stage: int) -> Iterator[Edit]:
    """tcgen05.commit: none, at another barrier, without one CTA of the mask."""
    if not _starts(ins, "tcgen05", "commit"):
        return
    statement = Statement.of(ins)
    yield Edit("drop-commit", "")
    yield Edit("commit-at-neighbour", statement.moved(0, BARRIER_BYTES))
    if "multicast::cluster" in ins.mods:
        yield from _masks(statement)


def _masks(statement: Statement) -> Iterator[Edit]:
    """A CTA mask of 16 bits with the bit of rank 0, or of rank 1, the other way."""
    for rank in range(2):
        flip = f"xor.b16 {{new}}, {{old}}, {1 << rank}"
        yield Edit(f"mask-bit-of-rank{rank}", statement.computed(-1, "b16", flip))


FENCES = {
    ("tcgen05", "wait::ld"): "drop-wait-ld",
    ("tcgen05", "wait::st"): "drop-wait-st",
    ("tcgen05", "fence::before_thread_sync"): "drop-fence-before",
    ("tcgen05", "fence::after_thread_sync"): "drop-fence-after",
    ("tcgen05", "dealloc"): "drop-dealloc",
    ("tcgen05", "relinquish_alloc_permit"): "drop-relinquish",
    ("wgmma", "fence"): "drop-wgmma-fence",
    ("wgmma", "commit_group"): "drop-wgmma-commit",
    ("fence", "proxy"): "drop-fence-proxy",
    ("fence", "mbarrier_init"): "drop-fence-mbarrier_init",
}
"""(opcode, first modifier) -> the fault of leaving the statement out."""


def fences(ins: Instr, stage: int) -> Iterator[Edit]:
    """Fences, waits and releases that can only be left out; groups of bulk copies."""
    kind = FENCES.get((ins.opcode, ins.mods[0] if ins.mods else ""))
    if kind:
        yield Edit(kind, "")
    if _starts(ins, "cp", "async", "bulk", "commit_group"):
        yield Edit("drop-bulk-commit", "")
    if _starts(ins, "cp", "async", "bulk", "wait_group"):
        yield Edit("drop-bulk-wait", "")


def copies(ins: Instr, stage: int) -> Iterator[Edit]:
    """Bulk copies: none, with another stage's buffer, another barrier, other CTAs.

    A copy of plain bytes fills a buffer of its own size.
    """
    tensor_copy = _starts(ins, "cp", "async", "bulk", "tensor")
    loads = any(mod.startswith("mbarrier::") for mod in ins.mods)
    plain = loads and not tensor_copy and _starts(ins, "cp", "async", "bulk")
    if not tensor_copy and not plain:
        return
    statement = Statement.of(ins)
    if plain and isinstance(ins.operands[2], Imm):
        stage = ins.operands[2].value
    yield Edit("drop-copy", "")
    yield Edit("wrong-stage-buffer", statement.moved(0 if loads else 1, stage))
    if loads:
        yield Edit("copy-signals-neighbour", statement.moved(3 if plain else 2, BARRIER_BYTES))
    if "multicast::cluster" in ins.mods:
        yield from _masks(statement)


def semantics(ins: Instr, stage: int) -> Iterator[Edit]:
    """Release or acquire of a barrier: relaxed, which orders no memory.

    An arrival at a cluster barrier releases unless it says otherwise (PTX ISA,
    "barrier.cluster"); the wait has no relaxed form. Of mbarriers only what is spelled out counts.
    """
    named = {"release", "acquire"} & set(ins.mods)
    if ins.opcode == "mbarrier" and named:
        kind = "relaxed-wait" if "try_wait" in ins.mods else "relaxed-arrive"
        yield Edit(kind, re.sub(r"\.(release|acquire)\b", ".relaxed", ins.text, count=1))
    arrives = ins.opcode == "barrier" and ins.mods[:2] == ("cluster", "arrive")
    if arrives and "relaxed" not in ins.mods:
        text = re.sub(r"\.arrive(\.release)?\b", ".arrive.relaxed", ins.text, count=1)
        yield Edit("relaxed-cluster-arrive", text)


def atomics(ins: Instr, stage: int) -> Iterator[Edit]:
    """atom and red that order memory: none; without release, acquire or both; of the CTA only."""
    ordered = {"acq_rel", "acquire", "release"} & set(ins.mods)
    if ins.opcode not in ("atom", "red") or not ordered:
        return
    yield Edit("drop-atomic", "")
    less = {"relaxed-atomic": "relaxed"}
    if "acq_rel" in ordered:
        less |= {"unreleased-atomic": "acquire", "unacquired-atomic": "release"}
    for kind, left in less.items():
        text = re.sub(r"\.(acq_rel|acquire|release)\b", f".{left}", ins.text, count=1)
        yield Edit(kind, text)
    for scope in {"cluster", "gpu", "sys"} & set(ins.mods):
        yield Edit("narrow-atomic", ins.text.replace(f".{scope}", ".cta", 1))


def barriers(ins: Instr, stage: int) -> Iterator[Edit]:
    """Named and cluster barriers: none, another count; register budgets: eight more."""
    if ins.opcode == "bar" and ins.mods[:1] == ("warp",):
        yield Edit("drop-bar-warp-sync", "")
    elif ins.opcode in ("bar", "barrier"):
        yield Edit(f"drop-{ins.opcode}-{ins.mods[-1]}", "")
        if len(ins.operands) > 1 and not any(m.startswith("red") for m in ins.mods):
            yield from _number(ins, 1, wrong_bar_count=-32)
    if _starts(ins, "setmaxnreg", "inc"):
        greedy = _number(ins, 0, greedy_setmaxnreg=8)
        yield from (e for e in greedy if not e.text.endswith(f" {MAX_REGISTERS + 8}"))


def tensor(ins: Instr, stage: int) -> Iterator[Edit]:
    """tcgen05.ld, st and mma: other Tensor Memory columns, other descriptor offsets."""
    if ins.opcode != "tcgen05" or not ins.mods:
        return
    statement = Statement.of(ins)
    if ins.mods[0] in ("ld", "st"):
        address = 1 if ins.mods[0] == "ld" else 0
        yield Edit("tmem-column+8", statement.moved(address, COLUMNS))
        yield Edit("tmem-column-8", statement.moved(address, -COLUMNS))
    elif ins.mods[0] == "mma":
        yield Edit("accumulator-column", statement.moved(0, COLUMNS))
        if isinstance(ins.operands[1], Reg):
            yield from _descriptor(statement, 1, "a")
        else:
            yield Edit("operand-column", statement.moved(1, COLUMNS))
        yield from _descriptor(statement, 2, "b")


def _descriptor(statement: Statement, position: int, name: str) -> Iterator[Edit]:
    for what, distance in (("k-step", K_STEP), ("row-group", ROW_GROUP), ("row-group", -ROW_GROUP)):
        add = f"add.s64 {{new}}, {{old}}, {distance}"
        sign = "+" if distance > 0 else "-"
        yield Edit(f"{name}-{what}{sign}", statement.computed(position, "b64", add))


def wgmma(ins: Instr, stage: int) -> Iterator[Edit]:
    """wgmma.wait_group: none, one group fewer; mma_async: none, other descriptor offsets, another
    stage's buffer, D kept where it is to be replaced and the other way round.

    Operands are {d}, descriptor of A or {a}, descriptor of B, scale-d (PTX ISA,
    "wgmma.mma_async").
    """
    if _starts(ins, "wgmma", "wait_group"):
        yield Edit("drop-wgmma-wait", "")
        yield from _number(ins, 0, weaker_wgmma_wait=1)
    if not _starts(ins, "wgmma", "mma_async"):
        return
    statement, scale = Statement.of(ins), ins.operands[3]
    yield Edit("drop-wgmma", "")
    for position, name in ((1, "a"), (2, "b")):
        if not isinstance(ins.operands[position], Vector):
            yield from _descriptor(statement, position, name)
            add = f"add.s64 {{new}}, {{old}}, {stage // DESCRIPTOR_BYTES}"
            yield Edit(f"{name}-wrong-stage", statement.computed(position, "b64", add))
    old = statement.operands[3]
    negated = old.removeprefix("!") if old.startswith("!") else f"!{old}"
    other = str(scale.value ^ 1) if isinstance(scale, Imm) else negated
    yield Edit("flip-scale-d", statement.put(3, other).text())


RULES: tuple[Rule, ...] = (
    waits, arrivals, commits, fences, copies, semantics, barriers, tensor, atomics, wgmma,
)  # fmt: skip
