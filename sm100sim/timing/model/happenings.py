"""What each event of a trace takes on a chip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from ..chips import Draw
from ..records import SECTOR_BYTES, Action, DynamicEvent, atomic

ROW_BYTES: Final = 128
SHORT_ROW_BYTES: Final = 64
"""Rows of boxes of at most so many bytes take less time than longer ones."""
FRESH_OF_TWO: Final = 0.5
"""Share of rows that two SMs read which is fresh for each."""
MMA_BYTES: Final = 32
"""Bytes of a row of A or B that one tcgen05.mma reads, whatever the type."""


@dataclass(frozen=True)
class Happening:
    """What an execution does, in the words of the machine.

    Attributes:
        action: of `sm100sim.contract.clock.ACTIONS`. count, size: arrivals or groups, and bytes.
        service, latency, passes, memory: cycles of its unit, then to its end; passes of shared
            memory; cycles of the SM's share of the L2.
        pair: two SMs work.
    """

    action: str
    count: int = 0
    size: int = 0
    service: float = 0
    latency: float = 0
    passes: float = 0
    memory: float = 0
    pair: bool = False


def happening_of(event: DynamicEvent, draw: Draw) -> Happening | None:
    """Return what an event takes; None where the instruction says it all."""
    return RULES[event.kind](event, draw)


def _memory_cycles(size: float, draw: Draw, fresh: float, sharing: float | None) -> float:
    """Cycles of an SM's way to the L2, and of what is fresh to memory.

    An SM that asks the L2 alone has its port to itself, and its share of the L2 when all ask at
    once; in between, `l2_pressure` (0 to 1) says how much they ask; `hbm_pressure` says the same
    of memory, but of rows that are an SM's own: there it is in the latency (`_answer`).

    Args:
        size, draw: bytes, of a chip. fresh: share of them that comes from memory.
        sharing: an SM's share of the L2 (`_share`); none has its port to itself.
    """
    port = draw["copy_bytes"]
    press = draw.values.get("l2_pressure", 1) if sharing else 0
    rate = port + (min(sharing or port, port) - port) * press
    cycles = size * (1 - fresh) / rate
    if fresh:
        memory = draw["hbm_gbytes"] * 1e3 / draw["clock_mhz"] / draw["sms"]
        waits = sharing is None or _by_chunks(fresh, draw)
        press = 0 if waits else draw.values.get("hbm_pressure", 1)
        memory = rate + (min(memory, rate) - rate) * press
        cycles += size * fresh / memory
    return cycles


def _share(event: DynamicEvent, draw: Draw, most: str = "l2_shared_bytes") -> float:
    """Bytes a cycle that an SM gets of the L2 where all SMs ask.

    Rows that n SMs ask for come out of the L2 once: each gets n times its share, up to `most`. An
    H200's SMs get 30, 52, 74 and 74 bytes a cycle of rows that 1, 2, 4 and 12 copy by boxes.
    """
    share = draw["l2_bytes"] / draw["sms"] * event.sharers
    return min(share, draw.values.get(most, draw["copy_bytes"]))


def _by_chunks(fresh: float, draw: Draw) -> bool:
    """Whether rows come chunk by chunk: those of one SM, where a chip says how chunks deviate."""
    return fresh > FRESH_OF_TWO and "hbm_deviation" in draw.values


def _copied(near: float, event: DynamicEvent, draw: Draw) -> float:
    """Cycles until a copy has ended; ``near``: of rows of the L2.

    Where a chip says what copies wait for (`copy_memory_latency`) all who share rows of memory do:
    they ask while those of the first are under way, and cannot get ahead of it. 16 of an H200's SMs
    that copy the same step by step each wait 742 to 764 cycles longer than for rows of the L2, and
    where all do 679 (sharing/cold.py). Else what is waited for is spread over all who ever ask.
    """
    shared = draw.values.get("copy_memory_latency")
    if shared is None or _by_chunks(event.fresh, draw):
        return _answer(near, event, draw)
    return near + shared * (event.fresh > 0)


def _answer(near: float, event: DynamicEvent, draw: Draw) -> float:
    """Cycles until the last chunk of what is loaded is there; ``near``: of rows of the L2.

    `hbm_slower`: how many times as long what comes from memory takes, for others that wait for it.
    """
    far = near + draw["hbm_latency"] + event.late * draw.values.get("hbm_deviation", 0)
    return near + event.fresh * (max(far, near) * draw.values.get("hbm_slower", 1) - near)


def _plain(action: str) -> Callable[[DynamicEvent, Draw], Happening]:
    return lambda event, draw: Happening(action, event.count, event.size)


def _static(event: DynamicEvent, draw: Draw) -> None:
    return None


def mma_passes(rows: int, columns: int, *, tmem: bool, pair: bool) -> float:
    """Return 128-byte passes of the operands of an MMA in one SM: rows of A, rows of B.

    In a pair each SM reads its rows of A and half of B.
    """
    share = 2 if pair else 1
    return ((0 if tmem else rows / share) + columns / share) * MMA_BYTES / ROW_BYTES


def _mma(event: DynamicEvent, draw: Draw) -> Happening:
    rows, columns = event.shape[:2]
    pair, tmem = "pair" in event.detail, "a_tmem" in event.detail
    passes = mma_passes(rows, columns, tmem=tmem, pair=pair)
    extra = draw["mma_pair_passes"] if pair else 0
    front = draw["mma_front"] - (draw["mma_tmem_front_saved"] if tmem else 0)
    front += draw["mma_pair_extra"] if pair else 0
    service = max(columns / 2, passes + extra)
    return Happening("mma", 0, 0, service, max(front, 0), passes, pair=pair)


def _copy_load(event: DynamicEvent, draw: Draw) -> Happening:
    """Rows of a box one after the other; bytes that lie in one row have no such limit.

    Of boxes of 256 rows and 8, 16 or 32 in turn an H200 copies one row a cycle (sharing/skews.py):
    few rows take no longer. Boxes are begun `copy_issue_cycles` apart, while it works at others.
    """
    service = event.size / draw["copy_bytes"]
    rows, row_bytes = event.shape[:2] if event.shape else (1, event.size)
    if rows > 1:
        each = draw[f"copy_{'short_' * (row_bytes <= SHORT_ROW_BYTES)}row_cycles"]
        service = max(service, rows * -(-row_bytes // ROW_BYTES) * each)
    near = "shared" in event.detail
    latency = _copied(draw["copy_latency"], event, draw)
    return Happening(
        "copy load",
        size=event.size,
        service=service,
        latency=draw["remote_latency"] if near else latency,
        memory=0 if near else _memory_cycles(event.size, draw, event.fresh, _share(event, draw)),
    )


def _store_cycles(size: float, draw: Draw) -> float:
    """Cycles of an SM's way for what lanes store, alone or with others (`l2_pressure`).

    One of an H200's SMs gets 28 to 38 bytes a cycle rid of, by lanes as by boxes. Where all store
    by lanes each gets rid of 11 to 24, also after pauses of 20,000 cycles (sharing/accesses.py). By
    boxes all do as one where they pause (16 to 48 KB every 4,000 cycles, sharing/cold.py).
    """
    rate = draw["store_bytes"]
    share = min(draw["l2_write_bytes"] / draw["sms"], rate)
    return size / (rate + (share - rate) * draw.values.get("l2_pressure", 1))


def _copy_store(event: DynamicEvent, draw: Draw) -> Happening:
    service = max(draw["copy_issue_cycles"], event.size / draw["store_bytes"])
    memory = _memory_cycles(event.size, draw, 0, _share(event, draw))
    return Happening("copy store", service=service, memory=memory)


def _bulk_wait(event: DynamicEvent, draw: Draw) -> Happening:
    latency = draw["store_read_latency"]
    latency += 0 if "read" in event.detail else draw["store_latency"]
    return Happening("bulk wait", event.count, latency=latency)


def _tmem(action: str, latency: str) -> Callable[[DynamicEvent, Draw], Happening]:
    """Pairs of columns that begin at an even one; packing, and 16x256b with its banks, double it.

    Source: cicuvc/nvidia-sass-document, notes/sm100/instr/ldtm @031228cf.
    """

    def rule(event: DynamicEvent, draw: Draw) -> Happening:
        columns = event.shape[1] + event.address % 2
        double = 2 if {"packed", "16x256b"} & set(event.detail) else 1
        service = (columns + columns % 2) * draw["tmem_column_cycles"] * double
        return Happening(action, service=service, latency=draw[latency])

    return rule


def _tmem_copy(event: DynamicEvent, draw: Draw) -> Happening:
    """Of the tensor core's queue: 64 bytes a cycle and sub-partition, read from shared memory."""
    rows, columns = event.shape
    passes = rows * columns * 4 / ROW_BYTES
    return Happening("mma", service=passes, latency=draw["mma_front"], passes=passes)


