"""Element types of the operands, with the facts a plan needs about each."""

from __future__ import annotations

from enum import Enum
from typing import Final

from .hardware import MMA_K_BYTES, SwizzleMode


class DType(Enum):
    """Element type; the value is its name. ``INVALID`` marks an operand that does not exist."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8_E4M3 = "fp8_e4m3"
    FP32 = "fp32"
    INVALID = "invalid"

    @property
    def size(self) -> int:
        """Bytes of one element; 0 for ``INVALID``."""
        return _SIZES[self.value]

    @property
    def is_valid(self) -> bool:
        """Whether the operand exists."""
        return self is not DType.INVALID

    @property
    def mma_k(self) -> int:
        """Elements of K per ``tcgen05.mma``: 16 for 16-bit types, 32 for fp8.

        Raises:
            ValueError: for ``INVALID``, which is never an operand of an MMA.
        """
        if not self.is_valid:
            raise ValueError("dtype 'invalid' has no MMA depth; choose bf16, fp16 or fp8_e4m3")
        return MMA_K_BYTES // self.size

    @property
    def mma_kind(self) -> str:
        """``tcgen05.mma`` kind that takes this type for A and B.

        Raises:
            ValueError: when no kind used here takes the type.
        """
        if self in _FORMATS_F16:
            return "f16"
        if self is DType.FP8_E4M3:
            return "f8f6f4"
        raise ValueError(f"dtype {self.value!r} is no MMA operand; choose bf16, fp16 or fp8_e4m3")

    @property
    def ptx_name(self) -> str:
        """PTX name of the type in conversions.

        Raises:
            ValueError: when nothing here is converted to the type.
        """
        if self not in _PTX_NAMES:
            known = ", ".join(dtype.value for dtype in _PTX_NAMES)
            raise ValueError(f"dtype {self.value!r} is never converted to; choose {known}")
        return _PTX_NAMES[self]

    @property
    def mma_format(self) -> int:
        """A/B format code of the instruction descriptor (PTX ISA, kinds f16 and f8f6f4)."""
        if self.mma_kind == "f16":
            return _FORMATS_F16[self]
        return 0

    @property
    def output(self) -> DType:
        """Element type of O for operands of this type: the same, or bf16 for fp8."""
        return DType.BF16 if self is DType.FP8_E4M3 else self

    @property
    def default_swizzle(self) -> SwizzleMode:
        """Swizzle that gives 64-element chunks: 128 B for 16-bit types, 64 B for fp8."""
        return SwizzleMode.B64 if self is DType.FP8_E4M3 else SwizzleMode.B128

    @classmethod
    def parse(cls, name: str) -> DType:
        """Return the type called ``name`` (also the PyTorch spelling).

        Raises:
            ValueError: naming the known types when ``name`` is none of them.
        """
        try:
            return cls(_ALIASES.get(name, name))
        except ValueError:
            known = ", ".join(t.value for t in cls if t.is_valid)
            raise ValueError(f"dtype {name!r} is unknown; known types: {known}") from None


_SIZES: Final = {"bf16": 2, "fp16": 2, "fp8_e4m3": 1, "fp32": 4, "invalid": 0}
_FORMATS_F16: Final = {DType.FP16: 0, DType.BF16: 1}
_PTX_NAMES: Final = {DType.BF16: "bf16", DType.FP16: "f16", DType.FP8_E4M3: "e4m3"}
_ALIASES: Final = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float8_e4m3fn": "fp8_e4m3",
    "float32": "fp32",
}
