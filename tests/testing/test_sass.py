"""Paths through machine code and the stalls along them."""

import pytest

from testing.sass import (
    FEWEST_EXPONENTIALS,
    Instruction,
    SoftmaxLoop,
    fewest_stalls,
    parse,
    softmax_loops,
    spills,
)

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


def tile(*, before_load: int, parts: int = 2) -> list[str]:
    """A softmax tile: a wait, other work, a load, exponentials, hand-overs and the way back."""
    handed = ["FENCE.VIEW.ASYNC.T", "SYNCS.ARRIVE"]
    begin = ["TRYWAIT", *["IADD3"] * before_load, "LDTM", *["MUFU.EX2"] * FEWEST_EXPONENTIALS]
    return [*begin, *handed, *["FADD2", *handed] * (parts - 1), "BRA back"]


OUTPUT = ["TRYWAIT", "LDTM", "STS", "EXIT"]
"""The end of a role: it waits for O and loads it, and hands nothing over."""


def program(texts: list[str]) -> list[Instruction]:
    """One cycle an instruction; a branch goes back to the last wait, or on."""
    code = []
    for i, text in enumerate(texts):
        after: tuple[int, ...] = () if text == "EXIT" else (i + 1,)
        if text == "BRA back":
            after += (max(j for j in range(i) if texts[j] == "TRYWAIT"),)
        code.append(Instruction(text, 1, after))
    return code


@pytest.mark.parametrize("before_load", [0, 40])
def test_softmax_tiles_are_found_behind_the_ends_of_other_roles(before_load: int) -> None:
    texts = [*OUTPUT, *tile(before_load=before_load), *OUTPUT, *tile(before_load=0), *OUTPUT]
    first, second = softmax_loops(program(texts))
    three_quarters = 1 + 1 + FEWEST_EXPONENTIALS + 1
    assert second == SoftmaxLoop(three_quarters, three_quarters + 3, three_quarters + 5)
    assert first.three_quarters == second.three_quarters + before_load
    assert first.all_of_p == second.all_of_p + before_load
    assert first.turn == second.turn + before_load


def test_p_that_is_handed_over_as_a_whole() -> None:
    texts = [*tile(before_load=0, parts=1), *OUTPUT, *tile(before_load=0, parts=1), *OUTPUT]
    handed = 1 + 1 + FEWEST_EXPONENTIALS + 1
    assert list(softmax_loops(program(texts))) == [SoftmaxLoop(handed, handed, handed + 2)] * 2


def test_a_hand_over_without_exponentials_is_no_softmax_tile() -> None:
    texts = [text for text in tile(before_load=0) if text != "MUFU.EX2"]
    assert list(softmax_loops(program([*texts, *OUTPUT]))) == []
