"""Sections of cubins."""

import numpy as np
import pytest

from sm100sim.timing.sass.cubin import kernels, registers, sections
from sm100sim.timing.sass.disassemble import disassembled
from sm100sim.timing.sass.tools import assembled
from testing.harness import kernel_text

SOURCE = kernel_text("st.global.b32 [%p0], %n0;", [np.zeros(1, np.uint32), 1])


def test_registers_are_those_that_ptxas_gives() -> None:
    bounded = SOURCE.replace(")\n\n{", ")\n.maxnreg 40\n{")
    assert bounded != SOURCE
    found = sections(assembled(bounded, "sm_100a"))
    assert kernels(found) == ["k"]
    assert 0 < registers(found, "k") <= 40
    del found[".nv.info"]
    with pytest.raises(ValueError, match="register count"):
        registers(found, "k")


def test_what_is_no_cubin_is_refused() -> None:
    with pytest.raises(ValueError, match="no ELF"):
        sections(b"MZ" + bytes(100))
    with pytest.raises(ValueError, match="it has k"):
        disassembled(assembled(SOURCE, "sm_100a"), "sm_100a", "other")
