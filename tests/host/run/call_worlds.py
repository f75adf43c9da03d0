"""Calls drawn at random, right and wrong ones, and what becomes of them with a stand-in machine."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch
from hypothesis import strategies as st

import fa4_cute
from fa4_cute import masks, score_mods
from fa4_cute.host.compile import cache
from fa4_cute.host.run import calls, compute, simulator
from tests.host.compilers import artifact_of

HEADS, PAGE = 4, 16
ADDRESSES = (
    "lse", "o", "cu_seqlens_q", "cu_seqlens_k", "seqused_k", "page_table", "sink", "q_scale",
    "k_scale", "partial_o", "partial_lse", "counters",
)  # fmt: skip


@dataclass
class Machine:
    """Takes the place of compiler and simulator, and notes what it is given."""

    specs: dict[str, Any] = field(default_factory=dict)
    launches: list[tuple[str, Any, tuple[bytes, ...], list[Any]]] = field(default_factory=list)

    def compile(self, spec: Any) -> Any:
        artifact = artifact_of(spec) if hasattr(spec, "config") else mock.Mock(params=spec.params)
        artifact_name = getattr(spec, "name", "combine")
        self.specs[artifact_name] = spec
        return mock.Mock(ptx="", kernel_name=artifact_name, params=artifact.params)

    def launch(self, ptx: str, kernel: str, packed: Any, buffers: list[Any]) -> None:
        seen = [(b, b"" if b.writable else ctypes.string_at(b.address, b.size)) for b in buffers]
        self.launches.append((kernel, packed.plan, packed.params, seen))

    def told(self, given: set[int]) -> list[Any]:
        """Return the launches with a word for each address: given, the n-th written, or bytes."""
        told = []
        for kernel, plan, params, buffers in self.launches:
            written = [b for b, _ in buffers if b.writable]
            words: dict[int, Any] = {b.address: ("read", data) for b, data in buffers}
            words |= {at: ("given", at) for at in given}
            words |= {b.address: ("written", i, b.size) for i, b in enumerate(written)}
            values: list[Any] = []
            for param, value in zip(self.specs[kernel].params.params, params, strict=True):
                if param.kind == "tensor_map":
                    values.append((words[int.from_bytes(value[:8], "little")], value[8:]))
                elif param.name in ADDRESSES or param.name.rstrip("0123456789") in (
                    "padding", "bias", "aux",
                ):  # fmt: skip
                    at = int.from_bytes(value, "little")
                    values.append(words.get(at, at))
                else:
                    values.append(value)
            spans = {(str(words[b.address]), b.size, b.writable) for b, _ in buffers}
            grid = (plan.grid, plan.block, plan.cluster, plan.smem_bytes)
            told.append((kernel, grid, values, spans))
        return told


@contextmanager
def machine() -> Iterator[Machine]:
    """Compile and launch on a stand-in."""
    made = Machine()
    with (
        mock.patch.object(cache, "compiled", made.compile),
        mock.patch.object(simulator, "launch", made.launch),
    ):
        yield made


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, masks.AttentionMask):
            yield from (*value.lengths, *value.biases)
        elif isinstance(value, score_mods.ScoreModifier):
            yield from (t for t in value.tensors if isinstance(t, torch.Tensor))


def outcome(made: Machine, call: Callable[[], Any], given: set[int]) -> Any:
    """Return what a call does: the error, or launches and results."""
    made.launches.clear()
    try:
        results = call()
    except (TypeError, ValueError, NotImplementedError, RuntimeError) as error:
        return type(error), str(error), made.told(given)
    results = results if isinstance(results, tuple) else (results,)
    # Without a launch, what was filled in.
    filled = [] if made.launches else [r.tolist() for r in results]
    shapes = [(r.shape, r.stride(), r.dtype, r.requires_grad, r._is_view()) for r in results]
    return shapes, filled, made.told(given)


def takes_the_long_way(made: Machine, drawn: Drawn, kept: calls.Kept) -> bool:
    """Make a call without and with what is kept, to the same end; return which way it took."""
    with mock.patch.object(calls, "kept", calls.Kept(0)):
        slow = outcome(made, drawn, drawn.addresses)
    long_way = mock.patch.object(calls, "carry_out", wraps=compute.carry_out)
    with mock.patch.object(calls, "kept", kept), long_way as taken:
        assert outcome(made, drawn, drawn.addresses) == slow
    return taken.called


def base(shape: tuple[int, ...], dtype: torch.dtype, layout: str) -> torch.Tensor:
    """Return a tensor of one of several layouts."""
    if layout == "heads first" and len(shape) == 4:
        b, s, h, d = shape
        found = torch.ones(b, h, s, d).to(dtype).transpose(1, 2)
    elif layout == "wide":
        found = torch.ones(*shape[:-1], shape[-1] + 16).to(dtype)[..., : shape[-1]]
    elif layout == "misaligned":
        found = torch.ones(torch.Size(shape).numel() + 1).to(dtype)[1:].view(shape)
    elif layout == "strided":
        found = torch.ones(*shape[:-1], 2 * shape[-1]).to(dtype)[..., ::2]
    else:
        found = torch.ones(shape).to(dtype)
    if layout == "negated" and dtype is not torch.float8_e4m3fn:
        found = torch._neg_view(found)
    if layout == "parameter":
        found = torch.nn.Parameter(found, requires_grad=False)
    if layout == "grad" and dtype is not torch.float8_e4m3fn:
        found.requires_grad_()
    return found


LAYOUTS = ["plain"] * 24 + [
    "heads first", "heads first", "wide", "wide", "misaligned", "strided", "negated", "parameter",
    "grad",
]  # fmt: skip
SCALED = torch.float8_e4m3fn
DTYPES = [*[torch.bfloat16] * 6, torch.float16, *[torch.float8_e4m3fn] * 2, torch.float32]


@dataclass
class Drawn:
    """Arguments of a call."""

    inputs: tuple[torch.Tensor, ...]
    options: dict[str, Any]

    def __call__(self) -> Any:
        """Make it."""
        packed = "cu_seqlens_q" in self.options
        function = fa4_cute.flash_attn_varlen if packed else fa4_cute.flash_attn
        return function(*self.inputs, **self.options)

    @property
    def addresses(self) -> set[int]:
        """Where the given tensors lie."""
        return {t.data_ptr() for t in tensors_in((*self.inputs, *self.options.values()))}


def ints(*values: Any, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def floats(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    """Return numbers of one of several kinds."""
    if kind == "half":
        return torch.ones(shape).half()
    if kind == "strided":
        return torch.ones(*shape, 2)[..., 0]
    if kind == "nan":
        return torch.full(shape, float("nan"))
    return torch.ones(shape)


def scaled_by_head(score: Any, _b: Any, head: Any, _q: Any, _k: Any, aux: Any) -> Any:
    return score * aux[0][head]


KINDS = ["plain"] * 14 + ["half", "strided", "nan", "bool"]
PLACES = ["dense"] * 4 + ["used", "paged", "packed", "packed cache", "packed pages"]
LENGTHS = ["right", "too long", "int64", "shifted"]
CHOICES: dict[str, tuple[list[Any], list[Any]]] = {
    "causal": ([True, False], [1, None]),
    "softmax_scale": ([0.5, 0.25, 1, None], [0.0, -0.0, float("nan"), 1e300, True, "x"]),
    "return_lse": ([True, False], [0]),
    "window_size": ([(3, 0), (None, 2), None], [(True, 0), (3.0, 0), [3, 0], 5]),
    "softcap": ([2.0, 3.0, 0, 0.0], [-1.0]),
    "num_splits": ([2, 3, 1], [True, 0]),
    "scheduler": (["persistent", "tile", "dynamic"], [3]),
    "num_qo": ([1, 2], [3]),
    "unchecked": ([True, False], [1]),
    "aux_tensors": ([(), []], [(1,)]),
    "pair_cta": ([False], [True]),
    "is_causal": ([], [True]),
}
"""Values that need no tensors: right ones, and unusual or wrong ones."""
TENSORS = ("mask", "score_mod", "sink", "scales", "rope", "out", "lse")


@dataclass(frozen=True)
class Recipe:
    """What a call is like; the same recipe makes calls of the same layout."""

    place: str
    dtype: torch.dtype
    seqlens: tuple[int, int]
    layouts: tuple[str, str, str]
    constants: tuple[tuple[str, Any], ...]
    tensors: tuple[tuple[str, str], ...]
    lengths: str

    def make(self, number: float) -> Drawn:
        """Return a call with tensors of its own; ``number`` is a factor where there is one."""
        q, k, v = (
            base(s, self.dtype, layout)
            for s, layout in zip(self._shapes, self.layouts, strict=True)
        )
        options = dict(self.constants) | self._places(k)
        for name, kind in self.tensors:
            options |= self._extra(name, kind, q, number)
        return Drawn((q, k, v), options)

    @property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        n, m = self.seqlens
        q = (2 * n, HEADS, 64) if self.place.startswith("packed") else (2, n, HEADS, 64)
        if self.place == "packed":
            k: tuple[int, ...] = (2 * m, 2, 64)
        elif "page" in self.place:
            k = (4, PAGE, 2, 64)
        else:
            k = (2, m, 2, 64)
        return q, k, k

    def _places(self, k: torch.Tensor) -> dict[str, Any]:
        n, m = self.seqlens
        wrong = {"too long": 1000, "int64": 0}.get(self.lengths, 0)
        kind = torch.int64 if self.lengths == "int64" else torch.int32
        found: dict[str, Any] = {}
        if self.place.startswith("packed"):
            found |= {"cu_seqlens_q": ints(0, n, 2 * n, dtype=kind), "max_seqlen_q": n + 1}
        if self.place == "packed":
            found |= {"cu_seqlens_k": ints(0, 1, 2 * m + wrong, dtype=kind), "max_seqlen_k": 2 * m}
        if "page" in self.place:
            found["page_table"] = ints([0, 1], [3, 2 + wrong], dtype=kind)
        if "page" in self.place or self.place in ("used", "packed cache"):
            found["seqused_k"] = ints(1, min(m, 17) + wrong, dtype=kind)
        if self.lengths == "shifted":
            found = {n: torch.cat((t.flatten()[:1], t.flatten()))[1:].view(t.shape)
                     if isinstance(t, torch.Tensor) else t for n, t in found.items()}  # fmt: skip
        return found

    def _extra(self, name: str, kind: str, q: torch.Tensor, number: float) -> dict[str, Any]:
        if name == "mask":
            if kind == "bool":
                return {"mask": torch.ones(1, HEADS, 1, 64, dtype=torch.bool)}
            bias = floats((1, HEADS, 1, 64), "plain" if kind == "nan" else kind)
            padding = masks.padding(ints(5, -1 if kind == "nan" else 7))
            return {"mask": masks.bias(bias) & padding if kind != "strided" else padding}
        if name == "score_mod":
            slopes = score_mods.alibi(floats((HEADS,), kind))
            if kind == "bool":
                return {"score_mod": scaled_by_head, "aux_tensors": (floats((HEADS,), "half"),)}
            return {"score_mod": slopes if kind != "half" else lambda score, *_: score}
        if name == "sink":
            return {"sink": floats((HEADS,), kind)}
        if name == "scales":
            one = torch.full((1,), number) if kind != "plain" else number
            token = {"q_scale": torch.ones(q.shape[:-1])} if kind == "strided" else {}
            of_values = {"v_scale": one, "k_scale": one} | token
            return {"softmax_scale": number} | (of_values if q.dtype is SCALED else {})
        if name == "rope":
            shape = (*self._shapes[0][:-1], 64), (*self._shapes[1][:-2], 1, 64)
            return dict(
                zip(("q_rope", "k_rope"), (torch.ones(s).bfloat16() for s in shape), strict=True)
            )
        if name == "lse":
            rows = (*q.shape[:-3], q.shape[-2], q.shape[-3])
            return {"lse": floats(rows, kind), "return_lse": True}
        if kind == "nan":
            return {"out": q}
        return {"out": torch.ones(q.shape, dtype=torch.half if kind == "half" else torch.bfloat16)}


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """Draw a recipe; most have little that is unusual."""
    names = draw(st.lists(st.sampled_from(sorted(CHOICES)), max_size=4, unique=True))
    constants = []
    for name in names:
        right, odd = CHOICES[name]
        if right or draw(st.integers(0, 9)) == 9:
            constants.append((name, draw(st.sampled_from(right * 6 + odd))))
    layout = st.sampled_from(LAYOUTS)
    extras = draw(st.lists(st.sampled_from(TENSORS), max_size=2, unique=True))
    return Recipe(
        place=draw(st.sampled_from(PLACES)),
        dtype=draw(st.sampled_from(DTYPES)),
        seqlens=(
            draw(st.sampled_from([5, 5, 5, 1, 1, 0])),
            draw(st.sampled_from([20, 20, 20, 33, 33, 0])),
        ),
        layouts=draw(st.tuples(layout, layout, layout)),
        constants=tuple(constants),
        tensors=tuple((name, draw(st.sampled_from(KINDS))) for name in extras),
        lengths=draw(st.sampled_from(["right"] * 9 + LENGTHS)),
    )


@st.composite
def neighbourhoods(draw: st.DrawFn) -> list[Recipe]:
    """Draw a recipe and two that differ from it in one thing, or in nothing."""
    first = draw(recipes())
    found = [first]
    for _ in range(2):
        other = draw(recipes())
        what = draw(st.sampled_from(["lengths", "layouts", "constants", "constants", "seqlens"]))
        value = getattr(other, what)
        if what == "lengths":
            value = draw(st.sampled_from(LENGTHS))
        if what == "layouts":
            value = (draw(st.sampled_from(LAYOUTS[-10:])), *first.layouts[1:])
        if what == "constants" and first.constants:
            name, _ = first.constants[-1]
            right, odd = CHOICES[name]
            value = (*first.constants[:-1], (name, draw(st.sampled_from(right + odd))))
        found.append(replace(first, **{what: value}))
    return found
