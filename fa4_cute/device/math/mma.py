"""``tcgen05.mma`` and ``tcgen05.commit``: one straight block of MMAs per stage, one elected lane.

Shared-memory operands are 64-bit descriptors. Their upper word is a constant of the operand's
layout; the lower word is ``LBO field | address >> 4``, so moving inside a tile is an addition to
it (PTX ISA, "Shared memory descriptor"). The election is repeated in each block: ``elect.sync``
returns the same lane for the same mask, and a commit must come from the lane that issued the MMAs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cutlass
from cutlass import Float32, Int32

from ...plan.facts.umma import ALL_LANES, GRANULE_SHIFT, SMEM_ADDRESS_BITS, MmaPlan, SmemOperand
from ..ptx import emit

_NEGATE_A = 1 << 13
"""Instruction descriptor bit 13 (``docs/sources.md`` section 13)."""
_ELECT = ".reg .pred leader;\n\telect.sync _|leader, -1;"


@dataclass(frozen=True)
class MmaBlock:
    """Static part of one block of MMAs.

    Args:
        kind: ``tcgen05.mma`` kind.
        a_upper: upper descriptor word of A, or None when A is in Tensor Memory.
        b_upper: upper descriptor word of B.
        steps: per MMA, the distance of its A and B from the operands' starts: in 16-byte units for
            shared memory, in columns for Tensor Memory.
        cta_group: CTAs that share each MMA.
        disabled: per MMA, the words of lanes that it does not write; empty for those of none.
        firsts: per MMA, whether it is the first that writes its lanes.
    """

    kind: str
    a_upper: int | None
    b_upper: int
    steps: tuple[tuple[int, int], ...]
    cta_group: int
    disabled: tuple[tuple[int, ...], ...]
    firsts: tuple[bool, ...]


def block_of(plan: MmaPlan, part: int = 0) -> MmaBlock:
    """Return part ``part`` of ``plan`` as one straight block of MMAs."""
    a_shift, blocks = 0 if plan.a_in_tmem else GRANULE_SHIFT, plan.k_blocks(part)
    steps = tuple((plan.a_offset(k) >> a_shift, plan.b_offset(k) >> GRANULE_SHIFT) for k in blocks)
    a_upper = None if plan.a is None else plan.a.descriptor(0) >> 32
    disabled = tuple(plan.disabled_lanes(k) for k in blocks)
    firsts = tuple(k == blocks.start or plan.is_first_of_copy(k) for k in blocks)
    b_upper = plan.b.descriptor(0) >> 32
    return MmaBlock(plan.kind, a_upper, b_upper, steps, plan.cta_group, disabled, firsts)


def lower_word(operand: SmemOperand, address: Int32) -> Int32:
    """Return the lower word of ``operand``'s descriptor at shared ``address``."""
    return (address >> GRANULE_SHIFT) + (operand.descriptor(0) & 0xFFFFFFFF)


def descriptor_address(address: Int32) -> Int32:
    """Return shared ``address`` without what a descriptor has no place for: the CTA's rank.

    In a cluster the addresses of all CTAs but the first carry the rank in their upper bits, which
    would run into the next field. Where only rank 0 issues MMAs there is nothing to remove.
    """
    return address & ((1 << SMEM_ADDRESS_BITS) - 1)


def signed_instruction(bits: int, scale: Float32) -> Int32:
    """Return the instruction descriptor that negates A when the softmax scale is negative.

    The softmax works on scale magnitudes: with -S instead of S the maximum stays the maximum.
    """
    negative = scale < Float32(0.0)
    return Int32(cutlass.select_(negative, Int32(bits | _NEGATE_A), Int32(bits)))


def issue(
    block: MmaBlock,
    accumulator: Int32,
    a: Int32,
    b: Int32,
    instruction: Int32,
    accumulate: Int32 | int,
) -> None:
    """Issue ``accumulator (+)= A B`` for every step of ``block``.

    Args:
        block: the static part.
        accumulator: Tensor Memory address of D.
        a: lower descriptor word of A, or its Tensor Memory address.
        b: lower descriptor word of B.
        instruction: instruction descriptor.
        accumulate: 0 overwrites the lanes of D with their first product; later steps always
            accumulate.

    DSL: ``cute.gemm`` elects a lane and branches around each MMA instead of once per block, adds to
    64-bit descriptors, and names a lane mask and ``.collector::a::discard``.
    """
    lines = [_ELECT, ".reg .pred more;", ".reg .b64 a, b;", ".reg .b32 low;"]
    lines.append("setp.ne.b32 more, $4, 0;")
    if any(block.disabled):
        lines.append(".reg .b32 lanes, none;")
        lines += ["mov.b32 lanes, 0;", f"mov.b32 none, {ALL_LANES:#x};"]
    for index, (a_step, b_step) in enumerate(block.steps):
        enable = "more" if block.firsts[index] else "1"
        words = ", ".join("none" if word else "lanes" for word in block.disabled[index])
        lanes = f"{{{words}}}, " if words else ""
        if block.a_upper is None:
            a_text = f"[$1 + {a_step}]" if a_step else "[$1]"
        else:
            lines += _descriptor("a", "$1", a_step, block.a_upper)
            a_text = "a"
        lines += _descriptor("b", "$2", b_step, block.b_upper)
        lines.append(
            f"@leader tcgen05.mma.cta_group::{block.cta_group}.kind::{block.kind} "
            f"[$0], {a_text}, b, $3, {lanes}{enable};"
        )
    operands = (accumulator, a, b, instruction, accumulate)
    emit("{\n\t" + "\n\t".join(lines) + "\n\t}", (), operands)


def commit(mbarrier: Int32) -> None:
    """Arrive on ``mbarrier`` once all MMAs issued so far by the elected lane have completed.

    DSL: ``tcgen05.commit`` under ``cute.arch.elect_one`` emits the same instruction after an
    election of its own and a branch: up to 24 instructions more in a kernel.
    """
    emit(
        "{\n\t" + _ELECT + "\n\t"
        "@leader tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [$0];\n\t}",
        (),
        (mbarrier,),
    )


def _descriptor(name: str, low: str, step: int, upper: int) -> Sequence[str]:
    return (f"add.s32 low, {low}, {step};", f"mov.b64 {name}, {{low, {upper:#x}}};")
