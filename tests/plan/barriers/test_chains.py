"""What belongs to a chain, by an integer and by what stands for a register."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fa4_cute.plan.barriers.chains import CHAINS, NUM_CHAINS, of_chain


@dataclass(frozen=True)
class Register:
    """A number that only adds and multiplies, as registers do while a kernel is traced."""

    value: int

    def __add__(self, other: int) -> Register:
        return Register(self.value + other)

    __radd__ = __add__

    def __mul__(self, other: int) -> Register:
        return Register(self.value * other)

    __rmul__ = __mul__


VALUES = st.lists(st.integers(0, 2**20), min_size=NUM_CHAINS, max_size=NUM_CHAINS)


@given(values=VALUES, chain=st.sampled_from(CHAINS))
def test_a_register_gives_what_an_integer_gives(values: list[int], chain: int) -> None:
    assert of_chain(Register(chain), values) == Register(values[chain])
    assert of_chain(chain, values) == values[chain]


@given(values=VALUES)
def test_values_of_registers_serve_too(values: list[int]) -> None:
    assert of_chain(1, [Register(value) for value in values]) == Register(values[1])


@pytest.mark.parametrize("chain", [-1, NUM_CHAINS])
def test_there_are_two_chains(chain: int) -> None:
    with pytest.raises(ValueError, match=f"chain={chain}: the chains are 0 and 1"):
        of_chain(chain, (0, 1))
