"""What crosses the border to the clocked machine (`engine/clock`): machine code, warps, times.

Times are in cycles of the SM. The rules, that is which instruction takes which unit for how long,
are those of `sm100sim.timing.model`; the C code replays them.
"""

from __future__ import annotations

import ctypes as ct

from .records import I32, U32, U64, Signature

F64 = ct.c_double

UNITS = (
    "alu", "fma heavy", "fma lite", "fp64", "mufu", "uniform", "collector", "tmem", "write",
    "none",
)  # fmt: skip
"""Servers of a sub-partition; `collector` gathers operands of shared and global accesses, `write`
is the port that registers are written through, beside those of a wgmma."""

SHARED_UNITS = ("request", "port", "tensor", "copy", "store", "memory", "barrier")
"""Servers of an SM: requests and 128-byte passes of the shared memory, tensor core, copy engine in
both directions, its share of the L2, and the barrier unit."""

ACTIONS = (
    "none", "mbarrier init", "mbarrier arrive", "mbarrier wait", "wgmma", "wgmma wait", "mma",
    "mma commit", "copy load", "copy store", "bulk commit", "bulk wait", "tmem load",
    "tmem store", "tmem fence", "shared", "global", "named sync", "named arrive",
    "cluster arrive", "cluster wait", "block", "lane copy", "memory fence",
)  # fmt: skip
"""What an execution does besides taking its unit."""

L1_USES = ("past", "load", "drop", "forget")
"""What an instruction does with the L1: nothing, loads through it, drops the lines that it writes,
drops all."""

REASONS = (
    "issued", "stall", "branch", "fetch", "mbarrier", "named barrier", "cluster barrier", "tensor",
    "tmem", "shared", "global", "mufu", "copy", "other result", "blocked", "pipe", "queue",
    "not selected",
)  # fmt: skip
"""What a warp's cycles went to. `stall`: the count in the control code; `pipe`: its unit was busy;
`queue`: a queue was full; `not selected`: another warp issued, or the slot was dead."""

WGMMA_RING, QUEUE_RING, BULK_GROUPS = 1024, 64, 64
"""Groups that are kept track of: MMAs of a warp group, entries of a queue, groups of copies."""

PIECES = 4
"""Pieces of a line of the L1, 32 bytes each, that come one by one."""

FINISHED, NO_MEMORY, STUCK = 0, 1, 2
"""What a run answers."""

NO_STEP = 2**32 - 1
"""No execution: what a warp waited for was none's."""


class ClockOp(ct.Structure):
    """One instruction: its control code and what it takes.

    `unit`, `also`: its servers (`also` may be `none`), taken for `service` cycles; `latency`: from
    there to its result; `passes` of the shared memory. `action`: what it does, with or without an
    event; `group_end`: it ends a group of wgmmas; `keep`: of a wait, groups that may be left;
    `reason`: what a wait for its result counts as; `line`: of 128 bytes of code; `writes`:
    registers that a wgmma writes; of others, thirds of a cycle at the registers' write ports;
    `even`, `odd`: registers of either bank that it reads; `l1`: of `L1_USES`.
    """

    _fields_ = [
        ("unit", U32), ("also", U32), ("action", U32), ("reason", U32), ("stall", U32),
        ("yields", U32), ("write_barrier", U32), ("read_barrier", U32), ("wait_mask", U32),
        ("group_end", U32), ("keep", U32), ("line", U32), ("writes", U32),
        ("even", U32), ("odd", U32), ("l1", U32), ("service", F64),
        ("latency", F64), ("passes", F64), ("read_latency", F64),
    ]  # fmt: skip


class ClockEvent(ct.Structure):
    """What one execution did; it replaces what the instruction says of `action` and times.

    `first_object`, `objects`: in the table of objects. `phase`: phases that must have ended;
    `count`: arrivals, threads of a barrier (0: all), or groups that may be left; `size`: bytes that
    are expected or delivered; `memory`: cycles of the SM's share of the L2; `pair`: both SMs work.
    `first_piece`, `pieces`: in the table of pieces of global memory.
    """

    _fields_ = [
        ("action", U32), ("first_object", U32), ("objects", U32), ("phase", U32), ("count", U32),
        ("pair", U32), ("first_piece", U32), ("pieces", U32), ("size", U64), ("service", F64),
        ("latency", F64), ("passes", F64), ("memory", F64),
    ]  # fmt: skip


class ClockWarp(ct.Structure):
    """A warp: its place, and its part of the streams; `group`: of four warps, for wgmma."""

    _fields_ = [("rank", U32), ("warp", U32), ("group", U32), ("length", U32), ("first", U64)]


class ClockChip(ct.Structure):
    """Parameters of the machine; `queue`: entries of the units' queues, 0 for any number.

    `product_writes`: share of the cycles in which a wgmma has the registers' write ports.
    `bank_ahead`: cycles for which a bank of registers may have reads before an instruction's.
    `copy_issue_cycles`: from one box that the copy engine begins to the next; `copy_queue`: boxes
    that it has taken and not copied, before a warp that asks for another stands; 0: any number.
    `init_latency`: from an initialisation of an mbarrier until a fence may end.
    `lane_share_least`, `lane_share_most`: of shared memory's port beside products; 0: no limit.
    `l1_lines`: that the L1 of an SM holds, 0: none; `l1_latency`, `l1_copy_latency`: until it
    answers a load, and a copy to shared memory.
    """

    _fields_ = [
        ("queue", F64 * len(UNITS)), ("request_queue", F64), ("wgmma_queue", F64),
        ("mma_queue", F64), ("greedy", F64), ("yield_cycles", F64), ("branch_cycles", F64),
        ("request_cycles", F64), ("arrive_latency", F64), ("remote_latency", F64),
        ("wait_latency", F64), ("wake_latency", F64), ("named_warp", F64), ("named_latency", F64),
        ("cluster_latency", F64), ("icache_lines", F64), ("icache_ways", F64),
        ("icache_next", F64), ("icache_jump", F64), ("commit_latency", F64),
        ("product_writes", F64), ("bank_ahead", F64), ("copy_issue_cycles", F64),
        ("copy_queue", F64),
        ("init_latency", F64), ("lane_share_least", F64), ("lane_share_most", F64),
        ("l1_lines", F64), ("l1_latency", F64), ("l1_copy_latency", F64),
    ]  # fmt: skip


