"""Single words of global memory: lengths, offsets, page numbers, biases; and rows written directly.

Addresses are 64-bit; offsets are computed in 64 bits, since tensors may exceed 2**31 bytes.
"""

from collections.abc import Sequence

from cutlass import Float32, Int32, Int64, cute

from ..pointers import in_global
from ..ptx import emit

WORD_BYTES = 4
HALF_BYTES = 2
_VECTOR_WORDS = 4


def word_address(base: Int64, index: Int32 | int) -> Int64:
    """Return the address of 32-bit word ``index`` of an array."""
    return element_address(base, index, WORD_BYTES)


def element_address(base: Int64, index: Int32 | int, size: int) -> Int64:
    """Return the address of element ``index`` of an array of elements of ``size`` bytes."""
    return base + Int64(index) * size


def load_i32(address: Int64) -> Int32:
    """Load an integer."""
    return cute.arch.load(in_global(address, Int32), Int32)


def load_f32(address: Int64) -> Float32:
    """Load a float."""
    return cute.arch.load(in_global(address, Float32), Float32)


def load_half_below(address: Int64, index: int, count: Int32) -> Int32:
    """Load 16-bit number ``index`` of the ``count`` at ``address`` as the low half of a word, or 0.

    The index is part of the instruction, so that many loads share the registers of one address.

    DSL: ``cute.arch.load`` has no predicate; a branch around each of many loads would part them.
    """
    return emit(
        "{\n\t.reg .pred inside;\n\t.reg .b16 half, zero;\n\t"
        f"setp.gt.s32 inside, $2, {index};\n\tmov.b16 half, 0;\n\tmov.b16 zero, 0;\n\t"
        f"@inside ld.global.b16 half, [$1+{index * HALF_BYTES}];\n\t"
        "mov.b32 $0, {half, zero};\n\t}",
        (Int32,),
        (address, count),
    )[0]


def load_words_below(
    address: Int64, below: tuple[int, Int32], offset: int, width: int
) -> list[Int32]:
    """Load 1, 2, 4 or, on Blackwell, 8 words ``offset`` bytes after ``address``, or zeros.

    They start at a multiple of their size, and are loaded where the first number of ``below`` is
    the lower one.

    DSL: as for :func:`load_half_below`.
    """
    index, count = below
    names = ", ".join(f"${i}" for i in range(width))
    vector, names = (f".v{width}", f"{{{names}}}") if width > 1 else ("", names)
    zeros = "".join(f"mov.b32 ${i}, 0;\n\t" for i in range(width))
    return emit(
        "{\n\t.reg .pred inside;\n\t"
        f"setp.gt.s32 inside, ${width + 1}, {index};\n\t{zeros}"
        f"@inside ld.global{vector}.b32 {names}, [${width}+{offset}];\n\t}}",
        (Int32,) * width,
        (address, count),
    )


def store_f32(address: Int64, value: Float32) -> None:
    """Store a float."""
    cute.arch.store(in_global(address, Float32), value)


def load_f32x4(address: Int64, valid: Int32) -> list[Float32]:
    """Load four floats from a 16-byte aligned address, or return zeros when ``valid`` is 0.

    DSL: as for :func:`load_half_below`.
    """
    return emit(
        "{\n\t.reg .pred valid;\n\tsetp.ne.b32 valid, $5, 0;\n\t"
        "mov.f32 $0, 0f00000000;\n\tmov.f32 $1, 0f00000000;\n\t"
        "mov.f32 $2, 0f00000000;\n\tmov.f32 $3, 0f00000000;\n\t"
        "@valid ld.global.v4.f32 {$0, $1, $2, $3}, [$4];\n\t}",
        (Float32,) * _VECTOR_WORDS,
        (address, valid),
    )


