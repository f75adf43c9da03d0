"""Small floats in exact arithmetic: values are `Fraction`, "nan", "inf" or "-inf"; no float is
used.

Written from IEEE 754 and the OCP 8-bit and MX specifications, independently of the engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

Value: TypeAlias = Fraction | str
MODES = ("rn", "rz", "rm", "rp")


@dataclass(frozen=True)
class Float:
    """A binary format of `exponent` + `mantissa` bits and a sign.

    `specials`: "ieee" (the top exponent holds inf and NaN), "fn" (only the all-ones code is NaN) or
    "none".
    """

    exponent: int
    mantissa: int
    bias: int
    specials: str = "ieee"

    @property
    def sign_bit(self) -> int:
        return 1 << (self.exponent + self.mantissa)

    @property
    def largest_code(self) -> int:
        return self.sign_bit - 1 - {"ieee": 1 << self.mantissa, "fn": 1, "none": 0}[self.specials]

    def decode(self, code: int) -> Value:
        magnitude = code & (self.sign_bit - 1)
        sign = -1 if code & self.sign_bit else 1
        if magnitude > self.largest_code:
            infinite = self.specials == "ieee" and magnitude == self.largest_code + 1
            return ("inf" if sign > 0 else "-inf") if infinite else "nan"
        field, fraction = divmod(magnitude, 1 << self.mantissa)
        significand = fraction if field == 0 else fraction + (1 << self.mantissa)
        power = max(field, 1) - self.bias - self.mantissa
        return sign * significand * Fraction(2) ** power

    def encode(self, value: Fraction, mode: str = "rn", *, negative_zero: bool = False) -> int:
        """Code of the format's value chosen by the rounding mode; overflow as IEEE 754 says."""
        if value == 0:
            return self.sign_bit if negative_zero else 0
        sign = self.sign_bit if value < 0 else 0
        low, rest = self._floor(abs(value))
        up = {
            "rn": rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1),
            "rna": rest >= Fraction(1, 2),
            "rz": False,
            "rm": value < 0 and rest > 0,
            "rp": value > 0 and rest > 0,
        }[mode]
        code = low + up
        if code <= self.largest_code:
            return sign | code
        inward = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
        return sign | (self.largest_code if inward else self.largest_code + 1)

    def _floor(self, size: Fraction) -> tuple[int, Fraction]:
        """The code just below, in a format without an upper end, and the part of a step above
        it."""
        power = size.numerator.bit_length() - size.denominator.bit_length()
        if Fraction(2) ** power > size:
            power -= 1
        power = max(power, 1 - self.bias)
        steps = size / Fraction(2) ** (power - self.mantissa)
        whole = steps.numerator // steps.denominator
        return whole + ((power - 1 + self.bias) << self.mantissa), steps - whole


F16 = Float(5, 10, 15)
BF16 = Float(8, 7, 127)
F32 = Float(8, 23, 127)
F64 = Float(11, 52, 1023)
TF32 = Float(8, 10, 127)
E4M3 = Float(4, 3, 7, "fn")
E5M2 = Float(5, 2, 15)
E2M3 = Float(2, 3, 1, "none")
E3M2 = Float(3, 2, 3, "none")
E2M1 = Float(2, 1, 1, "none")


def finite(form: Float, *codes: int) -> bool:
    """Whether all codes are numbers."""
    return all(isinstance(form.decode(code), Fraction) for code in codes)


def exact(form: Float, code: int) -> Fraction:
    """The number behind a finite code."""
    value = form.decode(code)
    assert isinstance(value, Fraction)
    return value
