"""A call that was carried out, to be repeated with other tensors of the same layout.

All that follows from shapes, strides, types and options is kept: the kernel, its launch plan and
its parameters. A repeated call writes its addresses and factors into a parameter block, allocates O
and launches. No tensor is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count
from operator import or_
from typing import Any, Final, NamedTuple

import torch

from ...plan.facts.hardware import ADDRESS_ALIGN
from ...plan.launch.launch import kernel_scale
from ...plan.spec.params import KernelParams
from ..ask.arguments import Inputs, Options
from ..ask.lengths import Lengths
from ..ask.scales import scales_of
from .blocks import Block, Blocks
from .counters import counters_on
from .launch import Launched
from .looking import Look
from .operands import changed
from .pattern import Given, Pattern
from .sorting import NUMBERS, Arguments, Numbers

Factors = tuple[float, float]
_FACTORS: Final = ("scale_log2", "value_scale")
# Bound once: looking these up takes time in every call.
_empty, _empty_like, _FLOAT = torch.empty, torch.empty_like, torch.float32
_address, _is_grad_enabled = torch.Tensor.data_ptr, torch.is_grad_enabled
_turns = count()


class Step(NamedTuple):
    """A launch to be repeated.

    Attributes:
        blocks: its parameters.
        patches: (word of the block, index of the address) pairs.
        factors: (float of the block, index of the factor) pairs.
        launch: (block, addresses) -> None.
    """

    blocks: Blocks
    patches: tuple[tuple[int, int], ...]
    factors: tuple[tuple[int, int], ...]
    launch: Callable[[Block, Sequence[int]], None]


@dataclass(frozen=True, eq=False)
class Memory:
    """What the addresses of a call mean, in their order.

    Attributes:
        roles: parameters, or operands of tensor maps, that they are.
        sizes: bytes of each.
        num_read: how many are only read.
    """

    roles: tuple[str, ...]
    sizes: tuple[int, ...]
    num_read: int

    def patches(self, blocks: Blocks, params: KernelParams) -> tuple[tuple[int, int], ...]:
        """Return where the addresses go in the parameters of a launch."""
        index = {role: i for i, role in enumerate(self.roles)}
        pairs = ((param.name, param.name.removesuffix("_map")) for param in params.params)
        return tuple((blocks.word(n), index[role]) for n, role in pairs if role in index)


class Prepared:
    """One call, repeated for whatever has the same layout and options.

    Args:
        pattern: what the call is like.
        steps: its launches.
        memory: what the addresses mean.
    """

    def __init__(self, pattern: Pattern, steps: tuple[Step, ...], memory: Memory) -> None:
        """Keep what a call needs."""
        written = pattern.written
        self._problem, self._steps, self._memory = pattern.problem, steps, memory
        self._conversions = pattern.conversions
        self._given = pattern.given
        self._not_given = [0] * (len(pattern.roles) - len(pattern.given))
        self._like_q = pattern.like_q
        self._out = written["o"].shape, written["o"].dtype
        self._lse = written["lse"].shape if "lse" in written else None
        self._out_bytes, self._lse_bytes = (
            written[role].size if role in written else 0 for role in ("o", "lse")
        )
        partial = [made.numel for role, made in written.items() if role.startswith("partial")]
        self._workspace = sum(partial)
        self._partial_bytes = written["partial_o"].size if partial else 0
        self._num_counters = written["counters"].numel if "counters" in written else 0
        self._guard: Any = None
        self._look: Look | None = None
        self._lengths: Lengths | None = None
        self._places: list[int] = []
        self._apart: tuple[int, ...] = ()
        self._is_odd = self._is_of_grad = True
        self.used = 0
        self._factors: tuple[Numbers, Factors] = ([], (0.0, 0.0))

    def watch(self, guard: Any, given: Arguments, look: Look | None = None) -> None:
        """Recognise calls by ``guard``, and by the alignment of the tensors ``given``.

        Where values count, ``look`` returns the longest sequences by them.
        """
        if look is not None:
            self._look, self._lengths = look, look(given.tensors)
        everything = (*given.tensors, *given.written)
        self._guard = guard
        self._places = [t.data_ptr() % ADDRESS_ALIGN for t in everything]
        self._is_odd = any(self._places)
        # Guards know what requires gradients, and not whether any are asked for.
        self._is_of_grad = any(t.requires_grad for t in everything)

    def addresses_like(self, given: Arguments) -> list[int] | None:
        """Return the addresses of what is read if this is the same call but for them.

        Errors: those of the values that are looked at.
        """
        if self._guard is None or (self._is_of_grad and _is_grad_enabled()):
            return None
        tensors = given.tensors
        if given.written:
            tensors = [*tensors, *given.written]
        if not self._guard(*tensors):
            return None
        addresses = [*map(_address, tensors)]
        if 0 in addresses:
            return None
        is_odd = self._is_odd or reduce(or_, addresses) % ADDRESS_ALIGN
        if is_odd and [address % ADDRESS_ALIGN for address in addresses] != self._places:
            return None
        if self._look is not None and self._look(given.tensors) != self._lengths:
            return None
        return addresses[: len(given.tensors)]

    def factors(self, numbers: Numbers, inputs: Inputs, options: Given) -> Factors:
        """Return the factors of scores and of O as the kernel takes them.

        Raises:
            TypeError, ValueError: as ``fa4_cute.flash_attn`` of the scales.
        """
        known, found = self._factors
        if known == numbers:
            return found
        given: dict[str, Any] = {name: options.get(name) for name in NUMBERS} | dict(numbers)
        softmax_scale = given.pop("softmax_scale")
        scales = scales_of(Options(**given), inputs[0])
        problem = replace(self._problem, softmax_scale=softmax_scale, scales=scales)
        found = kernel_scale(problem.scale), float(scales.v)
        self._factors = numbers, found
        return found

    def may_write(self, addresses: Sequence[int], options: Given) -> bool:
        """Return whether ``out`` and ``lse`` of ``options`` lie apart from the given tensors."""
        out, lse = options.get("out"), options.get("lse")
        # What is not given ends before everything else.
        start_o = end_o = start_l = end_l = 0
        if out is not None:
            start_o = out.data_ptr()
            end_o = start_o + self._out_bytes
        if lse is not None:
            start_l = lse.data_ptr()
            end_l = start_l + self._lse_bytes
        # The buffers of a serving loop stay where they are: they were seen to lie apart.
        places = start_o, start_l, *addresses
        if places == self._apart:
            return True
        if start_o < end_l and start_l < end_o:
            return False
        for start, size in zip(addresses, self._given, strict=True):
            end = start + size
            if (start < end_o and start_o < end) or (start < end_l and start_l < end):
                return False
        self._apart = places
        return True

    def __call__(
        self, tensors: list[Any], options: Given, addresses: list[int], factors: Factors | None
    ) -> tuple[Any, Any]:
        """Return O, and LSE or None.

        Args:
            tensors: those that are given, as ``Arguments.tensors``.
            options: the keyword arguments of the call.
            addresses: theirs.
            factors: as of :meth:`factors`; None where no number is given.
        """
        self.used = next(_turns)
        q = tensors[0]
        if self._conversions:
            addresses += self._not_given
            alive = []
            for make, source, place in self._conversions:
                made = make(tensors[source])
                addresses[place] = made.data_ptr()
                alive.append(made)
        if "out" in options and options["out"] is not None:
            out = changed(options["out"])
        elif self._like_q:
            out = _empty_like(q)
        else:
            shape, dtype = self._out
            out = _empty(*shape, dtype=dtype, device=q.device)
        addresses.append(out.data_ptr())
        lse = None
        if self._lse is not None:
            lse = options.get("lse")
            lse = _empty(*self._lse, dtype=_FLOAT, device=q.device) if lse is None else changed(lse)
            addresses.append(lse.data_ptr())
        if self._workspace:
            workspace = _empty(self._workspace, dtype=_FLOAT, device=q.device)
            at = workspace.data_ptr()
            addresses += at, at + self._partial_bytes
        if self._num_counters:
            counters = counters_on(q.device, self._num_counters)
            addresses.append(counters.address)
        for blocks, patches, scaled, launch in self._steps:
            block = blocks.take()
            words = block.words
            for word, index in patches:
                words[word] = addresses[index]
            if factors is not None:
                for place, index in scaled:
                    block.floats[place] = factors[index]
            launch(block, addresses)
            blocks.give_back(block)
        return out, lse


Repeat = Callable[[Launched, Memory], tuple[Callable[[], Any], Callable[[Block, Any], None]]]


def prepared(pattern: Pattern, repeat: Repeat) -> Prepared:
    """Return what repeats a call.

    Args:
        pattern: what it is like.
        repeat: makes the launches of a device.
    """
    written = pattern.written
    sizes = (*pattern.sizes, *(made.size for made in written.values()))
    memory = Memory((*pattern.roles, *written), sizes, len(pattern.roles))
    steps = []
    for launched in pattern.launches:
        configure, launch = repeat(launched, memory)
        blocks = Blocks(launched.params, launched.packed.params, configure)
        names = launched.params.names
        factors = tuple((blocks.float(n), i) for i, n in enumerate(_FACTORS) if n in names)
        steps.append(Step(blocks, memory.patches(blocks, launched.params), factors, launch))
    return Prepared(pattern, tuple(steps), memory)
