"""A call that was carried out, to be repeated with other tensors of the same layout.

All that follows from shapes, strides, types and options is kept: the kernel, its launch plan and
its parameters. A repeated call writes its addresses and factors into a parameter block, allocates O
and launches. No tensor is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

import torch

from ...plan.launch.launch import kernel_scale
from ...plan.spec.params import KernelParams
from ..ask.arguments import Inputs, Options
from ..ask.outputs import span
from ..ask.problem import Problem
from ..ask.request import Request
from ..ask.scales import scales_of, token_scales_of
from ..ask.sequences import Sequences, row_offsets
from .blocks import Block, Blocks
from .known import TMA_ALIGN
from .launch import Launched
from .operands import Call, changed
from .sorting import NUMBERS, Arguments, Numbers

Factors = tuple[float, float]
Given = Mapping[str, Any]
Derive = Callable[[Inputs, Given], tuple[Any, ...]]
SLOTS: Final = ("padding", "bias", "aux")
"""Parameters of which a kernel may have several, numbered from 0."""
_OPERANDS: Final = ("q", "k", "v", "q_rope", "k_rope")
_SINGLE: Final = (
    "sink", "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table", "q_scale", "k_scale",
)  # fmt: skip
_FACTORS: Final = ("scale_log2", "value_scale")
# Bound once: looking these up takes time in every call.
_empty, _empty_like, _FLOAT = torch.empty, torch.empty_like, torch.float32
_address = torch.Tensor.data_ptr
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
        problem: what the call asks for.
        steps: its launches.
        memory: what the addresses mean.
        written: results and workspaces of the first call, by role; only their layouts are kept.
        derived: what makes tensors that only the kernel reads.
        like_q: whether O has shape, strides and type of q.
    """

    def __init__(
        self,
        problem: Problem,
        steps: tuple[Step, ...],
        memory: Memory,
        written: Mapping[str, Any],
        derived: tuple[Derive, ...],
        *,
        like_q: bool,
    ) -> None:
        """Keep what a call needs."""
        self._problem, self._steps, self._derived = problem, steps, derived
        self._memory = memory
        self._like_q = like_q
        self._out = tuple(written["o"].shape), written["o"].dtype
        self._lse = tuple(written["lse"].shape) if "lse" in written else None
        partial = [tensor.numel() for role, tensor in written.items() if role.startswith("partial")]
        self._workspace = sum(partial)
        self._guard: Any = None
        self._places: list[int] = []
        self._is_odd = True
        self.used = 0
        self._factors: tuple[Numbers, Factors] = ([], (0.0, 0.0))

    def watch(self, guard: Any, given: Arguments) -> None:
        """Recognise calls by ``guard``, and by the alignment of the tensors ``given``."""
        self._guard = guard
        self._places = [t.data_ptr() % TMA_ALIGN for t in (*given.tensors, *given.written)]
        self._is_odd = any(self._places)

    def addresses_like(self, given: Arguments) -> list[int] | None:
        """Return the addresses of what is read if this is the same call but for them."""
        if given.looks or self._guard is None:
            return None
        tensors = given.tensors
        if given.written:
            tensors = [*tensors, *given.written]
        if not self._guard(*tensors):
            return None
        addresses = [*map(_address, tensors)]
        bits = 0
        for address in addresses:
            bits |= address
        is_odd = self._is_odd or bits % TMA_ALIGN
        if is_odd and [address % TMA_ALIGN for address in addresses] != self._places:
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
        known = list(zip(addresses, self._memory.sizes, strict=False))
        for name, role in (("out", "o"), ("lse", "lse")):
            if options.get(name) is not None:
                start = options[name].data_ptr()
                size = self._memory.sizes[self._memory.roles.index(role)]
                if any(at < start + size and start < at + n for at, n in known):
                    return False
                known.append((start, size))
        return True

    def __call__(
        self, inputs: Inputs, options: Given, addresses: list[int], factors: Factors | None
    ) -> tuple[Any, Any]:
        """Return O, and LSE or None.

        Args:
            inputs: q, k and v.
            options: the keyword arguments of the call.
            addresses: those of the tensors that are given.
            factors: as of :meth:`factors`; None where no number is given.
        """
        self.used = next(_turns)
        q = inputs[0]
        if self._derived:
            alive = [tensor for derive in self._derived for tensor in derive(inputs, options)]
            addresses += [tensor.data_ptr() for tensor in alive]
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
            addresses += at, at + self._memory.sizes[-2]
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


