"""Matrix descriptors against the addresses that an H200's wgmma read.

sm_90 and sm_100 descriptors have the same start, LBO, SBO and swizzle fields. What is not a
descriptor of tcgen05 in the simulator, a base offset other than 0, is one of wgmma: the recorded
programs run on the simulator, too, with every base offset.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sm100sim.engine.binding import load_engine
from sm100sim.launch_request import LaunchRequest
from sm100sim.run import run
from testing.layouts.smem_desc import SmemDescriptor, Swizzle
from tests.sim.isa.wgmma.descriptor_programs import IDENTITY as OTHER_OPERAND
from tests.sim.isa.wgmma.descriptor_programs import (
    IMAGE_BYTES,
    ROWS,
    SHOWN,
    STARTS,
    K,
    Question,
    cells_read,
    hopper,
    image,
    text,
    unpack,
)

Addresses = npt.NDArray[np.int64]
PATH = Path(__file__).parents[2] / "data" / "wgmma-descriptors-h200.json"
PROGRAMS: list[dict[str, Any]] = json.loads(PATH.read_text())
CELLS_PER_UNIT = 8


def name(row: dict[str, Any]) -> str:
    return f"{row['operand']}-{'MN' if row['mn_major'] else 'K'}-{row['swizzle']}"


def answers(row: dict[str, Any]) -> list[tuple[Question, SmemDescriptor, Addresses]]:
    """(question, the simulator's descriptor, byte addresses [64, 16] that the chip read)."""
    return [
        (q, SmemDescriptor(row["base"] + q.start, q.lbo, q.sbo, Swizzle[row["swizzle"]]), seen)
        for q, seen in zip((Question(*x) for x in row["questions"]), unpack(row), strict=True)
    ]


def simulated(row: dict[str, Any], descriptor: SmemDescriptor) -> Addresses:
    bits = descriptor.bit_addresses(
        mn_major=row["mn_major"], element_bits=16, rows=ROWS, k=K
    )  # fmt: skip
    return bits // 8


def test_record_asks_every_start_of_every_program() -> None:
    assert len({name(row) for row in PROGRAMS}) == 16
    for row in PROGRAMS:
        plain = [q for q, _, _ in answers(row) if q.base_offset == 0]
        assert len(plain) == 2 * len(STARTS)
        assert all((seen >= row["base"]).all() for _, _, seen in answers(row))


@pytest.mark.parametrize("row", PROGRAMS, ids=name)
def test_same_addresses_as_the_chip(row: dict[str, Any]) -> None:
    for question, descriptor, seen in answers(row):
        if question.base_offset == 0:
            np.testing.assert_array_equal(simulated(row, descriptor), seen, str(question))


@pytest.mark.parametrize("row", PROGRAMS, ids=name)
def test_engine_reads_the_units_that_the_chip_read(row: dict[str, Any]) -> None:
    unit = load_engine().smem_unit_address
    mn_step, k_step = (CELLS_PER_UNIT, 1) if row["mn_major"] else (1, CELLS_PER_UNIT)
    for question, descriptor, seen in answers(row):
        if question.base_offset:
            continue
        word = descriptor.encode()
        firsts = seen[::mn_step, ::k_step]
        mine = [[unit(word, row["mn_major"], i, j) for j in range(firsts.shape[1])]
                for i in range(firsts.shape[0])]  # fmt: skip
        np.testing.assert_array_equal(np.array(mine), firsts, str(question))


@pytest.mark.parametrize("row", PROGRAMS, ids=name)
def test_base_offset_is_taken_from_the_xor_source(row: dict[str, Any]) -> None:
    """On sm_90 the XOR source is address bits 7 and up, less the base offset."""
    swizzle = Swizzle[row["swizzle"]]
    mask = (1 << swizzle.parameters[0]) - 1
    for question, descriptor, seen in answers(row):
        linear = swizzle.apply(simulated(row, descriptor))
        source = (linear >> 7) - question.base_offset & mask
        np.testing.assert_array_equal(linear ^ source << 4, seen, str(question))


def test_record_tells_absolute_addresses_from_offsets_in_the_tile() -> None:
    row = next(r for r in PROGRAMS if name(r) == "A-K-B128")
    different = 0
    for question, descriptor, seen in answers(row):
        if question.base_offset == 0:
            at_zero = SmemDescriptor(0, descriptor.lbo, descriptor.sbo, descriptor.swizzle)
            different += bool((simulated(row, at_zero) + descriptor.start != seen).any())
    assert different > len(STARTS)


@pytest.mark.slow
@pytest.mark.parametrize("row", PROGRAMS, ids=name)
def test_recorded_program_reads_the_same_cells_on_the_simulator(row: dict[str, Any]) -> None:
    asked = [Question(*x) for x in row["questions"]]
    place = 0 if row["operand"] == "A" else 1
    table = np.zeros((len(asked), 4), np.uint64)
    table[:, 1 - place] = hopper(OTHER_OPERAND)
    table[:, place] = [q.word(Swizzle[row["swizzle"]]) for q in asked]
    given = np.frombuffer(image(), np.uint8).copy()
    out = np.zeros(SHOWN * len(asked), np.uint8)
    params = tuple(int(a.ctypes.data).to_bytes(8, "little") for a in (given, table, out))
    ptx = text(row["operand"], row["mn_major"])
    grid, block, smem = (len(asked), 1, 1), (128, 1, 1), IMAGE_BYTES + 1024
    request = LaunchRequest(
        ptx=ptx,
        kernel="k",
        grid=grid,
        block=block,
        cluster=(1, 1, 1),
        smem_bytes=smem,
        params=params,
    )
    run(request, buffers=[given, table, out])
    seen = unpack(row)
    chip = np.where(seen < 0, -1, (seen - row["base"]) // 2)
    np.testing.assert_array_equal(cells_read(row["operand"], out), chip)
