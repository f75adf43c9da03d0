"""Shared-memory descriptors: constants of real kernels, worked addresses, the engine's copy."""



import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sm100sim.engine.binding import load_engine
from testing.layouts.smem_desc import SmemDescriptor, Swizzle

OFFSETS = st.integers(0, (1 << 14) - 1).map(lambda x: x * 16)
DESCRIPTORS = st.builds(SmemDescriptor, OFFSETS, OFFSETS, OFFSETS, st.sampled_from(list(Swizzle)))


@given(DESCRIPTORS)
def test_encode_and_decode_are_inverse(descriptor: SmemDescriptor) -> None:
    assert SmemDescriptor.decode(descriptor.encode()) == descriptor


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0x4000404000011900, SmemDescriptor(0x19000, 16, 1024, Swizzle.B128)),
        (0x4000404004000000, SmemDescriptor(0, 16384, 1024, Swizzle.B128)),
        (0x2000402001000000, SmemDescriptor(0, 4096, 512, Swizzle.B128_ATOM32)),
        (0x0000400800010000, SmemDescriptor(0, 16, 128, Swizzle.NONE)),
    ],
)
def test_constants_emitted_by_the_dsl(word: int, expected: SmemDescriptor) -> None:
    assert SmemDescriptor.decode(word) == expected
    assert expected.encode() == word


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (14, "reserved"),
        (31, "reserved"),
        (53, "reserved"),
        (46, "46-48"),
        (49, "base"),
        (52, "LBO"),
    ],
)
def test_illegal_bits_are_named(bit: int, name: str) -> None:
    legal = SmemDescriptor(1024, 16, 1024, Swizzle.B128).encode()
    with pytest.raises(ValueError, match=name):
        SmemDescriptor.decode(legal ^ 1 << bit)


@pytest.mark.parametrize("code", [3, 5, 7])
def test_missing_swizzle_codes_are_refused(code: int) -> None:
    with pytest.raises(ValueError, match=f"code {code}"):
        SmemDescriptor.decode(1 << 46 | code << 61)


def test_misaligned_start_is_refused() -> None:
    with pytest.raises(ValueError, match="start = 8"):
        SmemDescriptor(8)


def test_worked_addresses_of_the_isa_notes() -> None:
    q = SmemDescriptor.decode(0x4000404000011900)
    k_major = q.bit_addresses(mn_major=False, element_bits=16, rows=128, k=16)
    assert k_major[13, 9] == 0x196C2 * 8
    v = SmemDescriptor(0x21000, 0, 1024, Swizzle.B128)
    mn_major = v.bit_addresses(mn_major=True, element_bits=16, rows=64, k=16)
    assert mn_major[20, 11] == 0x21598 * 8


@pytest.mark.parametrize("step", range(4))
def test_k_steps_read_what_a_128b_swizzled_copy_wrote(step: int) -> None:
    """The copy puts column c of row r at r * 128 + 2c, address bits 4-6 XOR bits 7-9."""
    base = 0x400 + 256
    address = SmemDescriptor(base + 32 * step, 16, 1024, Swizzle.B128).bit_addresses(
        mn_major=False, element_bits=16, rows=64, k=16
    )
    row, k = np.meshgrid(np.arange(64), np.arange(16), indexing="ij")
    linear = base + row * 128 + (16 * step + k) * 2
    np.testing.assert_array_equal(address, (linear ^ (linear >> 7 & 7) << 4) * 8)


@pytest.mark.parametrize("mn_major", [False, True])
@given(descriptor=DESCRIPTORS)
@settings(max_examples=60, deadline=None)
def test_engine_computes_the_same_unit_addresses(
    mn_major: bool, descriptor: SmemDescriptor
) -> None:
    unit = load_engine().smem_unit_address
    rows, k = (32, 32) if mn_major else (64, 32)
    byte = descriptor.bit_addresses(mn_major=mn_major, element_bits=8, rows=rows, k=k) // 8
    word = descriptor.encode()
    if mn_major:
        mine = [[byte[16 * u, kk] for kk in range(k)] for u in range(rows // 16)]
        theirs = [[unit(word, True, u, kk) for kk in range(k)] for u in range(rows // 16)]
    else:
        mine = [[byte[r, 16 * u] for u in range(2)] for r in range(rows)]
        theirs = [[unit(word, False, r, u) for u in range(2)] for r in range(rows)]
    np.testing.assert_array_equal(np.array(theirs), np.array(mine))
