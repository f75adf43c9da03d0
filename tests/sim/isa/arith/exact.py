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
        return Fraction(sign * significand << max(power, 0), 1 << max(-power, 0))

    def encode(self, value: Fraction, mode: str = "rn", *, negative_zero: bool = False) -> int:
        """Code of the format's value chosen by the rounding mode; overflow as IEEE 754 says."""
        if value == 0:
            return self.sign_bit if negative_zero else 0
        negative = value.numerator < 0
        sign = self.sign_bit if negative else 0
        low, rest, step = self._floor(abs(value.numerator), value.denominator)
        up = {
            "rn": 2 * rest > step or (2 * rest == step and low % 2 == 1),
            "rna": 2 * rest >= step,
            "rz": False,
            "rm": negative and rest > 0,
            "rp": not negative and rest > 0,
        }[mode]
        code = low + up
        if code <= self.largest_code:
            return sign | code
        inward = mode == "rz" or (mode == "rm" and not negative) or (mode == "rp" and negative)
        return sign | (self.largest_code if inward else self.largest_code + 1)

    def _floor(self, numerator: int, denominator: int) -> tuple[int, int, int]:
        """The code just below a positive number, in a format without an upper end; then what is
        left, and what a whole step to the next code would be."""
        power = numerator.bit_length() - denominator.bit_length()
        if (denominator << max(power, 0)) > (numerator << max(-power, 0)):
            power -= 1
        power = max(power, 1 - self.bias)
        shift = self.mantissa - power
        step = denominator << max(-shift, 0)
        whole, rest = divmod(numerator << max(shift, 0), step)
        return whole + ((power - 1 + self.bias) << self.mantissa), rest, step


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
