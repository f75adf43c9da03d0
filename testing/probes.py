"""Small calls that a fault in the source should spoil: ``python -m testing.probes``.

A probe is one kernel and some calls of it. Every call runs under all checkers, with NaN in all
memory that it may write and in what it must not read, and is compared with float64. Arguments are
names of probes; the first one that fails ends the run with status 1. Without arguments all run.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final
from unittest import mock

import torch

from fa4_cute import masks, score_mods
from fa4_cute.host.run import simulator
from sm100sim.options import run_options
from testing.arguments import arguments
from testing.cases import CUT, Case
from testing.runner import CHECKS, Outcome
from testing.runner import check as check_call

IDLE: Final = 1_000_000
UNWRITTEN: Final = 0xFF
"""Bytes of memory that nothing has been written to; NaN in every type."""
Lengths = tuple[tuple[int, int], ...]


@contextmanager
def unwritten_outputs() -> Iterator[None]:
    """Fill what a call may write with :data:`UNWRITTEN`, before the first launch that may."""
    filled: set[int] = set()
    launch = simulator.launch

    def poisoned(ptx: str, kernel: str, packed: Any, buffers: Any) -> Any:
        for buffer in buffers:
            if buffer.writable and not buffer.is_read and buffer.address not in filled:
                filled.add(buffer.address)
                ctypes.memset(buffer.address, UNWRITTEN, buffer.size)
        return launch(ptx, kernel, packed, buffers)

    with mock.patch.object(simulator, "launch", poisoned):
        yield


def check(case: Case, seed: int = 0, **options: Any) -> Outcome:
    """Run a case under all checkers, all work at once; it must be right and clean."""
    with (
        unwritten_outputs(),
        run_options(mode="fast", checks=CHECKS, max_idle_instructions=IDLE),
    ):
        return check_call(case, seed, **options)


def tight(case: Case, seed: int = 0) -> dict[str, Any]:
    """Return the page table of a case without the column that no sequence needs."""
    return {"page_table": arguments(case, seed).options["page_table"][:, :-1].contiguous()}


def low(case: Case) -> dict[str, Any]:
    """Return a bias of -400 for every score."""
    queries, keys = (max(n) for n in zip(*case.sequences, strict=True))
    return {"mask": masks.bias(torch.full((1, 1, queries, keys), -400.0))}


def scaled_by_query(
    score: Any, _batch: Any, _head: Any, q_idx: Any, _kv_idx: Any, aux: Any
) -> Any:
    """Multiply the score by a factor of its query."""
    return score * aux[0][q_idx]


def per_query(case: Case) -> dict[str, Any]:
    """Return a score modifier that reads an array with one entry per query, and no more."""
    factors = torch.linspace(0.5, 2.0, max(queries for queries, _ in case.sequences))
    return {"score_mod": score_mods.function(scaled_by_query, (factors,))}


@dataclass(frozen=True)
class Call:
    """Lengths, further options of the call, and what else it is made of."""

    lengths: Lengths
    more: Callable[[Case], dict[str, Any]] | None = None
    scale: float | None = None
    seed: int = 0

    def check(self, case: Case) -> None:
        """Run the call."""
        case = replace(case, lengths=self.lengths)
        options = {} if self.more is None else self.more(case)
        if self.scale is not None:
            options["softmax_scale"] = self.scale
        check(case, self.seed, **options)


@dataclass(frozen=True)
class Probe:
    """A kernel, as a case of any lengths, and calls of it."""

    case: Case
    calls: tuple[Call, ...]

    def check(self) -> None:
        """Run all calls."""
        for call in self.calls:
            call.check(self.case)


ONE: Final = {"num_qo": 1}
TWO: Final = {"num_qo": 2}
PAIR: Final = {"pair_cta": True}
FP16: Final = {"dtype": torch.float16}
FP8_DTYPE: Final = {"dtype": torch.float8_e4m3fn}
MLA: Final = {"head_dim_v": 128}
WIDE_TILE: Final = {"head_dim_v": 64}
"""192 keys to a tile, of which half are read twice; P stays in its own columns."""
WIDE: Final = {"window": (127, 0)}
SHARP: Final = 1.0
"""A scale that lets the running maximum grow, so that O is rescaled."""
GENTLE: Final = 0.25

DENSE: Final = (Call(((150, 300),)), Call(((130, 257), (1, 1)), scale=SHARP, seed=1))
LONG: Final = (Call(((70, 900),)), Call(((70, 901),), scale=GENTLE, seed=1))
STEEP: Final = Call(((40, 901),), scale=40.0)
"""Maxima of the parts of a row differ by more than an exponent holds."""
PARTS: Final = Call(((3, 34 * 128),), scale=40.0)
"""More parts of a row than a warp has lanes, whose maxima differ by as much."""
SHORT: Final = Call(((130, 60),))
"""One key tile, for both chains."""
TURNED: Final = Call(((20, 200),), scale=-0.2)
RING: Final = Call(((20, 2500),))
"""More key tiles than any ring has slots."""
STAGED: Final = Call(((256, 1700), (256, 1700)))
"""A whole tile of float8 queries whose K and V take a slot more than the ring of head dim 64 has:
its output, twice as wide as Q, is staged over the slot that the keys of the next tile begin in."""
STAGED_V: Final = Call(((128, 1500),) * 2)
"""Query tiles of float8 whose K and V take two slots less than twice the ring of head dim 128 with
one Q tile has: the first V of the next one goes where the output of this one is staged."""
STAGED_256: Final = Call(((256, 300), (256, 300)))
"""The same for head dim 256, whose ring is shorter."""
MANY: Final = Call(((0, 20), (64, 130), (3, 133), (65, 128), (0, 0), (63, 64), (127, 255), (1, 1)))
ALMOST: Final = Call(((3, 40), (20, 383)))
"""The last key tile misses one key, of 128 and of 192; what follows in memory belongs to nobody."""
SOME: Final = Call(((70, 400), (0, 20), (129, 17), (20, 333)), scale=GENTLE, seed=1)
NARROW: Final = Call(((40, 300), (0, 20), (3, 133), (17, 7), (33, 256)))
TURNS: Final = Call(((129, 40),) * 60)
"""Many query tiles of one key tile: a ring's cursor comes by everywhere."""
ENDS: Final = Call(((128, 192), (128, 40), (128, 192), (128, 330)) * 3)
"""The first Q tile leaves out the second key tile, must not leave out the only one, takes all."""
LED: Final = Call(((400, 600), (0, 20), (257, 640), (300, 301), (300, 100)))
"""With windows: query tiles whose second chain leads, and others."""
FEW: Final = Call(((600, 100),) * 4)
"""Query tiles of one key tile and of none."""
ONE_EACH: Final = Call(((200, 100),) * 8)
"""Query tiles of one key tile, one after another."""
ROUNDS: Final = Call(((400, 400),))
"""Four query tiles of every head: persistent CTAs go there and back, and there again."""
TWICE: Final = Call(((300, 100),) * 2)
"""Two sequences, the second of which has places of its own."""
CROWD: Final = Call(tuple((1, 40 + 9 * (n % 30)) for n in range(70)))
"""More sequences than a warp has lanes."""
STEPS: Final = (Call(((1, 700),)), Call(((5, 700),), scale=SHARP, seed=1), Call(((3, 130),)))
"""So few rows that lanes hold copies of them: each sees some keys of a tile, or none."""
ONE_TILE: Final = Call(((3, 128),))
"""One softmax group has all of it."""
STEEP_STEP: Final = Call(((5, 901),), scale=40.0)
"""Maxima of the copies of a row differ by more than an exponent holds."""
SOME_STEPS: Final = Call(((5, 700), (0, 20), (3, 133), (1, 0), (7, 33), (1, 1), (7, 128), (6, 64)))
"""The last two have copies all of whose keys are there, and hidden from some rows."""
PAGED_STEPS: Final = Call(((5, 640), (3, 128), (0, 64), (7, 7), (2, 704)), tight)
"""More key tiles over pages of 16 than the lanes of a warp hold pages of."""
PAGED: Final = Call(((20, 256), (3, 128), (0, 64), (17, 7), (70, 320)), tight)
"""The longest sequence is the last, and ends with a page: nothing lies after its last entry."""