def load_16x4(address: Int64, valid: Int32, ptx_type: str) -> list[Float32]:
    """Load four numbers of ``ptx_type`` (``bf16`` or ``f16``) from an 8-byte aligned address.

    They are widened to floats; zeros when ``valid`` is 0.

    DSL: as for :func:`load_half_below`.
    """
    return emit(
        "{\n\t.reg .pred valid;\n\t.reg .b32 low, high;\n\t.reg .b16 a, b, c, d;\n\t"
        "setp.ne.b32 valid, $5, 0;\n\tmov.b32 low, 0;\n\tmov.b32 high, 0;\n\t"
        "@valid ld.global.v2.b32 {low, high}, [$4];\n\t"
        "mov.b32 {a, b}, low;\n\tmov.b32 {c, d}, high;\n\t"
        f"cvt.f32.{ptx_type} $0, a;\n\tcvt.f32.{ptx_type} $1, b;\n\t"
        f"cvt.f32.{ptx_type} $2, c;\n\tcvt.f32.{ptx_type} $3, d;\n\t}}",
        (Float32,) * _VECTOR_WORDS,
        (address, valid),
    )


def store_word(address: Int64, word: Int32, valid: Int32) -> None:
    """Store one 32-bit word unless ``valid`` is 0.

    DSL: as for :func:`store_pair`.
    """
    emit(
        "{\n\t.reg .pred valid;\n\tsetp.ne.b32 valid, $1, 0;\n\t"
        "@valid st.global.b32 [$0], $2;\n\t}",
        (),
        (address, valid, word),
    )


def store_pair(address: Int64, words: Sequence[Int32 | Float32], valid: Int32) -> None:
    """Store two 32-bit words at an 8-byte aligned ``address`` unless ``valid`` is 0.

    DSL: ``cute.arch.store`` has no predicate; the thread would leave its warp by a branch.
    """
    emit(
        "{\n\t.reg .pred valid;\n\tsetp.ne.b32 valid, $1, 0;\n\t"
        "@valid st.global.v2.b32 [$0], {$2, $3};\n\t}",
        (),
        (address, valid, *words),
    )


def store_words(address: Int64, words: Sequence[Int32 | Float32], valid: Int32) -> None:
    """Store 32-bit ``words``, a multiple of four, from a 16-byte aligned ``address`` on.

    ``valid`` of 0 stores nothing; the thread still takes part in what its warp does together.

    DSL: as for :func:`store_pair`.
    """
    for i in range(0, len(words), _VECTOR_WORDS):
        offset = f"+{i * WORD_BYTES}" if i else ""
        emit(
            "{\n\t.reg .pred valid;\n\tsetp.ne.b32 valid, $1, 0;\n\t"
            f"@valid st.global.v4.b32 [$0{offset}], {{$2, $3, $4, $5}};\n\t}}",
            (),
            (address, valid, *words[i : i + _VECTOR_WORDS]),
        )


def count_below(address: Int64, last: Int32, valid: Int32) -> Int32:
    """Count at ``address`` up to ``last`` and then from 0 again; return 1 if it was ``last``.

    Releases and acquires at GPU scope. ``valid`` of 0 counts nothing and returns 0.

    DSL: ``cute.arch.atomic_inc`` has no predicate; a branch would part the threads of the warp.
    """
    return emit(
        "{\n\t.reg .pred counts, found;\n\t.reg .b32 before;\n\tsetp.ne.b32 counts, $3, 0;\n\t"
        "mov.b32 before, 0;\n\t"
        "@counts atom.acq_rel.gpu.global.inc.u32 before, [$1], $2;\n\t"
        "setp.eq.and.b32 found, before, $2, counts;\n\tselp.b32 $0, 1, 0, found;\n\t}",
        (Int32,),
        (address, last, valid),
    )[0]


class AuxTensor:
    """A float32 tensor that a score modifier reads: ``aux[i, j]``, indices as registers or ints."""

    def __init__(self, address: Int64, strides: tuple[Int64, ...]) -> None:
        """Take the address of element 0 and the strides in bytes."""
        self.address = address
        self.strides = strides

    def __getitem__(self, index: Int32 | int | tuple[Int32 | int, ...]) -> Float32:
        """Load one element.

        Raises:
            IndexError: when the number of indices is not the tensor's rank.
        """
        return load_f32(self.address_of(index if isinstance(index, tuple) else (index,)))

    def address_of(self, indices: tuple[Int32 | int, ...]) -> Int64:
        """Return the address of one element; errors as for an element."""
        if len(indices) != len(self.strides):
            raise IndexError(f"aux[{indices}]: the tensor has {len(self.strides)} dimensions")
        address = self.address
        for i, stride in zip(indices, self.strides, strict=True):
            address = address + Int64(i) * stride
        return address
