"""Paths through machine code, and T1 of the shipped softmax loops."""

import pytest

from benchmarks.sass_paths import Instruction, disassemble, fewest_stalls, parse, spills
from benchmarks.static_t1 import softmax_loops
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from tests.kernel.artifacts import compiled, nvdisasm

LISTING = """
.L_x_0:
        /*0000*/                   IADD3 R1, R1, 0x1, RZ ;   /* 0x0000000101017810 */
                                                             /* 0x000fca0007ffe0ff */
        /*0010*/              @!P0 BRA `(.L_x_0) ;           /* 0xfffffffc00f88947 */
                                                             /* 0x000fea000383ffff */
        /*0020*/                   STL [R1], R2 ;            /* 0x0000000201007387 */
                                                             /* 0x0001e20000100800 */
        /*0030*/                   EXIT ;                    /* 0x000000000000794d */
                                                             /* 0x000fea0003800000 */
"""
LONGEST_T1 = {64: 1400, 128: 930, 192: 500}
"""Stall cycles; FlashAttention-4's own d128 kernel has 930 with this compiler."""


def test_a_listing_is_read_with_its_stalls_and_branches() -> None:
    code = parse(LISTING)
    assert [c.text.split()[0] for c in code] == ["IADD3", "@!P0", "STL", "EXIT"]
    assert [c.stall for c in code] == [5, 5, 1, 5]
    assert [c.successors for c in code] == [(1,), (2, 0), (3,), ()]
    assert spills(code) == 1


def test_the_path_with_the_fewest_stalls_is_found() -> None:
    code = [
        Instruction("a", 4, (1, 2)),
        Instruction("slow", 9, (3,)),
        Instruction("fast", 2, (3,)),
        Instruction("end", 1, ()),
    ]
    assert fewest_stalls(code, 0) == {0: 0, 1: 4, 2: 4, 3: 6}


@pytest.mark.parametrize("head_dim", [64, 128, 192])
def test_t1_stays_short(head_dim: int) -> None:
    spec = KernelSpec.for_attention(DType.BF16, head_dim, return_lse=True)
    loops = list(softmax_loops(disassemble(compiled(spec).cubin, nvdisasm())))
    assert len(loops) == 2
    for loop in loops:
        assert loop.three_quarters < LONGEST_T1[head_dim]
        assert loop.three_quarters < loop.all_of_p