def _shared(event: DynamicEvent, draw: Draw) -> Happening:
    latency = draw["shared_latency"]
    latency += draw["remote_latency"] if "remote" in event.detail else 0
    size = event.size if event.objects else 0  # bytes that a barrier hears of
    return Happening("shared", size=size, latency=latency, passes=max(event.wavefronts, 1))


def _global(event: DynamicEvent, draw: Draw) -> Happening:
    """What of stores goes to memory is the launch's to count."""
    fresh = event.fresh if event.detail[:1] == ("ld",) else 0
    service = 0.0
    if event.detail and event.detail[0].startswith("st") and "l2_write_bytes" in draw.values:
        service = _store_cycles(event.sectors * SECTOR_BYTES, draw)
    sharing = None if "hbm_ahead" in draw.values else _share(event, draw)
    memory = _memory_cycles(event.sectors * SECTOR_BYTES, draw, fresh, sharing)
    latency = _answer(draw["global_latency"], replace(event, fresh=fresh), draw)
    if atomic(event):
        latency += draw.values.get("atomic_latency", 0)
    return Happening("global", service=service, latency=latency, memory=memory)


def _lane_copy(event: DynamicEvent, draw: Draw) -> Happening:
    sharing = _share(event, draw, "l2_lane_bytes")
    memory = _memory_cycles(event.sectors * SECTOR_BYTES, draw, event.fresh, sharing)
    latency = _copied(draw["global_latency"], event, draw)
    passes = max(event.wavefronts, 1)
    return Happening("lane copy", latency=latency, passes=passes, memory=memory)


