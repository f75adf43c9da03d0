"""Barriers and fences of one CTA: mbarriers, named barriers, proxy fences, register budgets.

Addresses are 32-bit shared-memory window addresses (``Int32``). PTX ISA: "Parallel Synchronization
and Communication Instructions".
"""

from cutlass import Int32

from ..ptx import emit

TRY_WAIT_HINT_NS = 10_000_000
"""Suspension-time hint of one try_wait; the wait itself has no limit."""


def mbarrier_init(address: Int32, count: Int32) -> None:
    """Initialise the mbarrier at ``address`` for ``count`` arrivals per phase. One thread."""
    emit("mbarrier.init.shared::cta.b64 [$0], $1;", (), (address, count))


def mbarrier_wait(address: Int32, phase: Int32, *, cluster: bool = False) -> None:
    """Block the calling threads until the phase with parity ``phase`` has completed (acquire).

    With ``cluster`` the wait also acquires what threads of the other CTA released.
    """
    scope = ".acquire.cluster" if cluster else ""
    emit(
        "{\n\t.reg .pred done;\n"
        "WAIT_FOR_PHASE:\n\t"
        f"mbarrier.try_wait.parity{scope}.shared::cta.b64 done, [$0], $1, {TRY_WAIT_HINT_NS};\n\t"
        "@done bra PHASE_DONE;\n\t"
        "bra WAIT_FOR_PHASE;\n"
        "PHASE_DONE:\n\t}",
        (),
        (address, phase),
    )


def mbarrier_arrive(address: Int32) -> None:
    """Arrive once (release) for each calling thread."""
    emit("mbarrier.arrive.shared::cta.b64 _, [$0];", (), (address,))


def mbarrier_expect_tx(address: Int32, num_bytes: Int32 | int) -> None:
    """Arrive once and announce ``num_bytes`` of TMA data; one elected lane of the warp."""
    emit(
        "{\n\t.reg .pred leader;\n\telect.sync _|leader, -1;\n\t"
        "@leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;\n\t}",
        (),
        (address, num_bytes),
    )


def fence_mbarrier_init() -> None:
    """Make this thread's mbarrier initialisations visible to the async proxy and the cluster."""
    emit("fence.mbarrier_init.release.cluster;")


def fence_proxy_async_shared() -> None:
    """Order this thread's shared-memory writes before later reads by the async proxy (TMA, MMA)."""
    emit("fence.proxy.async.shared::cta;")


def cta_barrier() -> None:
    """Wait for all threads of the CTA."""
    emit("bar.sync 0;")


def named_barrier(barrier: int, num_threads: int) -> None:
    """Wait until ``num_threads`` threads have arrived at named barrier ``barrier``."""
    emit(f"bar.sync {barrier}, {num_threads};")


def set_max_registers(count: int, *, increase: bool) -> None:
    """Change the calling warp group's registers per thread to ``count``."""
    emit(f"setmaxnreg.{'inc' if increase else 'dec'}.sync.aligned.u32 {count};")


def any_in_warp(condition: Int32) -> Int32:
    """Return 1 in every lane if ``condition`` is nonzero in some lane of the warp, else 0."""
    return emit(
        "{\n\t.reg .pred mine, some;\n\tsetp.ne.b32 mine, $1, 0;\n\t"
        "vote.sync.any.pred some, mine, -1;\n\tselp.b32 $0, 1, 0, some;\n\t}",
        (Int32,),
        (condition,),
    )[0]


def load_shared_f32(address: Int32):
    """Return the float at shared-memory ``address``."""
    from cutlass import Float32

    return emit("ld.shared.f32 $0, [$1];", (Float32,), (address,))[0]


def load_shared_f32x4(address: Int32) -> list:
    """Return four floats from 16-byte aligned shared-memory ``address``."""
    from cutlass import Float32

    return emit("ld.shared.v4.f32 {$0, $1, $2, $3}, [$4];", (Float32,) * 4, (address,))


def load_shared_b32(address: Int32) -> Int32:
    """Return the 32-bit word at shared-memory ``address``."""
    return emit("ld.shared.b32 $0, [$1];", (Int32,), (address,))[0]


def store_shared_f32(address: Int32, value) -> None:
    """Store one float at shared-memory ``address``."""
    emit("st.shared.f32 [$0], $1;", (), (address, value))


def store_shared_v4(address: Int32, words: list) -> None:
    """Store four 32-bit words at 16-byte aligned shared-memory ``address``."""
    emit("st.shared.v4.b32 [$0], {$1, $2, $3, $4};", (), (address, *words))


def warp_barrier() -> None:
    """Let the threads of the warp meet; later loads start after it (PTX ISA, "bar.warp.sync").

    All 32 threads must come here.
    """
    emit("bar.warp.sync -1;")