def prepare(
    asked: Request,
    call: Call,
    launches: Sequence[Launched],
    given: Mapping[str, Any],
    repeat: Repeat,
) -> Prepared | None:
    """Return how to repeat a call, or None where that takes more than other addresses.

    Args:
        asked: the call.
        call: its memory.
        launches: what was launched for it.
        given: the tensors that were given, by role, in the order of a repeated call's addresses.
        repeat: makes the launches of a device.
    """
    read = _by_role(asked, call)
    derived = _derived(asked, given, read)
    if derived is None or any(read[name].numel() == 0 for name in _OPERANDS if name in read):
        return None
    roles = [*given]
    tensors = [*given.values()]
    for names, _ in derived:
        roles += names
        tensors += [read[name] for name in names]
    written = _written(call)
    spans = [span(tensor) for tensor in (*tensors, *written.values())]
    memory = Memory((*roles, *written), tuple(end - start for start, end in spans), len(roles))
    steps = []
    for launched in launches:
        configure, launch = repeat(launched, memory)
        blocks = Blocks(launched.params, launched.packed.params, configure)
        names = launched.params.names
        factors = tuple((blocks.float(n), i) for i, n in enumerate(_FACTORS) if n in names)
        steps.append(Step(blocks, memory.patches(blocks, launched.params), factors, launch))
    derive = tuple(derive for _, derive in derived)
    q, out = asked.inputs[0], call.out
    like_q = (q.shape, q.stride(), q.dtype) == (out.shape, out.stride(), out.dtype)
    return Prepared(asked.problem, tuple(steps), memory, written, derive, like_q=like_q)


def _by_role(asked: Request, call: Call) -> dict[str, Any]:
    """Return every tensor that the kernel reads, under the name of its parameter."""
    tensors = asked.tensors
    found = dict(zip(_OPERANDS, call.inputs, strict=False))
    if tensors.q_rope is not None:
        found["q_rope"], found["k_rope"] = call.read[-2:]
    found |= {name: getattr(tensors, name) for name in _SINGLE}
    for kind, several in zip(SLOTS, (tensors.padding, tensors.biases, tensors.aux), strict=True):
        found |= {f"{kind}{i}": tensor for i, tensor in enumerate(several)}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _written(call: Call) -> dict[str, Any]:
    """Return every tensor that a call writes, under the name of its parameter."""
    found = {"o": call.out, "lse": call.lse}
    found |= zip(("partial_o", "partial_lse"), call.partial, strict=False)
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _derived(
    asked: Request, given: Mapping[str, Any], read: Mapping[str, Any]
) -> list[tuple[tuple[str, ...], Derive]] | None:
    """Return what makes the tensors that were not given; None where something was copied."""
    moved = {
        role for role, tensor in read.items()
        if role not in given or tensor.data_ptr() != given[role].data_ptr()
    }  # fmt: skip
    derived: list[tuple[tuple[str, ...], Derive]] = []
    for role in [role for role in moved if role.startswith("aux") and role not in given]:
        derived.append(((role,), partial(_offsets, asked.problem.batch)))
        moved -= {role}
    if "k_scale" in moved or "q_scale" in moved:
        derived.append((("q_scale", "k_scale"), partial(_token_scales, _where(asked))))
        moved -= {"q_scale", "k_scale"}
    return None if moved else derived


def _offsets(batch: int, inputs: Inputs, options: Given) -> tuple[Any, ...]:
    return (row_offsets(inputs, options, batch),)


def _token_scales(
    where: Callable[[Given], Sequences], inputs: Inputs, options: Given
) -> tuple[Any, ...]:
    """Return the scales of every token as the kernel reads them, those of q and those of k."""
    given = Options(q_scale=options.get("q_scale"), k_scale=options.get("k_scale"))
    return token_scales_of(given, *inputs[:2], where=where(options))


def _where(asked: Request) -> Callable[[Given], Sequences]:
    """Return what makes the sequences of a repeated call."""
    problem = asked.problem
    sizes = problem.batch, problem.seqlen_q, problem.seqlen_k
    names = ("cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table")

    def where(options: Given) -> Sequences:
        tensors: dict[str, Any] = {name: options.get(name) for name in names}
        return Sequences(*sizes, page_size=problem.features.page_size, **tensors)

    return where
