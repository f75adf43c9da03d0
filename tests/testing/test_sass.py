"""Paths through machine code and the stalls along them."""

from testing.sass import Instruction, fewest_stalls, parse, spills

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
