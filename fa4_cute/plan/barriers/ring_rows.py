"""Rows of a barrier table that belong to a ring of slots, or to buffers of key scales."""

from __future__ import annotations

from .barrier_spec import MMA_COMMIT, TMA_BYTES, Arrival, BarrierRow


def ring_rows(
    name: str, num_kv_stages: int, num_qk_stages: int = 1, scale_readers: int = 0,
    filled: tuple[Arrival, ...] = TMA_BYTES,
) -> list[BarrierRow]:
    """Rows of a ring: all "arrived", then all "read", one per slot and qk stage.

    ``scale_readers`` threads free stage 0 of each slot as well, besides the MMAs; ``filled`` says
    who arrives when a stage is there.
    """
    softmax = (Arrival("softmax", scale_readers),) if scale_readers else ()
    parts = [f"{slot}.{part}" for slot in range(num_kv_stages) for part in range(num_qk_stages)]
    full: list[BarrierRow] = [
        (f"{name}_full[{p}]", f"{name} slot {p} arrived", filled, "mma") for p in parts
    ]
    empty: list[BarrierRow] = [
        (
            f"{name}_empty[{p}]",
            f"{name} slot {p} read",
            MMA_COMMIT + (softmax if p.endswith(".0") else ()),
            "load",
        )
        for p in parts
    ]
    return full + empty


def scale_rows(num_bufs: int, readers: int) -> list[BarrierRow]:
    """Rows of ``num_bufs`` buffers of key scales, each read by ``readers`` softmax threads."""
    bufs = range(num_bufs)
    read = (Arrival("softmax", readers),)
    full: list[BarrierRow] = [
        (f"scale_full[{i}]", f"scales {i} arrived", TMA_BYTES, "softmax") for i in bufs
    ]
    return full + [(f"scale_empty[{i}]", f"scales {i} read", read, "load") for i in bufs]
