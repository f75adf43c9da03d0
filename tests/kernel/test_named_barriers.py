"""The compiled kernels meet at exactly the named barriers that the plan gives them."""

from __future__ import annotations

import re

import pytest

from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.plan.barriers.named import EXCHANGE, NAMED_BARRIERS
from testing.kernels import KERNELS

KINDS = {
    "2q": "2q d64 causal lse",
    "1q": "1q d128 ragged sink",
    "cluster": "cluster d128",
    "pair_cta": "pair_cta d128",
    "depth512": "depth512 d512",
}


@pytest.mark.parametrize("kind", KINDS)
def test_named_barriers_are_those_of_the_plan(kind: str) -> None:
    ptx = compile_kernel(KERNELS[KINDS[kind]]).ptx
    used = set(re.findall(r"bar\.sync\s+(%?\w+), (\d+);", ptx))
    planned = {
        (str(number), str(barrier.threads))
        for barrier in NAMED_BARRIERS[kind]
        for number in barrier.numbers
        if barrier is not EXCHANGE
    }
    # The exchange is by register: its number differs between warps.
    by_register = {threads for number, threads in used if number.startswith("%")}
    assert by_register == ({str(EXCHANGE.threads)} if kind == "depth512" else set())
    assert {pair for pair in used if not pair[0].startswith("%")} == planned
