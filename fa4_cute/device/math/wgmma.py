"""``wgmma.mma_async``: one product of a warp group as one straight block, and its completion.

D is in registers, which the tensor cores write until the product's group has completed: nobody may
touch them before :func:`wait` has returned them (PTX ISA, "wgmma.wait_group").
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cutlass import Float32, Int32

from ...plan.facts.umma import GRANULE_SHIFT, SmemOperand
from ...plan.facts.wgmma import WgmmaPlan, descriptor_words
from ..ptx import emit

_A_REGISTERS = 4


@dataclass(frozen=True)
class Spent:
    """An accumulator whose values nobody needs any more: the next D takes its registers.

    Left to itself the assembler gives every product registers of its own, puts off what is done
    with the one before, and spills. With a ``scale-d`` that it does not know, D is also read, and
    has to be done with first.

    Attributes:
        registers: at least as many as D has, or zeros stand in for the others.
        never: 0, unknown to the assembler.
    """

    registers: Sequence[Float32]
    never: Int32

    def first(self, count: int) -> list[Float32]:
        """Return ``count`` registers for the next D."""
        missing = count - len(self.registers)
        return [*self.registers[:count], *[Float32(0.0)] * missing]


def lower_word(operand: SmemOperand, address: Int32) -> Int32:
    """Return the lower word of ``operand``'s descriptor at shared ``address``."""
    return (address >> GRANULE_SHIFT) + descriptor_words(operand)[0]


def start_shared(
    plan: WgmmaPlan, a: Int32, b: Int32, spent: Spent | None = None
) -> list[Float32]:
    """Start D = A B of ``plan``; return D, to be waited for.

    Args:
        plan: the product.
        a: lower descriptor word of A.
        b: lower descriptor word of B.
        spent: whose registers D takes; None for any.

    DSL: ``cute.gemm`` takes register tensors and tensors over shared memory; scores are masked,
    modified and exponentiated here as lists of registers, which it would copy to and fro. It also
    ties no register of D to the wait.
    """
    assert plan.a is not None
    count = plan.num_registers
    before = spent.first(count) if spent else []
    d, first = ", ".join(f"${i}" for i in range(count)), count + len(before)
    majors, operands = _majors(plan, plan.a, plan.b), [*before, a, b]
    lines = [".reg .b64 a, b, b_first;", ".reg .b32 low;", *_counts(spent, first + 2)]
    lines += ["wgmma.fence.sync.aligned;", _descriptor("b_first", f"${first + 1}", plan.b)]
    for step, (a_step, b_step) in enumerate(zip(plan.a_steps, plan.b_steps, strict=True)):
        # A stays where it is: its lower words are constants to the loop.
        lines += [f"add.s32 low, ${first}, {a_step};", _descriptor("a", "low", plan.a)]
        lines.append(_advanced(b_step))
        more = _scale_d(step, spent)
        lines.append(f"{plan.instruction} {{{d}}}, a, b, {more}, 1, 1{majors};")
    lines.append("wgmma.commit_group.sync.aligned;")
    operands += [spent.never] if spent else []
    text = "{\n\t" + "\n\t".join(lines) + "\n\t}"
    return emit(text, (Float32,) * count, operands, tied=len(before))


def start_registers(
    plan: WgmmaPlan, d: Sequence[Float32] | Spent | None, a: Sequence[Int32], b: Int32
) -> list[Float32]:
    """Start D += A B of ``plan``; return D, to be waited for.

    Args:
        plan: the product.
        d: D so far; None starts from zeros, and so do registers that are spent.
        a: A in registers: four for each k-step.
        b: lower descriptor word of B.

    DSL: as for :func:`start_shared`.
    """
    count, spent = plan.num_registers, None
    if isinstance(d, Spent):
        spent, before = d, d.first(count)
    else:
        before = list(d or ())
    registers = ", ".join(f"${i}" for i in range(count))
    first = count + len(before)
    word = first + len(a)
    lines = [".reg .b64 b, b_first;", *_counts(spent, word + 1), "wgmma.fence.sync.aligned;"]
    lines.append(_descriptor("b_first", f"${word}", plan.b))
    for step, b_step in enumerate(plan.b_steps):
        more = _scale_d(step, d)
        start = first + step * _A_REGISTERS
        a_text = ", ".join(f"${i}" for i in range(start, start + _A_REGISTERS))
        lines.append(_advanced(b_step))
        lines.append(
            f"{plan.instruction} {{{registers}}}, {{{a_text}}}, b, {more}, 1, 1"
            f"{_majors(plan, plan.b)};"
        )
    lines.append("wgmma.commit_group.sync.aligned;")
    text = "{\n\t" + "\n\t".join(lines) + "\n\t}"
    operands = [*before, *a, b, *([spent.never] if spent else [])]
    return emit(text, (Float32,) * count, operands, tied=len(before))


def wait(d: Sequence[Float32], pending: int) -> list[Float32]:
    """Wait until at most ``pending`` products are under way; return ``d``, now defined.

    DSL: ``cute.nvgpu.warpgroup.wait_group`` emits the same instruction, tied to no value: the
    compiler may move a use in front of it.
    """
    text = f"wgmma.wait_group.sync.aligned {pending};"
    return emit(text, (Float32,) * len(d), tuple(d), tied=len(d))


def _majors(plan: WgmmaPlan, *operands: SmemOperand) -> str:
    """Return the operands that say which tiles are MN-major; only 16-bit types have a choice."""
    if plan.dtype.size == 1:
        return ""
    return "".join(f", {int(operand.mn_major)}" for operand in operands)


def _counts(spent: Spent | None, register: int) -> list[str]:
    """Return what sets the predicate ``counts`` from operand ``register``: nothing if unused."""
    if spent is None:
        return []
    return [".reg .pred counts;", f"setp.ne.b32 counts, ${register}, 0;"]


def _scale_d(step: int, d: Sequence[Float32] | Spent | None) -> str:
    """Return the operand that says whether D is added to in k-step ``step``."""
    if step == 0 and isinstance(d, Spent):
        return "counts"
    return str(int(step > 0 or d is not None))


def _descriptor(name: str, low: str, operand: SmemOperand) -> str:
    return f"mov.b64 {name}, {{{low}, {descriptor_words(operand)[1]:#x}}};"


def _advanced(step: int) -> str:
    # One uniform addition of 64 bits; with the words added apart there are two instructions.
    return f"add.s64 b, b_first, {step};"
