"""Listings of nvdisasm as instructions with their control codes, targets and lines."""

import pytest

from sm100sim.timing.records import Pipe
from sm100sim.timing.sass.disassemble import Listing
from sm100sim.timing.sass.pipes import pipe_of

LISTING = """
\t.section\t.text.other,"ax",@progbits
        /*0000*/                   EXIT ;                    /* 0x000000000000794d */
                                                             /* 0x000fea0003800000 */
\t.section\t.text.k,"ax",@progbits
.L_x_0:
\t//## File "ptx", line 34
        /*0000*/                   MUFU.EX2 R1, R2 ;         /* 0x0000000201017308 */
                                                             /* 0x004e620000000800 */
\t//## File "other.cu", line 7
        /*0010*/              @!P0 BRA `(.L_x_0) ;           /* 0xfffffffc00f88947 */
                                                             /* 0x000fea000383ffff */
        /*0020*/                   BRX R4 -0x30 (*"BRANCH_TARGETS .L_x_0,.L_x_1"*) ; /* 0xfffffffc04c87949 */
                                                             /* 0x008fea000383ffff */
.L_x_1:
        /*0030*/                   EXIT ;                    /* 0x000000000000794d */
                                                             /* 0x000fea0003800000 */
"""  # noqa: E501


def test_an_instruction_has_its_control_codes_and_its_line() -> None:
    first, branch, table, end = Listing.of(LISTING, ".text.k").instructions()
    assert (first.opcode, first.modifiers, first.operands) == ("MUFU", ("EX2",), "R1, R2")
    assert (first.pipe, first.ptx_line, first.address) == (Pipe.MUFU, 34, 0)
    assert (first.stall, first.yields) == (1, False)
    assert (first.write_barrier, first.read_barrier, first.wait_mask) == (1, None, 0b100)
    assert (branch.guard, branch.targets, branch.ptx_line) == ("!P0", (0,), None)
    assert (branch.stall, branch.write_barrier) == (5, None)
    assert table.targets == (0, 3)
    assert end.targets == ()
    assert table.wait_mask == 0b1000


def test_without_a_section_everything_is_read() -> None:
    assert len(Listing.of(LISTING).code) == 5
    assert not Listing.of(LISTING, ".text.none").code


def test_units() -> None:
    known = {"FFMA2": Pipe.FMA_PACKED, "FFMA": Pipe.FMA_LITE, "IMAD": Pipe.FMA_HEAVY,
             "LDTM": Pipe.TMEM, "UTCHMMA": Pipe.TENSOR, "UIADD3": Pipe.UNIFORM,
             "SYNCS": Pipe.BARRIER, "UTMALDG": Pipe.TMA, "ENDCOLLECTIVE": Pipe.CONTROL}  # fmt: skip
    assert {name: pipe_of(name) for name in known} == known
    with pytest.raises(ValueError, match="QUUX"):
        pipe_of("QUUX")
