"""Device functions that call the DSL, each traced in a kernel of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from cutlass import Float32, Int32, Int64, cute

from fa4_cute.device import ids
from fa4_cute.device.math import arith, fragment, score_math, softmax
from fa4_cute.device.memory import clean, gmem, lane_copies, matrices, shared, tma, tmem
from fa4_cute.device.sync import barriers, launch_control, pair
from fa4_cute.host.compile.compiler import compile_traced
from fa4_cute.plan.compute.probability import ProbabilityPlan
from fa4_cute.plan.facts.dtypes import DType

_SKIPPED = re.compile(r"^(\.|//|[{}(]|ld\.param|ret;|bar\.warp\.sync.*;\s*//)")
_RESULT = re.compile(r"^st\.global")


def _keep(*values: Any) -> Callable[[Int64], None]:
    """Return what stores ``values``, so that the compiler cannot drop them."""

    def store(address: Int64) -> None:
        for i, value in enumerate(values):
            word = value if isinstance(value, Float32) else Int32(value)
            kind = type(word)
            cute.make_ptr(kind, address + 4 * i, mem_space=cute.AddressSpace.gmem).store(word)

    return store


def _two(pair_of: tuple[Float32, Float32]) -> Callable[[Int64], None]:
    return _keep(*pair_of)


def _both_register_budgets() -> None:
    barriers.set_max_registers(232, increase=True)
    barriers.set_max_registers(40, increase=False)


TRIALS: Final[dict[str, Callable[[Any, Any, Any, Any, Any], Any]]] = {
    "ids.warp_index": lambda a, b, f, g, p: _keep(ids.warp_index()),
    "math.arith.fma2": lambda a, b, f, g, p: _two(arith.fma2((f, g), (g, f), (f, f))),
    "math.arith.mul2": lambda a, b, f, g, p: _two(arith.mul2((f, g), (g, f))),
    "math.arith.add2": lambda a, b, f, g, p: _two(arith.add2((f, g), (g, f), rnd="rm")),
    "math.arith.sub2": lambda a, b, f, g, p: _two(arith.sub2((f, g), (g, f))),
    "math.arith.saturating_mul2": lambda a, b, f, g, p: _two(
        arith.saturating_mul2((f, g), (g, f))
    ),
    "math.arith.add": lambda a, b, f, g, p: _keep(arith.add(f, g)),
    "math.arith.add_down": lambda a, b, f, g, p: _keep(arith.add_down(f, g)),
    "math.arith.fma": lambda a, b, f, g, p: _keep(arith.fma(f, g, f)),
    "math.arith.mul": lambda a, b, f, g, p: _keep(arith.mul(f, g)),
    "math.arith.max2": lambda a, b, f, g, p: _keep(arith.max2(f, g)),
    "math.arith.min2": lambda a, b, f, g, p: _keep(arith.min2(f, g)),
    "math.arith.exp2_hardware": lambda a, b, f, g, p: _keep(arith.exp2_hardware(f)),
    "math.arith.log2_hardware": lambda a, b, f, g, p: _keep(arith.log2_hardware(f)),
    "math.arith.reciprocal": lambda a, b, f, g, p: _keep(arith.reciprocal(f)),
    "math.arith.absolute": lambda a, b, f, g, p: _keep(arith.absolute(f)),
    "math.fragment.neighbour": lambda a, b, f, g, p: _keep(fragment.neighbour(f, 2)),
    "math.fragment.from_lane": lambda a, b, f, g, p: _keep(fragment.from_lane(f, a)),
    "math.score_math.fma": lambda a, b, f, g, p: _keep(score_math.fma(f, g, f)),
    "math.score_math.copy_sign": lambda a, b, f, g, p: _keep(score_math.copy_sign(f, g)),
    "math.softmax.rescale_decision": lambda a, b, f, g, p: _keep(
        *softmax.rescale_decision(f, g, f, ProbabilityPlan.of(DType.BF16))
    ),
    "memory.clean.publish_to_tensor_cores": lambda a, b, f, g, p: clean.publish_to_tensor_cores(),
    "memory.matrices.chosen_bytes": lambda a, b, f, g, p: _keep(matrices.chosen_bytes(a, b, a)),
    "memory.gmem.load_i32": lambda a, b, f, g, p: _keep(gmem.load_i32(p)),
    "memory.gmem.load_f32": lambda a, b, f, g, p: _keep(gmem.load_f32(p)),
    "memory.gmem.store_f32": lambda a, b, f, g, p: gmem.store_f32(p, f),
    "memory.lane_copies.arrive_after": lambda a, b, f, g, p: lane_copies.arrive_after(a),
    "memory.shared.load_f32": lambda a, b, f, g, p: _keep(shared.load_f32(a)),
    "memory.shared.load_b32": lambda a, b, f, g, p: _keep(shared.load_b32(a)),
    "memory.shared.store_b32": lambda a, b, f, g, p: shared.store_b32(a, b),
    "memory.shared.store_f32": lambda a, b, f, g, p: shared.store_f32(a, f),
    "memory.shared.load_vector": lambda a, b, f, g, p: _keep(*shared.load_vector(a, 4)),
    "memory.shared.store_vector": lambda a, b, f, g, p: shared.store_vector(a, [f, g, g, f]),
    "memory.tma.prefetch_map": lambda a, b, f, g, p: tma.prefetch_map(p),
    "memory.tma.close_stores": lambda a, b, f, g, p: tma.close_stores(),
    "memory.tma.wait_for_sources": lambda a, b, f, g, p: tma.wait_for_sources(),
    "memory.tmem.alloc": lambda a, b, f, g, p: tmem.alloc(a, 512),
    "memory.tmem.dealloc": lambda a, b, f, g, p: tmem.dealloc(a, 512, 2),
    "memory.tmem.wait_stores": lambda a, b, f, g, p: tmem.wait_stores(),
    "sync.barriers.mbarrier_init": lambda a, b, f, g, p: barriers.mbarrier_init(a, b),
    "sync.barriers.mbarrier_wait": lambda a, b, f, g, p: barriers.mbarrier_wait(a, b),
    "sync.barriers.mbarrier_add_tx": lambda a, b, f, g, p: barriers.mbarrier_add_tx(a, 4096),
    "sync.barriers.mbarrier_expect_tx": lambda a, b, f, g, p: barriers.mbarrier_expect_tx(a, 4096),
    "sync.barriers.fence_mbarrier_init": lambda a, b, f, g, p: barriers.fence_mbarrier_init(),
    "sync.barriers.fence_proxy_async_shared": lambda a, b, f, g, p: (
        barriers.fence_proxy_async_shared()
    ),
    "sync.barriers.cta_barrier": lambda a, b, f, g, p: barriers.cta_barrier(),
    "sync.barriers.named_barrier": lambda a, b, f, g, p: barriers.named_barrier(3, 128),
    "sync.barriers.named_barrier_arrive": lambda a, b, f, g, p: (
        barriers.named_barrier_arrive(3, 128)
    ),
    "sync.barriers.set_max_registers": lambda a, b, f, g, p: _both_register_budgets(),
    "sync.barriers.any_in_warp": lambda a, b, f, g, p: _keep(barriers.any_in_warp(f < g)),
    "sync.barriers.warp_barrier": lambda a, b, f, g, p: barriers.warp_barrier(),
    "sync.launch_control.ask": lambda a, b, f, g, p: launch_control.ask(a, b, to_cluster=True),
    "sync.launch_control.first_block": lambda a, b, f, g, p: _keep(
        launch_control.first_block(a)[0]
    ),
    "sync.pair.cluster_rank": lambda a, b, f, g, p: _keep(pair.cluster_rank()),
    "sync.pair.address_in": lambda a, b, f, g, p: _keep(pair.address_in(a, b)),
    "sync.pair.cluster_arrive": lambda a, b, f, g, p: pair.cluster_arrive(),
    "sync.pair.cluster_wait": lambda a, b, f, g, p: pair.cluster_wait(),
}
"""Calls with two integers, two floats and a global address; a value is returned as its store."""


@lru_cache(maxsize=128)
def compiled_to(name: str) -> tuple[str, ...]:
    """Return the PTX of one device function, without parameters and without storing its result.

    Raises:
        KeyError: for a function without a trial.
    """
    trial = TRIALS[name]

    def body(a: Int32, b: Int32, f: Float32, g: Float32, p: Int64) -> None:
        store = trial(a, b, f, g, p)
        if callable(store):
            store(p)

    @cute.kernel
    def kernel(a: Int32, b: Int32, f: Float32, g: Float32, p: Int64) -> None:
        body(a, b, f, g, p)

    @cute.jit
    def host(a: Int32, b: Int32, f: Float32, g: Float32, p: Int64) -> None:
        shape = {"grid": [2, 1, 1], "block": [128, 1, 1], "cluster": [2, 1, 1]}
        kernel(a, b, f, g, p).launch(**shape)

    values = (Int32(0), Int32(0), Float32(0), Float32(0), Int64(0))
    ptx, _, _ = compile_traced(lambda options: cute.compile(host, *values, options=options))
    return tuple(_body(ptx, keep_stores=name.endswith("gmem.store_f32")))


def _body(ptx: str, *, keep_stores: bool) -> list[str]:
    text = ptx[ptx.index("{", ptx.index(".entry")) :]
    lines = [" ".join(line.split("//")[0].split()) for line in text.splitlines()]
    return [
        line for line in lines
        if line and not _SKIPPED.match(line) and (keep_stores or not _RESULT.match(line))
    ]  # fmt: skip
