"""Shared memory of the calling CTA: single words, and vectors of two or four.

Addresses are 32-bit shared-memory window addresses (PTX ISA, "ld" and "st").
"""

from collections.abc import Sequence
from typing import TypeVar

from cutlass import Float32, Int32, cute

from ..pointers import shared

_WORD_BYTES = 4
Word = TypeVar("Word", Float32, Int32)


def load_f32(address: Int32) -> Float32:
    """Return the float at shared-memory ``address``."""
    return cute.arch.load(shared(address, Float32), Float32)


def load_vector(address: Int32, count: int, dtype: type[Word] = Float32) -> list[Word]:
    """Return two or four 32-bit words from a shared-memory ``address`` aligned to all of them."""
    source = shared(address, dtype, count * _WORD_BYTES)
    values = cute.make_tensor(source, cute.make_layout(count)).load()
    return [values[i] for i in range(count)]


def load_b32(address: Int32) -> Int32:
    """Return the 32-bit word at shared-memory ``address``."""
    return cute.arch.load(shared(address, Int32), Int32)


def store_f32(address: Int32, value: Float32) -> None:
    """Store one float at shared-memory ``address``."""
    cute.arch.store(shared(address, Float32), value)


def store_b32(address: Int32, value: Int32) -> None:
    """Store one 32-bit word at shared-memory ``address``."""
    cute.arch.store(shared(address, Int32), value)


def store_vector(address: Int32, words: Sequence[Int32]) -> None:
    """Store two or four 32-bit words at a shared-memory ``address`` aligned to all of them."""
    registers = cute.make_rmem_tensor(len(words), type(words[0]))
    for i, word in enumerate(words):
        registers[i] = word
    target = shared(address, type(words[0]), len(words) * _WORD_BYTES)
    cute.make_tensor(target, cute.make_layout(len(words))).store(registers.load())
