"""Barriers and fences of one CTA: mbarriers, named barriers, proxy fences, register budgets.

Addresses are 32-bit shared-memory window addresses (``Int32``). PTX ISA: "Parallel Synchronization
and Communication Instructions".
"""

from cutlass import Boolean, Int32, cute

from ..pointers import shared
from ..ptx import emit

TRY_WAIT_HINT_NS = 10_000_000
"""Suspension-time hint of one try_wait; the wait itself has no limit."""


def mbarrier_init(address: Int32, count: Int32) -> None:
    """Initialise the mbarrier at ``address`` for ``count`` arrivals per phase. One thread."""
    cute.arch.mbarrier_init(shared(address), count)


def mbarrier_wait(address: Int32, phase: Int32, *, cluster: bool = False) -> None:
    """Block the calling threads until the phase with parity ``phase`` has completed (acquire).

    With ``cluster`` the wait also acquires what threads of the other CTA released.
    """
    if not cluster:
        cute.arch.mbarrier_wait(shared(address), phase)
        return
    _try_until_done("parity.acquire.cluster", f", {TRY_WAIT_HINT_NS}", "bra", address, phase)


def _try_until_done(modifiers: str, hint: str, branch: str, address: Int32, phase: Int32) -> None:
    """Try again until the phase has completed.

    DSL: ``cute.arch.mbarrier_wait`` serves the wait inside a CTA. It has no scope for the other CTA
    of a pair, and names a limit of 10 ms.
    """
    emit(
        "{\n\t.reg .pred done;\n"
        "WAIT_FOR_PHASE:\n\t"
        f"mbarrier.try_wait.{modifiers}.shared::cta.b64 done, [$0], $1{hint};\n\t"
        f"@done {branch} PHASE_DONE;\n\t"
        f"{branch} WAIT_FOR_PHASE;\n"
        "PHASE_DONE:\n\t}",
        (),
        (address, phase),
    )


def mbarrier_wait_untimed(address: Int32, phase: Int32) -> None:
    """Block as :func:`mbarrier_wait` inside a CTA; a try has the limit that the system gives it."""
    _try_until_done("parity", "", "bra.uni", address, phase)


def mbarrier_arrive(address: Int32) -> None:
    """Arrive once (release) for each calling thread.

    DSL: ``cute.arch.mbarrier_arrive`` keeps the count in a register and returns the state in a
    64-bit one: 8 spills more in the kernel that has the fewest registers to spare.
    """
    emit("mbarrier.arrive.shared::cta.b64 _, [$0];", (), (address,))


def mbarrier_arrive_once(address: Int32) -> None:
    """Arrive once (release) for the calling warp.

    DSL: ``cute.arch.mbarrier_arrive`` as for :func:`mbarrier_arrive`, under a branch.
    """
    emit(
        "{\n\t.reg .pred leader;\n\telect.sync _|leader, -1;\n\t"
        "@leader mbarrier.arrive.shared::cta.b64 _, [$0];\n\t}",
        (),
        (address,),
    )


def mbarrier_expect_tx(address: Int32, num_bytes: Int32 | int) -> None:
    """Arrive once and announce ``num_bytes`` of TMA data; one elected lane of the warp."""
    with cute.arch.elect_one():
        cute.arch.mbarrier_arrive_and_expect_tx(shared(address), num_bytes)


def mbarrier_add_tx(address: Int32, num_bytes: Int32 | int) -> None:
    """Announce ``num_bytes`` of TMA data without an arrival; one elected lane of the warp."""
    with cute.arch.elect_one():
        cute.arch.mbarrier_expect_tx(shared(address), num_bytes)


def fence_mbarrier_init() -> None:
    """Make this thread's mbarrier initialisations visible to the async proxy and the cluster."""
    cute.arch.mbarrier_init_fence()


def fence_proxy_async_shared() -> None:
    """Order this thread's shared-memory writes before later reads by the async proxy (TMA, MMA)."""
    cute.arch.fence_proxy("async.shared", space="cta")


def cta_barrier() -> None:
    """Wait for all threads of the CTA."""
    cute.arch.sync_threads()


def named_barrier(barrier: Int32 | int, num_threads: int) -> None:
    """Wait until ``num_threads`` threads have arrived at named barrier ``barrier``."""
    cute.arch.barrier(barrier_id=barrier, number_of_threads=num_threads)


def named_barrier_arrive(barrier: Int32 | int, num_threads: int) -> None:
    """Arrive at named barrier ``barrier`` of ``num_threads`` threads, without waiting."""
    cute.arch.barrier_arrive(barrier_id=barrier, number_of_threads=num_threads)


def named_barrier_any(barrier: int, num_threads: int, flag: Int32) -> Int32:
    """Wait as :func:`named_barrier`, and return whether ``flag`` is not 0 in some thread: 1 or 0.

    DSL: ``cute.arch`` has no barrier with a reduction.
    """
    return emit(
        "{\n\t.reg .pred own, some;\n\tsetp.ne.b32 own, $1, 0;\n\t"
        f"barrier.cta.red.or.pred.aligned some, {barrier}, {num_threads}, own;\n\t"
        "selp.b32 $0, 1, 0, some;\n\t}",
        (Int32,),
        (flag,),
    )[0]


def set_max_registers(count: int, *, increase: bool) -> None:
    """Change the calling warp group's registers per thread to ``count``."""
    if increase:
        cute.arch.setmaxregister_increase(count)
    else:
        cute.arch.setmaxregister_decrease(count)


def any_in_warp(condition: Boolean) -> Boolean:
    """Return whether ``condition`` holds in some lane of the warp, the same in all lanes."""
    return cute.arch.vote_any_sync(condition)


def keep_in_front(address: Int32) -> None:
    """Keep what comes before in front of what comes after, in the code that the assembler makes.

    Args:
        address: of Tensor Memory, hence never negative, which the assembler does not know: what it
            sees is an exit that a thread may take, and it moves no load or arrival across one.

    DSL: none; a barrier of the warp holds back memory accesses, not arithmetic.
    """
    emit(
        "{\n\t.reg .pred never;\n\tsetp.lt.s32 never, $0, 0;\n\t@never exit;\n\t}", (), (address,)
    )


def warp_barrier() -> None:
    """Let the threads of the warp meet; later loads start after it (PTX ISA, "bar.warp.sync").

    All 32 threads must come here.
    """
    cute.arch.sync_warp()