class ClockInput(ct.Structure):
    """A cluster whose CTAs lie on one SM each, `copies` of it at once, `clusters` in all.

    Where one ends the next begins `gap` cycles later, while the others go on.
    `objects`: numbers of mbarriers (`mbarrier_ranks` says where each lies, `mbarrier_counts` how
    many arrivals end a phase) or, of named barriers, rank times 16 plus number. `pieces`: of
    `n_lines` lines of global memory: PIECES times the line plus the number of the piece. Of the
    first `n_common` all clusters ask for the same, of the others each for its own. `in_turn`:
    CTAs of an SM have places for their warps one behind the other.
    """

    _fields_ = [
        ("n_ops", U32), ("n_events", U32), ("n_objects", U32), ("n_warps", U32),
        ("n_mbarriers", U32), ("n_groups", U32), ("ranks", U32), ("copies", U32),
        ("n_pieces", U32), ("n_lines", U32), ("n_common", U32), ("in_turn", U32),
        ("gap", F64), ("clusters", U64),
        ("ops", ct.POINTER(ClockOp)), ("events", ct.POINTER(ClockEvent)),
        ("objects", ct.POINTER(U32)), ("pieces", ct.POINTER(U32)),
        ("mbarrier_ranks", ct.POINTER(U32)),
        ("mbarrier_counts", ct.POINTER(U32)), ("warps", ct.POINTER(ClockWarp)),
        ("order", ct.POINTER(I32)), ("event", ct.POINTER(I32)),
        ("chip", ClockChip), ("room", U64), ("stand_room", U64),
    ]  # fmt: skip


class ClockTotals(ct.Structure):
    """What a run took; `busy` and `shared_busy` are sums over sub-partitions and SMs.

    `records`, `stands`: how many there are, also where there was no room for all. `stuck_warp`,
    `stuck_op`: where the first warp stands when nothing moves any more. `l1_asked`, `l1_answered`:
    pieces that loads asked the L1 for, and those that it had.
    """

    _fields_ = [
        ("cycles", F64), ("issued", U64), ("records", U64), ("stands", U64), ("stuck_warp", U32),
        ("stuck_op", U32), ("l1_asked", U64), ("l1_answered", U64),
        ("busy", F64 * len(UNITS)), ("shared_busy", F64 * len(SHARED_UNITS)),
    ]  # fmt: skip


class ClockWarpTimes(ct.Structure):
    """Cycles of a warp by reason, and when it ended."""

    _fields_ = [("end", F64), ("reason", F64 * len(REASONS))]


class ClockOpTimes(ct.Structure):
    """Executions of an instruction, and cycles that warps stood before it."""

    _fields_ = [("executed", U64), ("stood", F64)]


class ClockRecord(ct.Structure):
    """A span of the timeline: of a warp that waited, or of a server of the SM that worked.

    `what`: the reason, or, from len(REASONS) on, the server; `step`: the execution that waited,
    or that gave the server its work.
    """

    _fields_ = [("start", F64), ("end", F64), ("warp", U32), ("op", U32), ("what", U32),
                ("sm", U32), ("step", U32)]  # fmt: skip


class ClockStand(ct.Structure):
    """Cycles in which a warp stood before an execution, for one reason.

    `step`: the execution, copy after copy in the order of the streams; `cause`: the one that ended
    the wait, NO_STEP where none did.
    """

    _fields_ = [("start", F64), ("end", F64), ("step", U32), ("cause", U32), ("why", U32),
                ("warp", U32)]  # fmt: skip


class ClockPartBusy(ct.Structure):
    """Cycles in which the servers of a sub-partition worked, and instructions that it issued."""

    _fields_ = [("issued", F64), ("busy", F64 * len(UNITS))]


STRUCTURES: tuple[type[ct.Structure], ...] = (
    ClockOp, ClockEvent, ClockWarp, ClockChip, ClockInput, ClockTotals, ClockWarpTimes,
    ClockOpTimes, ClockRecord, ClockStand, ClockPartBusy,
)  # fmt: skip

FUNCTIONS: dict[str, Signature] = {
    "sm100_clock_run": (
        U32,
        (
            ("input", ct.POINTER(ClockInput)), ("out_totals", ct.POINTER(ClockTotals)),
            ("out_warps", ct.POINTER(ClockWarpTimes)), ("out_ops", ct.POINTER(ClockOpTimes)),
            ("out_records", ct.POINTER(ClockRecord)), ("out_stands", ct.POINTER(ClockStand)),
            ("out_issued", ct.POINTER(F64)), ("out_parts", ct.POINTER(ClockPartBusy)),
        ),
    ),
}  # fmt: skip
"""Functions of the clocked machine; `out...` are written. `out_warps`: copy after copy.

`out_stands`, `out_issued` (when each execution was issued): only where `stand_room` is not 0.
`out_parts`: the sub-partitions of one SM after the other.
"""