def probe(features: str, head_dim: int, *calls: Call, **fields: Any) -> Probe:
    """Return the probe of a kernel by its features; two heads share one of keys by default."""
    fields = {"heads": 2, "kv_heads": 1, **fields}
    return Probe(Case(frozenset(features.split()), head_dim, **fields), calls)


PROBES: Final[dict[str, Probe]] = {
    "2q": probe("causal", 128, *DENSE, *LONG, TURNED, STEEP, **TWO),
    "2q-ragged": probe("ragged causal sink", 64, MANY, SOME, ALMOST, **TWO),
    "2q-window": probe("ragged window", 64, MANY, SOME, **TWO),
    "2q-page": probe("ragged page16 window", 64, PAGED, SOME, **TWO),
    "2q-bias": probe("ragged bias causal", 64, MANY, replace(SOME, more=low), **TWO),
    "2q-union": probe("union", 64, *DENSE, **TWO, **FP16),
    "2q-function": probe("function softcap alibi chunked padding", 64, *DENSE, **TWO),
    "2q-query": probe("causal", 64, Call(((130, 257), (1, 1)), per_query), **TWO),
    "2q-both": probe("bias union function", 64, *DENSE, **TWO),
    "2q-both-ragged": probe("ragged bias union", 64, MANY, **TWO),
    "2q-fp8": probe("fp8 causal", 128, *DENSE, **TWO),
    "2q-tokens": probe("tokens ragged page64", 64, PAGED, MANY, RING, **TWO),
    "2q-tokens-dense": probe("tokens", 64, *DENSE, heads=4, kv_heads=2, **TWO),
    "2q-three": probe("causal", 72, *DENSE, heads=3, **TWO),
    "2q-split-dense": probe("split causal", 64, *DENSE, STEEP, Call(((40, 20),)), **TWO),
    "2q-persistent-128": probe("persistent ragged causal", 128, ENDS, **TWO),
    "2q-lead": probe("persistent ragged rope window", 128, LED, kv_heads=2, **WIDE, **TWO),
    "2q-lead-plain": probe(
        "persistent window", 128, ROUNDS, FEW, ONE_EACH, heads=4, kv_heads=4, **WIDE, **TWO
    ),
    "2q-splits": probe("plain", 64, PARTS, Call(((3, 200),)), num_splits=34, **TWO),
    "2q-persistent": probe("persistent ragged causal", 64, MANY, SOME, TURNS, heads=4, **TWO),
    "2q-persistent-heads": probe("persistent causal", 64, ROUNDS, heads=4, kv_heads=2, **TWO),
    "2q-persistent-72": probe(
        "persistent causal", 72, ROUNDS, FEW, ONE_EACH, heads=4, kv_heads=2, **TWO
    ),
    "2q-dynamic-heads": probe("dynamic causal", 64, ROUNDS, TWICE, heads=4, kv_heads=2, **TWO),
    "2q-split": probe("split ragged sink", 64, MANY, SOME, **TWO, **FP16),
    "2q-dynamic": probe("dynamic ragged causal", 64, MANY, SOME, **TWO),
    "2q-192": probe("causal", 192, *DENSE, *LONG, SHORT, **TWO),
    "2q-192-persistent": probe("persistent ragged causal", 192, MANY, SOME, TURNS, **TWO),
    "2q-192-fp8-persistent": probe("fp8 persistent ragged", 192, MANY, SOME, STAGED, TURNS, **TWO),
    "2q-rope": probe("rope causal", 128, *DENSE, **TWO),
    "2q-rope-persistent": probe("rope persistent causal ragged", 128, MANY, SOME, **TWO),
    "2q-rope-heads": probe("rope causal", 128, *DENSE, heads=4, kv_heads=2, **TWO),
    "2q-fp8-persistent": probe("fp8 persistent ragged", 64, MANY, SOME, STAGED, TURNS, **TWO),
    "2q-fp8-heads": probe("fp8 persistent", 64, ROUNDS, TWICE, heads=4, **TWO),
    "2q-wide-tile": probe("ragged page64", 128, PAGED, SOME, **WIDE_TILE, **TWO),
    "2q-wide-tile-persistent": probe(
        "fp8 persistent ragged", 128, MANY, SOME, **WIDE_TILE, **TWO
    ),
    "2q-mla": probe("causal", 192, *DENSE, **TWO, **MLA),
    "1q": probe("causal", 128, *DENSE, *LONG, STEEP, **ONE),
    "1q-ragged": probe("ragged causal sink", 64, NARROW, SOME, **ONE),
    "1q-wide-tile": probe("ragged causal sink", 128, NARROW, SOME, **WIDE_TILE, **ONE),
    "1q-rope": probe("rope causal", 128, *LONG, **ONE),
    "1q-rope-fused": probe("rope causal", 64, *LONG, **ONE),
    "1q-page": probe("ragged page64 window", 128, PAGED, NARROW, **ONE, **FP16),
    "1q-split": probe("page64 split", 64, PAGED, NARROW, heads=8, **ONE),
    "1q-last": probe("ragged last sink", 64, NARROW, SOME, heads=8, **ONE),
    "1q-last-causal": probe("causal last", 128, Call(((3, 700),)), heads=8, kv_heads=2, **ONE),
    "1q-cluster": probe("ragged cluster causal sink", 128, NARROW, SOME, STEEP, **ONE),
    "1q-cluster-causal": probe("cluster causal", 64, Call(((40, 20), (1, 1))), **ONE),
    "1q-cluster-dense": probe("cluster", 72, *LONG, **ONE, **FP16),
    "1q-stream-k": probe(
        "stream_k ragged page64 causal sink", 64, Call(CUT), CROWD, heads=4, kv_heads=2, **ONE
    ),
    "1q-stream-k-page": probe(
        "stream_k ragged page16 causal sink", 64, Call(CUT), CROWD, heads=4, kv_heads=2, **ONE
    ),
    "1q-stream-k-fp8": probe(
        "fp8 stream_k ragged page16", 128, Call(CUT), heads=4, kv_heads=2, **ONE
    ),
    "1q-stream-k-dense": probe(
        "stream_k causal", 64, Call(((3, 2300),) * 2, scale=SHARP), Call(((3, 200),)), **ONE
    ),
    "1q-fp8-persistent-page": probe("fp8 persistent ragged page16", 128, NARROW, STAGED_V, **ONE),
    "1q-tokens": probe("tokens causal ragged", 64, NARROW, SOME, RING, **ONE),
    "1q-persistent": probe("persistent ragged causal", 64, NARROW, SOME, heads=4, **ONE),
    "few": probe("causal", 128, *STEPS, STEEP_STEP, ONE_TILE, num_splits=1),
    "few-ragged": probe("ragged causal sink", 64, SOME_STEPS, num_splits=1),
    "few-wide": probe("", 96, *STEPS, num_splits=1, **FP16),
    "few-page": probe("ragged page16 causal", 64, PAGED_STEPS, SOME_STEPS, num_splits=1),
    "few-lanes": probe(
        "fp8 stream_k ragged page16 causal", 64, Call(CUT), PAGED_STEPS, heads=4, kv_heads=2
    ),
    "few-lanes-padded": probe("fp8 ragged page16 sink", 48, PAGED_STEPS, num_splits=1),
    "few-pages": probe("cache page128", 64, Call(((1, 4500), (1, 4096))), num_splits=1),
    "few-two": probe("ragged causal page64", 128, Call(((20, 400), (3, 40), (17, 129)))),
    "few-split": probe("ragged split sink", 96, SOME_STEPS),
    "few-last": probe("ragged last causal", 128, SOME_STEPS),
    "few-cluster": probe("ragged cluster causal sink", 128, SOME_STEPS, STEEP_STEP),
    "few-cluster-dense": probe("cluster", 72, *STEPS, **FP16),
    "few-stream-k": probe("stream_k ragged page16 causal sink", 64, Call(CUT), heads=4, kv_heads=2),
    "few-stream-k-fp8": probe("fp8 stream_k ragged page64", 128, Call(CUT), heads=4, kv_heads=2),
    "few-persistent": probe("persistent ragged causal", 64, SOME_STEPS, CROWD, heads=4),
    "few-rope": probe("rope causal", 64, *STEPS, num_splits=1),
    "few-tokens": probe("tokens ragged page64 softcap", 64, PAGED_STEPS, num_splits=1),
    "few-d256": probe("causal", 256, *STEPS, STEEP_STEP, num_splits=1, **FP8_DTYPE),
    "few-d256-ragged": probe("ragged causal sink", 256, SOME_STEPS, num_splits=1, **FP8_DTYPE),
    "few-d256-page": probe("ragged page16 causal", 224, PAGED_STEPS, SOME_STEPS, **FP8_DTYPE),
    "few-d256-two": probe(
        "ragged causal page64", 256, Call(((40, 400), (3, 40), (60, 129))), **FP8_DTYPE
    ),
    "few-d256-split": probe("ragged split sink", 256, SOME_STEPS, **FP8_DTYPE),
    "few-d256-stream-k": probe(
        "stream_k ragged page16 causal", 256, Call(CUT), CROWD, heads=4, kv_heads=2, **FP8_DTYPE
    ),
    "few-d256-persistent": probe(
        "persistent ragged causal", 256, SOME_STEPS, CROWD, heads=4, **FP8_DTYPE
    ),
    "few-d256-tokens": probe("tokens ragged page64", 256, PAGED_STEPS, **FP8_DTYPE),
    "pair": probe("causal", 128, Call(((300, 420),)), *LONG, **PAIR),
    "pair-page": probe("ragged page16 function", 128, PAGED, MANY, **PAIR),
    "pair-tokens": probe("tokens ragged causal", 128, MANY, SOME, RING, **PAIR),
    "pair-dynamic": probe("dynamic ragged causal", 128, MANY, SOME, **PAIR),
    "pair-persistent": probe("persistent ragged causal sink", 128, MANY, SOME, **PAIR),
    "d256": probe("causal", 256, *DENSE, *LONG, TURNED, num_splits=1),
    "d256-ragged": probe("ragged causal sink", 256, MANY, SOME),
    "d256-page": probe("ragged page16 window", 256, PAGED, SOME),
    "d256-bias": probe("bias union", 256, *DENSE, **FP16),
    "d256-tokens": probe("tokens ragged page16", 256, PAGED, NARROW),
    "d256-persistent": probe("persistent ragged causal", 256, MANY, SOME),
    "d256-rounds": probe("persistent causal", 256, ROUNDS, heads=4, kv_heads=2),
    "d256-fp8-persistent": probe("fp8 persistent ragged", 256, NARROW, STAGED_256),
    "d256-fp8-persistent-page": probe("fp8 persistent ragged page16", 256, NARROW, STAGED_256),
    "d256-stream-k": probe(
        "stream_k ragged page64 causal sink", 256, Call(CUT), CROWD, heads=4, kv_heads=2
    ),
    "d256-stream-k-page": probe("stream_k ragged page16 causal", 256, Call(CUT)),
    "d256-stream-k-dense": probe(
        "stream_k causal", 256, Call(((200, 2300),) * 2, scale=SHARP), heads=1
    ),
    "d256-split": probe("split ragged sink", 256, NARROW, SOME),
    "d512": probe("causal", 512, *DENSE, *LONG, num_splits=1),
    "d512-fp8": probe("fp8 ragged", 512, NARROW),
    "d512-tokens": probe("tokens", 512, *DENSE),
    "d512-stream-k": probe("stream_k ragged causal", 512, Call(CUT)),
    "d512-stream-k-fp8": probe("fp8 stream_k ragged page16", 512, Call(CUT)),
    "d512-rounds": probe("persistent", 512, ROUNDS),
    "d512-persistent": probe("persistent ragged sink", 512, NARROW, SOME),
}
"""Name -> probe: dense, packed, paged and split keys, masks, modifiers and float8, per kernel."""


def main(names: list[str]) -> int:
    """Run the named probes, or all."""
    torch.set_num_threads(1)
    for name in names or PROBES:
        try:
            PROBES[name].check()
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:300]}")
            return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