def _local(event: DynamicEvent, draw: Draw) -> Happening:
    """Spilled registers: lines of the L1, which is the shared memory's array."""
    passes = max(event.sectors * SECTOR_BYTES / ROW_BYTES, 1)
    return Happening("shared", latency=draw["local_latency"], passes=passes)


def _registers(event: DynamicEvent, draw: Draw) -> Happening:
    return Happening("block", latency=draw["setmaxnreg_cycles"])


RULES: Final[dict[Action, Callable[[DynamicEvent, Draw], Happening | None]]] = {
    Action.MBARRIER_INIT: _plain("mbarrier init"),
    Action.MBARRIER_ARRIVE: _plain("mbarrier arrive"),
    Action.MBARRIER_WAIT: _plain("mbarrier wait"),
    Action.MMA: _mma,
    Action.MMA_COMMIT: _plain("mma commit"),
    Action.WGMMA: _static,
    Action.WGMMA_COMMIT: _static,
    Action.WGMMA_WAIT: _static,
    Action.COPY_LOAD: _copy_load,
    Action.COPY_STORE: _copy_store,
    Action.CP_ASYNC: _lane_copy,
    Action.CP_COMMIT: _plain("bulk commit"),
    Action.CP_WAIT: _plain("bulk wait"),
    Action.BULK_COMMIT: _plain("bulk commit"),
    Action.BULK_WAIT: _bulk_wait,
    Action.TMEM_LOAD: _tmem("tmem load", "tmem_load_latency"),
    Action.TMEM_STORE: _tmem("tmem store", "tmem_store_latency"),
    Action.TMEM_COPY: _tmem_copy,
    Action.SHARED: _shared,
    Action.GLOBAL: _global,
    Action.LOCAL: _local,
    Action.NAMED_BARRIER: _plain("named sync"),
    Action.NAMED_ARRIVE: _plain("named arrive"),
    Action.CLUSTER_ARRIVE: _plain("cluster arrive"),
    Action.CLUSTER_WAIT: _plain("cluster wait"),
    Action.REGISTERS: _registers,
}
"""What an event of each kind takes."""
