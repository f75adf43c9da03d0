"""Variants of FlashAttention-4 that its authors and others have timed on a B200.

A variant is data: pairs of a knob and its value. The package's class is told before it compiles;
registers change in the PTX, as the compiler splits them by what `setmaxnreg` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final
from unittest import mock

Changes = tuple[tuple[str, Any], ...]
KNOBS: Final = ("kv_stage", "split_P_arrive", "use_tma_O", "ex2_emu_freq", "ex2_emu_start_frg",
                "poly_degree", "registers")  # fmt: skip
"""kv_stage: tiles of K and V in shared memory. split_P_arrive: columns of P after which P V starts,
0 for none. use_tma_O: whether O leaves by a bulk copy. ex2_emu_freq: of so many pairs of
exponentials some are polynomials; 0 for none. ex2_emu_start_frg: of a row's parts the first that
has polynomials. poly_degree: their degree. registers: of a softmax,
a correction and another warp, and what they become; of several the first that a kernel has."""
SPILL_FREE: Final[Changes] = tuple(
    ("registers", (own, (184, 80, 64))) for own in ((192, 80, 48), (192, 56, 72))
)
"""Its own split of registers for pairs of CTAs, where that for one CTA spills and this does not."""
SPILLING: Final = {False: ("bf16 d192/128 all",), True: ("bf16 d96 causal", "fp8 d192/128 causal")}
"""The families of which that is so, without its FA_CLC and with it."""
SETMAXNREG: Final = re.compile(r"(setmaxnreg\S+\s+)(\d+)")

_COMPILED: dict[Changes, dict[Any, Any]] = {}
"""Compiled kernels of each variant: the package's own cache does not know knobs."""


@contextmanager
def changed(changes: Changes) -> Iterator[None]:
    """Make the package compile a variant inside the block.

    Raises:
        ValueError: no such knob.
    """
    unknown = [name for name, _ in changes if name not in KNOBS]
    if unknown:
        raise ValueError(f"knob {unknown[0]!r}: it is none of {', '.join(KNOBS)}")
    from flash_attn.cute import interface, utils
    from flash_attn.cute.flash_fwd_sm100 import FlashAttentionForwardSm100 as Kernel

    knobs = dict(changes)
    forced = {k: v for k, v in knobs.items() if k not in ("registers", "poly_degree")}
    with ExitStack() as stack:
        if forced or "poly_degree" in knobs:
            own = _COMPILED.setdefault(changes, {})
            stack.enter_context(mock.patch.object(interface._flash_attn_fwd, "compile_cache", own))
        for name, value in forced.items():
            if name == "ex2_emu_freq":
                stack.enter_context(_emulation(Kernel, value))
            else:
                stack.enter_context(mock.patch.object(Kernel, name, _fixed(value), create=True))
        if "poly_degree" in knobs:
            plain = utils.ex2_emulation_2
            stack.enter_context(
                mock.patch.object(utils, "ex2_emulation_2", _of_degree(plain, knobs["poly_degree"]))
            )
        yield


def _fixed(value: Any) -> property:
    """An attribute that keeps its value, whatever it is set to."""
    return property(lambda _: value, lambda _, __: None)


def _of_degree(plain: Callable[..., Any], degree: int) -> Callable[..., Any]:
    def emulated(*given: Any, **options: Any) -> Any:
        return plain(*given, **{**options, "poly_degree": degree})

    return emulated


@contextmanager
def _emulation(kernel: Any, freq: int) -> Iterator[None]:
    """Another share of emulated exponentials, in the tables that the class looks into."""
    from flash_attn.cute import flash_fwd_sm100 as module

    with ExitStack() as stack:
        for table in (module._TUNING_CONFIG, module._FP8_TUNING_CONFIG):
            told = {key: {**entry, "ex2_emu_freq": freq} for key, entry in table.items()}
            stack.enter_context(mock.patch.dict(table, told))
        yield


def rewritten(ptx: str, changes: Changes) -> str:
    """The PTX with other registers, where a variant says so.

    Raises:
        ValueError: the kernel does not have the registers that shall change.
    """
    splits = [value for name, value in changes if name == "registers"]
    if not splits:
        return ptx
    found = {m[2] for m in SETMAXNREG.finditer(ptx)}
    of_each = (dict(zip(map(str, old), map(str, new), strict=True)) for old, new in splits)
    become = next((one for one in of_each if set(one) <= found), None)
    if become is None:
        wanted = " or ".join(str(old) for old, _ in splits)
        raise ValueError(f"registers: {wanted} shall change, and the kernel has {sorted(found)}")
    return SETMAXNREG.sub(lambda m: m[1] + become.get(m[2], m[2]), ptx)
