"""tcgen05.cp: every shape against a plain statement of its destination, and its rules."""

import numpy as np
import pytest

from sm100sim.ptx.errors import Unsupported
from sm100sim.report import SimulationFault
from testing.layouts.smem_desc import SmemDescriptor, Swizzle
from tests.sim.isa.tcgen05.programs import IMAGE_START, run_frame

ROWS = np.arange(128)
DESTINATION = {
    "128x256b": (128, 8, [ROWS]),
    "128x128b": (128, 4, [ROWS]),
    "4x256b": (4, 8, [32 * ROWS[:4]]),
    "64x128b.warpx2::02_13": (64, 4, [ROWS[:64], ROWS[:64] + 64]),
    "64x128b.warpx2::01_23": (64, 4, [np.r_[0:32, 64:96], np.r_[32:64, 96:128]]),
    "32x128b.warpx4": (32, 4, [ROWS[:32] + 32 * p for p in range(4)]),
}
"""shape -> (source rows, columns, lanes of each copy)."""


def program(shape: str, desc: SmemDescriptor, column: int, group: int = 1) -> str:
    word = desc.encode()
    return f"""
mov.b64 %rd5, {word}; @!%q5 bra ISSUED;
tcgen05.cp.cta_group::{group}.{shape} [%r30 + {column}], %rd5;
tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster{MULTICAST[group]};
ISSUED:
"""


MULTICAST = {1: ".b64 [%r31]", 2: ".multicast::cluster.b64 [%r31], 3"}


@pytest.mark.parametrize("mode", ["fast", "late"])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("swizzle", [Swizzle.NONE, Swizzle.B128])
@pytest.mark.parametrize("shape", DESTINATION)
def test_copy_places_rows(shape: str, swizzle: Swizzle, group: int, mode: str) -> None:
    rng = np.random.default_rng(len(shape))
    images = [rng.integers(0, 256, 32768, np.uint8) for _ in range(group)]
    tmem = rng.integers(0, 1 << 32, (group, 128, 512), np.uint32)
    rows, columns, copies = DESTINATION[shape]
    desc = SmemDescriptor(IMAGE_START + 256, 2048, 1024, swizzle)
    if swizzle is Swizzle.NONE:
        desc = SmemDescriptor(IMAGE_START + 48, 4096, 160, swizzle)
    want = tmem.copy()
    address = desc.bit_addresses(mn_major=False, element_bits=32, rows=rows, k=8)[:, :columns] // 8
    for cta in range(group):
        words = np.stack([images[cta][address - IMAGE_START + k] for k in range(4)], axis=-1)
        for lanes in copies:
            want[cta][lanes, 12 : 12 + columns] = words.view(np.uint32)[..., 0]
    text = program(shape, desc, 12, group)
    if swizzle is Swizzle.NONE:  # a base offset, as Triton writes it, means nothing then
        text = text.replace(str(desc.encode()), str(desc.encode() | 4 << 49))
    _, after = run_frame(text, images, tmem, group=group, mode=mode)
    np.testing.assert_array_equal(after, want)


@pytest.mark.parametrize(("form", "bits"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
def test_packed_elements_go_to_the_middle_of_a_byte_each(form: str, bits: int) -> None:
    """PTX ISA, "Optional Decompression"; the place is that of CUTLASS's cp_narrow_a_to_tmem_mma."""
    rng = np.random.default_rng(bits)
    image = rng.integers(0, 256, 32768, np.uint8)
    tmem = np.zeros((1, 128, 512), np.uint32)
    desc = SmemDescriptor(IMAGE_START, 16, 256, Swizzle.NONE)
    _, after = run_frame(program(f"128x128b.b8x16.{form}", desc, 12), [image], tmem)
    rows = np.arange(128)
    starts = rows % 8 * 16 + rows // 8 * 256
    units = np.unpackbits(image[starts[:, None] + np.arange(16)], axis=1, bitorder="little")
    codes = units[:, : 16 * bits].reshape(128, 16, bits) @ (1 << np.arange(bits))
    got = np.ascontiguousarray(after[0, :, 12:16]).view(np.uint8)
    np.testing.assert_array_equal(got, codes << (8 - bits) // 2)


LEGAL = SmemDescriptor(IMAGE_START, 16, 128)
IMAGE = [np.zeros(4096, np.uint8)]
TMEM = np.zeros((1, 128, 512), np.uint32)


@pytest.mark.parametrize(
    ("desc", "column", "code"),
    [
        (LEGAL, 509, "access-out-of-physical-bounds"),
        (LEGAL, 0x100000, "invalid-datapath-alignment"),
        (SmemDescriptor(IMAGE_START, 16, 2048), 0, "smem-operand-bounds"),
        (SmemDescriptor(0, 16, 128), 0, "smem-operand-bounds"),
    ],
)
def test_rules(desc: SmemDescriptor, column: int, code: str) -> None:
    run_frame(program("32x128b.warpx4", LEGAL, 508), IMAGE, TMEM)
    with pytest.raises(SimulationFault, match=code):
        run_frame(program("32x128b.warpx4", desc, column), IMAGE, TMEM)


def test_several_lanes_are_refused() -> None:
    text = program("32x128b.warpx4", LEGAL, 0).replace("@!%q5 bra ISSUED;", "")
    with pytest.raises(SimulationFault, match="several-lanes-issue"):
        run_frame(text, IMAGE, TMEM)


@pytest.mark.parametrize("shape", ["64x128b", "32x128b.warpx2::02_13", "128x256b.b4x16_p64"])
def test_unknown_forms_stop_with_their_line(shape: str) -> None:
    with pytest.raises(Unsupported, match=r"tcgen05\.cp"):
        run_frame(program(shape, LEGAL, 0), IMAGE, TMEM)


def test_shift_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"tcgen05\.shift"):
        run_frame("tcgen05.shift.cta_group::1.down [%r30];", IMAGE, TMEM)
